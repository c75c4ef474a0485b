//===- ProgramKernels.cpp - What kernels take -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ProgramKernels.h"

#include "ProgramCheck.h"

#include "optimus-support/Hash.h"

#include <algorithm>
#include <cstdio>

namespace optimus_support::program {

//===----------------------------------------------------------------------===//
// As text
//===----------------------------------------------------------------------===//

static std::string describe(const Extent &extent) {
  std::string text = std::to_string(extent.scale());
  if (extent.by_iterations())
    text += "*iterations";
  if (extent.scalar() != kNone)
    text += concat("*scalar", extent.scalar());
  return text;
}

std::string countText(double count) {
  char digits[48];
  std::snprintf(digits, sizeof(digits), "%.0f", count);
  return digits;
}

std::string describe(const KernelT &kernel) {
  static constexpr std::string_view accesses[] = {"", " read", " write",
                                                  " update"};
  std::string text = kernel.name + "(";
  for (const std::unique_ptr<KernelBufferT> &buffer : kernel.buffers) {
    text += &buffer == &kernel.buffers.front() ? "" : ", ";
    for (const Extent &extent : buffer->extents) {
      text += &extent == &buffer->extents.front() ? "" : "+";
      text += describe(extent);
    }
    text += concat(" ", toString(buffer->type),
                   accesses[static_cast<int>(buffer->access)],
                   buffer->by_columns ? " by columns" : "");
  }
  for (const std::unique_ptr<KernelScalarT> &scalar : kernel.scalars) {
    text += &scalar == &kernel.scalars.front() ? "; " : ", ";
    text += toString(scalar->type);
    if (scalar->type == ElementType::I64)
      text += concat(" ", scalar->least, " to ", scalar->most);
  }
  text += concat(") of ", kernel.iterations, " iterations");
  if (const KernelAttentionT *attention = kernel.attention.get())
    text += concat(" of attention", attention->gradient ? "'s gradient" : "",
                   attention->causal ? ", causal" : "", ", seq ",
                   attention->seq, ", head_dim ", attention->head_dim, ", ",
                   countText(attention->flops), " flops");
  return text;
}

uint64_t signatureHash(const KernelT &kernel) {
  return hash64(describe(kernel));
}

//===----------------------------------------------------------------------===//
// From launches
//===----------------------------------------------------------------------===//

/// What one launch shows of its kernel.
static KernelT signatureOf(const FunctionT &function, const CommandT &command,
                           const Mesh &mesh) {
  const LaunchT &launch = *command.action.AsLaunch();
  KernelT kernel;
  kernel.iterations = launch.extent;
  for (const std::unique_ptr<OperandT> &operand : command.operands) {
    auto buffer = std::make_unique<KernelBufferT>();
    buffer->type = operand->type;
    buffer->access = operand->access;
    buffer->extents.emplace_back(
        operand->row_bytes / elementBytes(operand->type), kNone, false);
    kernel.buffers.push_back(std::move(buffer));
  }
  for (uint32_t number : launch.scalars) {
    auto scalar = std::make_unique<KernelScalarT>();
    const IntegerT *integer = function.scalars[number]->number.AsInteger();
    scalar->type = integer ? ElementType::I64 : ElementType::F32;
    if (integer) {
      // One whose range does not fit is refused whatever is said here.
      const Range range = rangeOf(*integer, mesh).value_or(Range());
      scalar->least = range.least;
      scalar->most = range.most;
    }
    kernel.scalars.push_back(std::move(scalar));
  }
  return kernel;
}

/// The signature of a reducing kernel, as far as one collective shows it.
static KernelT signatureOf(const CollectiveT &collective,
                           const CommandT &command, const Mesh &mesh) {
  int64_t members = 1;
  for (uint32_t axis : collective.axes)
    members *= mesh.axisSize(static_cast<int>(axis));
  KernelT kernel;
  kernel.iterations = collective.outer * collective.inner;
  auto add = [&](Access access, int64_t count) {
    for (int64_t i = 0; i != count; ++i) {
      auto buffer = std::make_unique<KernelBufferT>();
      buffer->type = command.operands[0]->type;
      buffer->access = access;
      buffer->extents.emplace_back(kernel.iterations, kNone, false);
      kernel.buffers.push_back(std::move(buffer));
    }
  };
  add(Access::Read, members);
  add(Access::Write,
      collective.kind == CollectiveKind::AllReduce ? members : 1);
  return kernel;
}

/// The signature of a copying kernel, as far as one copy shows it.
static KernelT signatureOf(const CopyT &copy, const CommandT &command) {
  KernelT kernel;
  kernel.iterations = copy.rows * copy.cols;
  auto add = [&](Access access, int64_t ld) {
    auto buffer = std::make_unique<KernelBufferT>();
    buffer->type = command.operands[0]->type;
    buffer->access = access;
    buffer->extents.emplace_back((copy.rows - 1) * ld + copy.cols, kNone,
                                 false);
    kernel.buffers.push_back(std::move(buffer));
  };
  add(Access::Read, copy.src_ld);
  add(Access::Write, copy.dst_ld);
  return kernel;
}

/// The signature of a kernel that sums rows of B, as far as one product shows
/// it.
static KernelT signatureOf(const GemmT &gemm, const CommandT &command) {
  KernelT kernel;
  kernel.iterations = gemm.n;
  auto add = [&](Access access, size_t operand, int64_t elements) {
    auto buffer = std::make_unique<KernelBufferT>();
    buffer->type = command.operands[operand]->type;
    buffer->access = access;
    buffer->extents.emplace_back(elements, kNone, false);
    kernel.buffers.push_back(std::move(buffer));
  };
  add(Access::Read, 1, gemm.k * gemm.n);
  add(Access::Write, 3, gemm.n);
  return kernel;
}

/// The kernel that a command is done by; kNone for none.
static uint32_t kernelOf(const CommandT &command) {
  if (const LaunchT *launch = command.action.AsLaunch())
    return launch->kernel;
  if (const CopyT *copy = command.action.AsCopy())
    return copy->kernel;
  if (const GemmT *gemm = command.action.AsGemm())
    return gemm->kernel;
  const CollectiveT *collective = command.action.AsCollective();
  return collective ? collective->kernel : kNone;
}

/// What both have in common: the kernel needs no more than the smaller buffer,
/// and bears what either gives it.
static void join(KernelT &kernel, const KernelT &other) {
  kernel.iterations = std::max(kernel.iterations, other.iterations);
  const size_t buffers = std::min(kernel.buffers.size(), other.buffers.size()),
               scalars = std::min(kernel.scalars.size(), other.scalars.size());
  for (size_t i = 0; i != buffers; ++i) {
    KernelBufferT &mine = *kernel.buffers[i];
    const KernelBufferT &its = *other.buffers[i];
    const int64_t least =
        std::min(mine.extents[0].scale(), its.extents[0].scale());
    mine.extents[0] = Extent(least, kNone, false);
    const auto both =
        static_cast<Access>(uint8_t(mine.access) & uint8_t(its.access));
    if (both != Access())
      mine.access = both;
  }
  for (size_t i = 0; i != scalars; ++i) {
    KernelScalarT &mine = *kernel.scalars[i];
    mine.least = std::min(mine.least, other.scalars[i]->least);
    mine.most = std::max(mine.most, other.scalars[i]->most);
  }
}

void describeKernels(TargetT &target, const Mesh &mesh) {
  std::vector<bool> isGiven;
  for (const std::unique_ptr<KernelT> &kernel : target.kernels)
    isGiven.push_back(kernel->iterations != 0);
  for (const std::unique_ptr<ProgramTableT> &table : target.tables)
    for (const std::unique_ptr<FunctionT> &function : table->functions)
      for (const std::unique_ptr<CommandT> &command : function->commands) {
        const uint32_t number = kernelOf(*command);
        if (number == kNone || isGiven[number])
          continue;
        KernelT &kernel = *target.kernels[number];
        KernelT shown;
        if (const CollectiveT *collective = command->action.AsCollective())
          shown = signatureOf(*collective, *command, mesh);
        else if (const CopyT *copy = command->action.AsCopy())
          shown = signatureOf(*copy, *command);
        else if (const GemmT *gemm = command->action.AsGemm())
          shown = signatureOf(*gemm, *command);
        else
          shown = signatureOf(*function, *command, mesh);
        if (kernel.iterations != 0) {
          join(kernel, shown);
          continue;
        }
        shown.name = kernel.name;
        kernel = std::move(shown);
      }
  // Code that nothing launches.
  for (const std::unique_ptr<KernelT> &kernel : target.kernels)
    if (kernel->iterations == 0)
      kernel->iterations = 1;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Counts of operations that sums and quotients of are finite.
static bool isCount(double count) { return count >= 0 && count <= 1e30; }

static Status checkAttention(const KernelAttentionT &attention) {
  if (!isCount(attention.flops) || attention.seq < 1 ||
      attention.seq > kMaxElements || attention.head_dim < 1 ||
      attention.head_dim > kMaxElements)
    return wrong(concat("computes attention of seq ", attention.seq,
                        ", head_dim ", attention.head_dim, " in ",
                        attention.flops,
                        " flops; expected extents from 1 and flops from 0 to "
                        "1e30"));
  return okStatus();
}

Status checkWork(const LaunchT &launch) {
  for (double count : {launch.vector_ops, launch.divisions, launch.scalar_ops})
    if (!isCount(count))
      return wrong(concat("computes ", count,
                          " elements; expected a number from 0 to 1e30"));
  return okStatus();
}

static Status checkExtents(const KernelT &kernel, const KernelBufferT &buffer) {
  for (const Extent &extent : buffer.extents) {
    if (extent.scale() < 0)
      return wrong(concat("touches ", extent.scale(), " elements"));
    if (extent.scalar() != kNone &&
        (extent.scalar() >= kernel.scalars.size() ||
         kernel.scalars[extent.scalar()]->type != ElementType::I64))
      return wrong(concat("touches as many elements as scalar ",
                          extent.scalar(), " says, which is no integer"));
  }
  return okStatus();
}

Status checkKernel(const KernelT &kernel) {
  if (kernel.iterations < 1)
    return wrong(concat("bears ", kernel.iterations,
                        " iterations; expected at least 1"));
  if (kernel.attention)
    OPTRT_RETURN_IF_ERROR(checkAttention(*kernel.attention));
  for (size_t i = 0; i != kernel.buffers.size(); ++i) {
    const KernelBufferT &buffer = *kernel.buffers[i];
    const std::string name = concat("buffer ", i);
    if (!isKnown(buffer.type, ElementType::I8) ||
        !isKnown(buffer.access, Access::Update) || buffer.access == Access())
      return wrong("has a type or access that is not known").withContext(name);
    OPTRT_RETURN_IF_ERROR(checkExtents(kernel, buffer).withContext(name));
  }
  for (size_t i = 0; i != kernel.scalars.size(); ++i) {
    const KernelScalarT &scalar = *kernel.scalars[i];
    if (scalar.type != ElementType::F32 && scalar.type != ElementType::I64)
      return wrong(concat("scalar ", i, ": expected f32 or i64"));
    if (scalar.least > scalar.most)
      return wrong(concat("scalar ", i, ": no number is from ", scalar.least,
                          " to ", scalar.most));
  }
  return okStatus();
}

static Status checkBuffer(const KernelBufferT &buffer, const OperandT &operand,
                          const LaunchT &launch,
                          const std::vector<int64_t> &most) {
  if (operand.type != buffer.type)
    return wrong(concat("is of ", toString(operand.type), "; the kernel takes ",
                        toString(buffer.type)));
  if ((uint8_t(operand.access) & uint8_t(buffer.access)) !=
      uint8_t(buffer.access))
    return wrong("is not touched as the kernel does");
  CheckedSize needed = 0;
  for (const Extent &extent : buffer.extents)
    needed =
        needed + CheckedSize(extent.scale()) *
                     (extent.by_iterations() ? launch.extent : 1) *
                     (extent.scalar() == kNone ? 1 : most[extent.scalar()]);
  const CheckedSize bytes = needed * elementBytes(operand.type);
  if (operand.rows != 1 || !bytes.isAtMost(operand.row_bytes))
    return wrong(concat("has ", operand.rows, " rows of ", operand.row_bytes,
                        " bytes; the kernel needs one of ", bytes.toString()));
  return okStatus();
}

Status checkLaunch(const CommandContext &context, const CommandT &command) {
  const LaunchT &launch = *command.action.AsLaunch();
  const KernelT &kernel = *context.target.kernels[launch.kernel];
  if (command.operands.size() != kernel.buffers.size() ||
      launch.scalars.size() != kernel.scalars.size())
    return wrong(concat("gives ", kernel.name, " ", command.operands.size(),
                        " buffers and ", launch.scalars.size(),
                        " scalars; it takes ", kernel.buffers.size(), " and ",
                        kernel.scalars.size()));
  if (launch.extent > kernel.iterations)
    return wrong(concat("runs ", launch.extent, " iterations of ", kernel.name,
                        "; it bears ", kernel.iterations));
  // The greatest value of each integer.
  std::vector<int64_t> most;
  for (size_t i = 0; i != kernel.scalars.size(); ++i) {
    const KernelScalarT &expected = *kernel.scalars[i];
    const IntegerT *integer =
        context.function.scalars[launch.scalars[i]]->number.AsInteger();
    if ((expected.type == ElementType::I64) != (integer != nullptr))
      return wrong(concat("scalar ", i, " of ", kernel.name, ": expected ",
                          toString(expected.type)));
    // Scalars have been checked.
    const Range range =
        integer ? *rangeOf(*integer, context.mesh) : Range{0, 0};
    if (integer && (range.least < expected.least || range.most > expected.most))
      return wrong(concat("scalar ", i, " of ", kernel.name, " may be from ",
                          range.least, " to ", range.most, "; it takes ",
                          expected.least, " to ", expected.most));
    most.push_back(range.most);
  }
  for (size_t i = 0; i != kernel.buffers.size(); ++i)
    OPTRT_RETURN_IF_ERROR(
        checkBuffer(*kernel.buffers[i], *command.operands[i], launch, most)
            .withContext(concat("buffer ", i, " of ", kernel.name)));
  return okStatus();
}

/// Checks a kernel by a command's needs: so many iterations, and buffers of its
/// types and sizes.
static Status checkFit(const CommandContext &context, uint32_t number,
                       const KernelT &needed, const char *does) {
  if (number >= context.target.kernels.size())
    return wrong(concat(does, " by kernel ", number, " of ",
                        context.target.kernels.size()));
  const KernelT &kernel = *context.target.kernels[number];
  auto fits = [&](const KernelBufferT &buffer, const KernelBufferT &given) {
    CheckedSize elements = 0;
    for (const Extent &extent : buffer.extents)
      elements =
          elements + CheckedSize(extent.scale()) *
                         (extent.by_iterations() ? needed.iterations : 1);
    return buffer.type == given.type && buffer.access == given.access &&
           elements.isAtMost(given.extents[0].scale());
  };
  bool isFit = kernel.scalars.empty() &&
               kernel.buffers.size() == needed.buffers.size() &&
               kernel.iterations >= needed.iterations;
  for (size_t i = 0; isFit && i != kernel.buffers.size(); ++i)
    isFit = fits(*kernel.buffers[i], *needed.buffers[i]);
  return isFit ? okStatus()
               : wrong(concat(does, " by ", describe(kernel), "; expected ",
                              describe(needed)));
}

Status checkReduction(const CommandContext &context, const CommandT &command) {
  const CollectiveT &collective = *command.action.AsCollective();
  if (collective.kernel == kNone)
    return okStatus();
  return checkFit(context, collective.kernel,
                  signatureOf(collective, command, context.mesh), "reduces");
}

Status checkBiasGrad(const CommandContext &context, const CommandT &command) {
  const GemmT &gemm = *command.action.AsGemm();
  if (gemm.kernel == kNone)
    return okStatus();
  return checkFit(context, gemm.kernel, signatureOf(gemm, command),
                  "sums rows of B");
}

Status checkCopy(const CommandContext &context, const CommandT &command) {
  const CopyT &copy = *command.action.AsCopy();
  if (copy.kernel == kNone)
    return okStatus();
  return checkFit(context, copy.kernel, signatureOf(copy, command), "copies");
}

} // namespace optimus_support::program
