//===- ChainLaunches.cpp - One launch for rows that are passed on -*- C++ -*-=//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MergeLaunches.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Exec/Transforms/Regions.h"
#include "optimus/Kernels/ElementwiseKernels.h"
#include "optimus/Kernels/RowGroups.h"
#include "optimus/Kernels/RowSums.h"
#include "optimus/Target/Passes.h"
#include "optimus/Target/Target.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/DebugLog.h"

#include <atomic>

#define DEBUG_TYPE "optimus-chain-launches"

namespace mlir::optimus {
#define GEN_PASS_DEF_CHAINLAUNCHESPASS
#include "optimus/Target/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;
using exec::CommandOpInterface;
using exec::LaunchOp;

namespace {
/// Launches after each other that pass rows on.
class Chain final : public LaunchGroup {
public:
  /// Adds to `savedBytes` what a cache has instead of memory.
  Chain(RewriterBase &rewriter, const Target &target,
        std::atomic<int64_t> &savedBytes)
      : LaunchGroup(rewriter), schedule(target.getKernelSchedule()),
        alignment(target.getBufferAlignment()), savedBytes(savedBytes) {}

private:
  bool join(const KernelLaunch &link) override;
  bool isWorthOne() const override { return rows > 0; }
  void writeOne(KernelDeclarations &kernels) override;

  bool fits(const KernelLaunch &link) const;
  /// The bytes a launch reads of rows touched by the launches before it;
  /// nothing where it may not follow.
  std::optional<int64_t> countPassedOn(const KernelLaunch &link) const;

  /// The partial sums behind the result of a sum, and in its place.
  struct Partial {
    Value partial, result;
  };
  /// Allocates those of all sums, of so many groups of rows.
  SmallVector<Partial> createPartials(OpBuilder &b, int64_t groups);

  const KernelSchedule &schedule;
  int64_t alignment;
  /// Of those that are not flat; 0 as long as all are.
  int64_t rows = 0;
  std::atomic<int64_t> &savedBytes;
  int64_t passedOn = 0;
};
} // namespace

static bool isFlat(const KernelLaunch &link) {
  const IterationSpace &space = link.getSpace();
  return space.kind == IterationSpace::Elements && space.rows == 1;
}

static bool sumsColumns(const KernelLaunch &link) {
  return link.getSpace().kind == IterationSpace::Columns;
}

/// A flat kernel of elements as one of rows; nothing where it has none.
static std::optional<Kernel> splitRows(const KernelLaunch &link, int64_t rows) {
  MLIRContext *context = LaunchOp(link.launch).getContext();
  NamedAttrList parameters(link.getKernel().getParameters(context));
  auto kind = dyn_cast_or_null<StringAttr>(parameters.get("kind"));
  auto repeats = dyn_cast_or_null<DenseI64ArrayAttr>(parameters.get("repeats"));
  int64_t elements = link.getSpace().cols;
  if (!kind || kind.getValue() != kernels::Elementwise::kKind || !repeats ||
      llvm::any_of(repeats.asArrayRef(), [](int64_t r) { return r != 0; }) ||
      elements % rows != 0)
    return std::nullopt;
  Builder b(context);
  parameters.set("rows", b.getI64IntegerAttr(rows));
  parameters.set("cols", b.getI64IntegerAttr(elements / rows));
  FailureOr<Kernel> kernel =
      Kernel::read(parameters.getDictionary(context),
                   [&] { return LaunchOp(link.launch).emitOpError(); });
  if (failed(kernel))
    return std::nullopt;
  return *kernel;
}

/// Whether each row has a part of an operand that no other touches.
static bool isOfRows(const KernelDescription &description,
                     const KernelOperand &operand) {
  const IterationSpace &space = description.getSpace();
  return operand.isOfRows || (space.kind == IterationSpace::Elements &&
                              operand.extent == space.rows * space.cols);
}

bool Chain::fits(const KernelLaunch &link) const {
  const IterationSpace &space = link.getSpace();
  if (space.kind == IterationSpace::Elements)
    return isFlat(link) ||
           (schedule.takesChains(space) && (rows == 0 || space.rows == rows));
  // A launch of several kernels may be none of another.
  bool isPlain = space.kind == IterationSpace::Rows && space.group == 0 &&
                 space.pieces.empty() && space.together == 0;
  bool sums = sumsColumns(link) && schedule.getRowGroups() && space.rows > 0;
  return (isPlain || sums) && schedule.takesChains(space) &&
         (rows == 0 || space.rows == rows) &&
         llvm::any_of(
             link.getDescription().getOperands(),
             [](const KernelOperand &operand) { return operand.isOfRows; });
}

std::optional<int64_t> Chain::countPassedOn(const KernelLaunch &link) const {
  llvm::SetVector<Value> passedOn;
  for (auto [operand, buffer] : link.getOperands())
    for (const KernelLaunch &before : members)
      for (auto [other, touched] : before.getOperands()) {
        bool areSameRows = buffer == touched &&
                           isOfRows(link.getDescription(), operand) &&
                           isOfRows(before.getDescription(), other);
        if (areSameRows && operand.access != KernelAccess::Write)
          passedOn.insert(buffer);
        bool isWritten = other.access != KernelAccess::Read ||
                         operand.access != KernelAccess::Read;
        if (isWritten && !areSameRows &&
            exec::mayOverlap(exec::getRegions(buffer),
                             exec::getRegions(touched)))
          return std::nullopt;
      }
  int64_t bytes = 0;
  for (Value buffer : passedOn)
    bytes += exec::getBufferBytes(buffer);
  return bytes;
}

bool Chain::join(const KernelLaunch &link) {
  if (!fits(link))
    return false;
  int64_t bytes = members.empty() ? 0 : countPassedOn(link).value_or(0);
  if (!members.empty() && bytes == 0)
    return false;
  int64_t found = isFlat(link) ? rows : link.getSpace().rows;
  auto hasRows = [&](const KernelLaunch &flat) {
    std::optional<Kernel> kernel = splitRows(flat, found);
    return kernel &&
           schedule.takesChains(
               kernel->describe(LaunchOp(flat.launch).getContext()).getSpace());
  };
  // Those before it must have as many rows.
  if (rows == 0 && found > 0 && !llvm::all_of(members, hasRows))
    return false;
  if (rows > 0 && isFlat(link) && !hasRows(link))
    return false;
  rows = found;
  passedOn += bytes;
  LDBG() << (members.empty() ? "begin: @" : "  joins: @")
         << LaunchOp(link.launch).getKernel() << ", " << bytes
         << " bytes passed on";
  return true;
}

/// What a sum writes: operands and their buffers.
static SmallVector<std::pair<KernelOperand, Value>>
getResults(const KernelLaunch &link) {
  SmallVector<std::pair<KernelOperand, Value>> results;
  for (auto [operand, buffer] : link.getOperands())
    if (sumsColumns(link) && operand.access != KernelAccess::Read)
      results.emplace_back(operand, buffer);
  return results;
}

SmallVector<Chain::Partial> Chain::createPartials(OpBuilder &b,
                                                  int64_t groups) {
  SmallVector<Partial> partials;
  for (const KernelLaunch &link : members)
    for (const auto &[operand, buffer] : getResults(link)) {
      auto type = MemRefType::get({groups * operand.extent}, b.getF32Type());
      Value partial = exec::AllocOp::create(
          b, LaunchOp(link.launch).getLoc(), type, b.getStringAttr("workspace"),
          b.getStringAttr("partial sums"), /*values=*/ArrayAttr(),
          b.getI64IntegerAttr(alignment));
      partials.push_back({partial, buffer});
      // Written, and read again.
      passedOn -= 2 * exec::getBufferBytes(partial);
    }
  return partials;
}

void Chain::writeOne(KernelDeclarations &kernels) {
  LaunchOp last = members.back().launch;
  RewriterBase &b = rewriter;
  b.setInsertionPoint(last);
  int64_t together = 0, groups = 0;
  SmallVector<Partial> partials;
  if (llvm::any_of(members, sumsColumns)) {
    together = schedule.getRowGroups()->getTogether(rows);
    groups = llvm::divideCeil(rows, together);
    // Those of one group are whole.
    if (groups > 1)
      partials = createPartials(b, groups);
  }
  llvm::MapVector<Value, std::string> buffers, scalars;
  auto getName = [](llvm::MapVector<Value, std::string> &names, Value value,
                    StringRef stem) {
    auto [entry, isNew] = names.try_emplace(value);
    if (isNew)
      entry->second = (stem + Twine(names.size() - 1)).str();
    return entry->second;
  };
  SmallVector<kernels::RowStage> stages;
  for (const KernelLaunch &link : members) {
    LaunchOp launch = link.launch;
    kernels::RowStage &stage = stages.emplace_back(kernels::RowStage{
        isFlat(link) ? *splitRows(link, rows) : link.getKernel(), {}, {}});
    for (auto [operand, buffer] : link.getOperands()) {
      Value given = buffer;
      for (const Partial &partial : partials)
        if (sumsColumns(link) && operand.access != KernelAccess::Read &&
            partial.result == buffer)
          given = partial.partial;
      stage.buffers.push_back(getName(buffers, given, "b"));
    }
    for (Value scalar : launch.getScalars())
      stage.scalars.push_back(getName(scalars, scalar, "s"));
  }
  auto getKeys = [](const llvm::MapVector<Value, std::string> &names) {
    return llvm::map_to_vector(names, [](auto &entry) { return entry.first; });
  };
  Kernel kernel = together == 0 ? Kernel(kernels::RowChain{stages})
                                : Kernel(kernels::RowSums{stages, together});
  auto launch = [&](const Kernel &kernel, ValueRange buffers,
                    ValueRange scalars) {
    kernels.launch(b, last.getLoc(), kernel, kernel.describe(b.getContext()),
                   buffers, scalars);
  };
  launch(kernel, getKeys(buffers), getKeys(scalars));
  for (const Partial &partial : partials) {
    int64_t columns =
        cast<MemRefType>(partial.result.getType()).getNumElements();
    launch(kernels::SumLeading{groups, columns},
           {partial.partial, partial.result}, {});
  }
  savedBytes += passedOn;
  LDBG() << "one launch for " << members.size() << " on " << rows << " rows, "
         << partials.size() << " partial sums, " << passedOn << " bytes saved";
}

namespace {
class LaunchChaining final : public LaunchMerging {
public:
  LaunchChaining(MLIRContext *context, const Target &target,
                 std::atomic<int64_t> &savedBytes)
      : target(target), savedBytes(savedBytes), rewriter(context) {}

private:
  /// Launches with no other command between them.
  SmallVector<KernelLaunches> list(func::FuncOp function,
                                   ReadFn read) override {
    SmallVector<KernelLaunches> lists(1);
    for (CommandOpInterface command : exec::getCommands(function)) {
      auto launch = dyn_cast<LaunchOp>(*command);
      if (std::optional<KernelLaunch> link =
              launch ? read(launch) : std::nullopt)
        lists.back().push_back(std::move(*link));
      else
        lists.emplace_back();
    }
    return lists;
  }

  std::unique_ptr<LaunchGroup> createGroup() override {
    return std::make_unique<Chain>(rewriter, target, savedBytes);
  }

  const Target &target;
  std::atomic<int64_t> &savedBytes;
  IRRewriter rewriter;
};

class ChainLaunchesPass
    : public optimus::impl::ChainLaunchesPassBase<ChainLaunchesPass> {
public:
  using ChainLaunchesPassBase::ChainLaunchesPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    return checkTarget(context, target);
  }

  void runOnOperation() override {
    const Target &device = *findTarget(target);
    // One that takes no chain of the shortest rows takes none.
    IterationSpace least = {IterationSpace::Rows, 1, 1};
    if (!device.getKernelSchedule().takesChains(least))
      return markAllAnalysesPreserved();
    std::atomic<int64_t> bytes = 0;
    FailureOr<MergedCount> count = mergeLaunches(getOperation(), [&] {
      return std::make_unique<LaunchChaining>(&getContext(), device, bytes);
    });
    if (failed(count))
      return signalPassFailure();
    numChains += count->groups;
    numChained += count->launches;
    savedBytes += bytes;
  }
};
} // namespace
