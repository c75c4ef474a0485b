//===- ChainLaunches.cpp - One launch for rows that are passed on -*- C++ -*-=//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/Passes.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Exec/Transforms/Regions.h"
#include "optimus/Kernels/ElementwiseKernels.h"
#include "optimus/Kernels/KernelFunctions.h"
#include "optimus/Kernels/RowGroups.h"
#include "optimus/Kernels/RowSums.h"
#include "optimus/Target/Target.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVectorExtras.h"

namespace mlir::optimus {
#define GEN_PASS_DEF_CHAINLAUNCHESPASS
#include "optimus/Target/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;
using exec::CommandOpInterface;
using exec::LaunchOp;

namespace {
/// A launch that may be a stage of a chain.
struct Link : DeclaredKernel {
  LaunchOp launch;

  bool isFlat() const {
    const IterationSpace &space = description.getSpace();
    return space.kind == IterationSpace::Elements && space.rows == 1;
  }
  int64_t getRows() const { return description.getSpace().rows; }
  bool sumsColumns() const {
    return description.getSpace().kind == IterationSpace::Columns;
  }
};

/// Launches after each other that become one.
class Chain {
public:
  Chain(const KernelSchedule &schedule, int64_t alignment)
      : schedule(schedule), alignment(alignment) {}

  /// Adds a launch if it may follow those that are there.
  bool add(Link link);
  /// Makes one launch of all; returns whether there are several.
  bool write(KernelDeclarations &kernels);

  void clear() {
    links.clear();
    rows = savedBytes = 0;
  }
  size_t getSize() const { return links.size(); }
  int64_t getSavedBytes() const { return savedBytes; }

private:
  bool fits(const Link &link) const;
  /// The bytes that a launch reads of rows that launches before it touch;
  /// nothing where it may not follow.
  std::optional<int64_t> countPassedOn(const Link &link) const;

  /// The partial sums of what a sum writes, which take its place.
  struct Partial {
    Value partial, result;
  };
  /// Allocates those of all sums, of so many groups of rows.
  SmallVector<Partial> createPartials(OpBuilder &b, int64_t groups);
  bool hasSums() const {
    return llvm::any_of(links,
                        [](const Link &link) { return link.sumsColumns(); });
  }
  const KernelSchedule &schedule;
  int64_t alignment;
  std::vector<Link> links;
  /// Of those that are not flat; 0 as long as all are.
  int64_t rows = 0;
  int64_t savedBytes = 0;
};
} // namespace

/// A flat kernel of elements as one of rows; nothing where it has none.
static std::optional<Kernel> splitRows(const Link &link, int64_t rows) {
  MLIRContext *context = LaunchOp(link.launch).getContext();
  NamedAttrList parameters(link.kernel.getParameters(context));
  auto kind = dyn_cast_or_null<StringAttr>(parameters.get("kind"));
  auto repeats = dyn_cast_or_null<DenseI64ArrayAttr>(parameters.get("repeats"));
  int64_t elements = link.description.getSpace().cols;
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

bool Chain::fits(const Link &link) const {
  const IterationSpace &space = link.description.getSpace();
  if (space.kind == IterationSpace::Elements)
    return link.isFlat() ||
           (schedule.takesChains(space) && (rows == 0 || space.rows == rows));
  // A launch of several kernels may be none of another.
  bool isPlain = space.kind == IterationSpace::Rows && space.group == 0 &&
                 space.pieces.empty() && space.together == 0;
  bool sums = link.sumsColumns() && schedule.getRowGroups() && space.rows > 0;
  return (isPlain || sums) && schedule.takesChains(space) &&
         (rows == 0 || space.rows == rows) &&
         llvm::any_of(
             link.description.getOperands(),
             [](const KernelOperand &operand) { return operand.isOfRows; });
}

std::optional<int64_t> Chain::countPassedOn(const Link &link) const {
  llvm::SetVector<Value> passedOn;
  for (auto [operand, buffer] : llvm::zip_equal(
           link.description.getOperands(), LaunchOp(link.launch).getBuffers()))
    for (const Link &before : links)
      for (auto [other, touched] :
           llvm::zip_equal(before.description.getOperands(),
                           LaunchOp(before.launch).getBuffers())) {
        bool areSameRows = buffer == touched &&
                           isOfRows(link.description, operand) &&
                           isOfRows(before.description, other);
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

bool Chain::add(Link link) {
  if (!fits(link))
    return false;
  if (!links.empty()) {
    std::optional<int64_t> bytes = countPassedOn(link);
    if (bytes.value_or(0) == 0)
      return false;
    savedBytes += *bytes;
  }
  int64_t found = link.isFlat() ? rows : link.getRows();
  auto hasRows = [&](const Link &flat) {
    std::optional<Kernel> kernel = splitRows(flat, found);
    return kernel &&
           schedule.takesChains(
               kernel->describe(LaunchOp(flat.launch).getContext()).getSpace());
  };
  // Those before it must have as many rows.
  if (rows == 0 && found > 0 && !llvm::all_of(links, hasRows))
    return false;
  if (rows > 0 && link.isFlat() && !hasRows(link))
    return false;
  rows = found;
  links.push_back(std::move(link));
  return true;
}

/// What a sum writes: operands and their buffers.
static SmallVector<std::pair<KernelOperand, Value>>
getResults(const Link &link) {
  SmallVector<std::pair<KernelOperand, Value>> results;
  for (auto [operand, buffer] : llvm::zip_equal(
           link.description.getOperands(), LaunchOp(link.launch).getBuffers()))
    if (link.sumsColumns() && operand.access != KernelAccess::Read)
      results.emplace_back(operand, buffer);
  return results;
}

SmallVector<Chain::Partial> Chain::createPartials(OpBuilder &b,
                                                  int64_t groups) {
  SmallVector<Partial> partials;
  for (const Link &link : links)
    for (const auto &[operand, buffer] : getResults(link)) {
      auto type = MemRefType::get({groups * operand.extent}, b.getF32Type());
      Value partial = exec::AllocOp::create(
          b, LaunchOp(link.launch).getLoc(), type, b.getStringAttr("workspace"),
          b.getStringAttr("partial sums"), /*values=*/ArrayAttr(),
          b.getI64IntegerAttr(alignment));
      partials.push_back({partial, buffer});
      // Written, and read again.
      savedBytes -= 2 * exec::getBufferBytes(partial);
    }
  return partials;
}

bool Chain::write(KernelDeclarations &kernels) {
  if (links.size() < 2 || rows == 0)
    return false;
  LaunchOp last = links.back().launch;
  OpBuilder b(last);
  int64_t together = 0, groups = 0;
  SmallVector<Partial> partials;
  if (hasSums()) {
    together = schedule.getRowGroups()->getTogether();
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
  for (const Link &link : links) {
    LaunchOp launch = link.launch;
    kernels::RowStage &stage = stages.emplace_back(kernels::RowStage{
        link.isFlat() ? *splitRows(link, rows) : link.kernel, {}, {}});
    for (auto [operand, buffer] :
         llvm::zip_equal(link.description.getOperands(), launch.getBuffers())) {
      Value given = buffer;
      for (const Partial &partial : partials)
        if (link.sumsColumns() && operand.access != KernelAccess::Read &&
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
  for (const Link &link : links)
    LaunchOp(link.launch).erase();
  return true;
}

namespace {
class ChainLaunchesPass
    : public optimus::impl::ChainLaunchesPassBase<ChainLaunchesPass> {
public:
  using ChainLaunchesPassBase::ChainLaunchesPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    return checkTarget(context, target);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const KernelSchedule &schedule = findTarget(target)->getKernelSchedule();
    // One that takes no chain of the shortest rows takes none.
    IterationSpace least = {IterationSpace::Rows, 1, 1};
    if (!schedule.takesChains(least))
      return markAllAnalysesPreserved();
    KernelDeclarations kernels(module);
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock() &&
          failed(run(function, schedule, kernels)))
        return signalPassFailure();
    kernels.eraseUnused();
  }

private:
  LogicalResult run(func::FuncOp function, const KernelSchedule &schedule,
                    KernelDeclarations &kernels) {
    SmallVector<CommandOpInterface> commands = exec::getCommands(function);
    Chain chain(schedule, findTarget(target)->getBufferAlignment());
    auto finish = [&] {
      size_t size = chain.getSize();
      if (chain.write(kernels)) {
        ++numChains;
        numChained += size;
        savedBytes += chain.getSavedBytes();
      }
      chain.clear();
    };
    for (CommandOpInterface command : commands) {
      auto launch = dyn_cast<LaunchOp>(*command);
      if (!launch) {
        finish();
        continue;
      }
      FailureOr<Link> link = read(launch);
      if (failed(link))
        return failure();
      if (!chain.add(*link)) {
        finish();
        // It may begin one of its own.
        chain.add(std::move(*link));
      }
    }
    finish();
    exec::numberCommands(function);
    return success();
  }

  FailureOr<Link> read(LaunchOp launch) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        launch, launch.getKernelAttr());
    FailureOr<DeclaredKernel> declared = readKernel(kernel);
    if (failed(declared))
      return failure();
    return Link{std::move(*declared), launch};
  }
};
} // namespace
