//===- Offload.cpp - Buffers that rest outside the device -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dependences.h"
#include "OffloadRewriter.h"

#include "optimus/Analysis/Pricing.h"
#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Exec/Transforms/OffloadChoice.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-offload"

namespace mlir::exec {
#define GEN_PASS_DEF_OFFLOADPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;
using optimus::BufferAttr;
using optimus::ValuePattern;

namespace {
/// What is offloaded of a function.
class Selection {
public:
  Selection() = default;
  explicit Selection(OffloadChoice asked) : asked(std::move(asked)) {}

  /// Chooses of the state that a function has, where it is not all of it: the
  /// smallest tensors first, since the largest need the most memory when they
  /// are fetched.
  void chooseState(func::FuncOp function) {
    chosen.clear();
    if (!asked.stateBytes)
      return;
    SmallVector<std::pair<int64_t, unsigned>> state; // bytes, argument
    for (BlockArgument argument : function.getArguments())
      if (BufferAttr buffer =
              optimus::getArgumentBuffer(function, argument.getArgNumber());
          buffer && isStateOfParameter(buffer))
        state.push_back({getBufferBytes(argument), argument.getArgNumber()});
    llvm::sort(state);
    int64_t left = *asked.stateBytes;
    for (auto [bytes, argument] : state) {
      if (left <= 0)
        break;
      chosen.insert(argument);
      left -= bytes;
    }
  }

  /// Of an argument: all functions must agree on that.
  bool takes(BufferAttr buffer, unsigned argument) const {
    switch (buffer.getLifetime()) {
    case optimus::Lifetime::Parameter:
      return asked.kinds.contains("parameters");
    case optimus::Lifetime::State:
      return isStateOfParameter(buffer) &&
             (asked.kinds.contains("state") || chosen.contains(argument));
    case optimus::Lifetime::Sequence:
      return buffer.getOf() && asked.kinds.contains("gradients");
    case optimus::Lifetime::Call:
      return false;
    }
    llvm_unreachable("unknown lifetime");
  }

  bool takes(AllocOp allocation) const {
    StringRef category = allocation.getCategory();
    if ((category == "gradient" && asked.kinds.contains("gradients")) ||
        (category == "activation" && asked.kinds.contains("activations")))
      return true;
    return llvm::any_of(asked.patterns, [&](const ValuePattern &pattern) {
      return matches(pattern, allocation);
    });
  }

  /// The first pattern that no value of a function matches, or nothing.
  std::optional<StringRef> findUnknown(func::FuncOp function) const {
    for (const ValuePattern &pattern : asked.patterns) {
      bool isKnown = false;
      function.walk(
          [&](AllocOp allocation) { isKnown |= matches(pattern, allocation); });
      if (!isKnown)
        return pattern.getText();
    }
    return std::nullopt;
  }

private:
  static bool matches(const ValuePattern &pattern, AllocOp allocation) {
    ArrayAttr values = allocation.getValuesAttr();
    return values &&
           llvm::any_of(values.getAsValueRange<StringAttr>(),
                        [&](StringRef id) { return pattern.matches(id); });
  }

  static bool isStateOfParameter(BufferAttr buffer) {
    return buffer.getLifetime() == optimus::Lifetime::State && buffer.getOf();
  }

  OffloadChoice asked;
  /// The arguments that chooseState() took.
  llvm::SmallDenseSet<unsigned> chosen;
};

class OffloadPass : public exec::impl::OffloadPassBase<OffloadPass> {
public:
  using OffloadPassBase::OffloadPassBase;
  OffloadPass() = default;
  OffloadPass(const OffloadPassOptions &options,
              std::shared_ptr<const optimus::MeasuredCosts> measured)
      : OffloadPassBase(options), pricing(std::move(measured)) {}

  LogicalResult initialize(MLIRContext *context) override {
    auto fail = [&](const Twine &mistake) {
      return emitError(UnknownLoc::get(context)) << "offload: " << mistake;
    };
    auto asked = OffloadChoice::parse(
        SmallVector<StringRef>(values.begin(), values.end()));
    if (!asked)
      return fail(llvm::toString(asked.takeError()));
    selection = Selection(std::move(*asked));
    std::optional<MemorySpace> home = symbolizeMemorySpace(space);
    if (!home || *home == MemorySpace::Device)
      return fail("expected file or host as the space, found '" + space + "'");
    homeSpace = *home;
    std::optional<Bandwidth> read = Bandwidth::parse(bandwidth);
    if (!read)
      return fail("expected bytes a second, as 512MiB, or two of them, in and "
                  "out; found '" +
                  bandwidth + "'");
    rates = *read;
    if (llvm::Error error = pricing.load(machineProfile, profile))
      return fail(llvm::toString(std::move(error)));
    if (const auto &link = pricing.getMachine().hostLink;
        link && bandwidth.empty() && homeSpace == MemorySpace::Host)
      rates = {link->in, link->out, link->alpha};
    return success();
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || values.empty() || !hasCommands(function))
      return;
    if (function->hasAttr(ExecDialect::kArenaBytes)) {
      function.emitOpError(
          "has an arena already; buffers are offloaded before");
      return signalPassFailure();
    }
    if (!function.getBody().hasOneBlock()) {
      function.emitOpError("has more than one block; only straight-line "
                           "commands can be offloaded from");
      return signalPassFailure();
    }
    if (std::optional<StringRef> unknown = selection.findUnknown(function);
        unknown && keepsState(function)) {
      function.emitError("expected values to offload, as h.*.mlp.gelu:0; found "
                         "none that '")
          << *unknown << "' matches";
      return signalPassFailure();
    }
    FailureOr<optimus::CostModel> costs = pricing.getCosts(function);
    if (failed(costs))
      return signalPassFailure();
    selection.chooseState(function);
    LDBG() << "@" << function.getSymName() << ": to "
           << stringifyMemorySpace(homeSpace) << ", window " << window;
    bool isNumbered = getCommands(function).front().getCommandId().has_value();
    hoistSums(function);
    offload(function, *costs);
    if (isNumbered)
      numberCommands(function);
  }

private:
  /// Whether a function trains, and so has all values that there are.
  static bool keepsState(func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (BufferAttr buffer = optimus::getArgumentBuffer(function, i);
          buffer && buffer.getLifetime() == optimus::Lifetime::State)
        return true;
    return false;
  }

  bool isSelected(Value base) const {
    auto type = cast<MemRefType>(base.getType());
    if (!isa<FloatType>(type.getElementType()) ||
        type.getElementType().isF64() || getBufferBytes(base) < least)
      return false;
    if (auto allocation = base.getDefiningOp<AllocOp>())
      return selection.takes(allocation);
    auto argument = dyn_cast<BlockArgument>(base);
    if (!argument)
      return false;
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    BufferAttr buffer =
        optimus::getArgumentBuffer(function, argument.getArgNumber());
    return buffer && selection.takes(buffer, argument.getArgNumber());
  }

  /// Whether a command reads much that is offloaded and writes little.
  bool sumsUp(CommandOpInterface command) const {
    int64_t read = 0, written = 0;
    bool readsSelected = false;
    for (const Access &access : command.getAccesses()) {
      Value buffer = access.operand->get();
      (access.writes ? written : read) += getBufferBytes(buffer);
      for (Value base : getBases(buffer)) {
        readsSelected |= !access.writes && isSelected(base);
        if (access.writes && isSelected(base))
          return false;
      }
    }
    constexpr int64_t kMuch = 16;
    return readsSelected && read >= kMuch * written;
  }

  static void moveAfter(Operation *op, Operation *place) {
    op->moveAfter(place);
    for (Value operand : op->getOperands())
      if (Operation *definition = operand.getDefiningOp();
          definition && op->isBeforeInBlock(definition))
        moveAfter(definition, place);
  }

  void hoistSums(func::FuncOp function) {
    std::vector<ProgramNode> nodes = computeDependences(function);
    for (ProgramNode &node : nodes) {
      if (node.isCollective() || node.before.empty() || !sumsUp(node.command))
        continue;
      Operation *last = nodes[node.before.front()].getEnd();
      for (unsigned before : node.before)
        if (Operation *end = nodes[before].getEnd(); last->isBeforeInBlock(end))
          last = end;
      if (last->getNextNode() == node.command)
        continue;
      moveAfter(node.command, last);
      ++numHoisted;
      LDBG() << "hoisted: " << node.command->getName() << " of "
             << optimus::describeLocation(node.command->getLoc())
             << " reads much that is offloaded and writes little";
    }
  }

  void offload(func::FuncOp function, const optimus::CostModel &costs) {
    SmallVector<CommandOpInterface> commands = getCommands(function);
    TransferPlan plan;
    plan.times.push_back(0);
    for (CommandOpInterface command : commands) {
      bool isWaited =
          command.getWaitingCommand() || command.getAwaitedCommand();
      plan.times.push_back(plan.times.back() +
                           (isWaited ? 0 : costs.getComputeSeconds(command)));
    }
    // A rest is long where a copy out and in fits into it, or much of the step.
    double much = plan.times.back() / 8;
    auto intervals = collectResidentIntervals(
        commands, [&](Value base) { return isSelected(base); },
        [&](Value base, int64_t earlier, int64_t later) {
          int64_t bytes = getBufferBytes(base);
          double moved =
              rates.getFetchSeconds(bytes) + rates.getStoreSeconds(bytes);
          return plan.times[later] - plan.times[earlier + 1] <
                 std::min(moved, much);
        });
    OffloadRewriter rewriter(function, commands, homeSpace, rates, plan);
    for (auto &[base, own] : intervals)
      if (isa<BlockArgument>(base) || own.size() > 1) {
        LDBG() << "offload " << getBufferBytes(base) << " bytes, resident "
               << own.size() << " times: " << base;
        rewriter.add(base, own);
      }
    // An argument that this function leaves alone lies there, too.
    for (BlockArgument argument : function.getArguments())
      if (!intervals.contains(argument) && isSelected(argument))
        rewriter.add(argument, {});
    if (rewriter.isEmpty())
      return;
    plan.schedule(window);
    rewriter.run();
    numOffloaded += rewriter.getNumBuffers();
    numFetches += plan.fetches.size();
    numStores += plan.stores.size();
    annotate(function, plan.predict());
  }

  void annotate(func::FuncOp function, const PagingPrediction &prediction) {
    Builder b(&getContext());
    auto number = [&](StringRef name, double seconds) {
      return b.getNamedAttr(name, b.getF64FloatAttr(seconds * 1e3));
    };
    auto count = [&](StringRef name, int64_t value) {
      return b.getNamedAttr(name, b.getI64IntegerAttr(value));
    };
    function->setAttr(
        ExecDialect::kPaging,
        b.getDictionaryAttr({count("fetched_bytes", prediction.fetchedBytes),
                             count("stored_bytes", prediction.storedBytes),
                             number("fetch_ms", prediction.fetchSeconds),
                             number("store_ms", prediction.storeSeconds),
                             number("exposed_ms", prediction.exposedSeconds)}));
    auto schedule =
        function->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule);
    if (!schedule)
      return;
    NamedAttrList entries(schedule);
    StringRef step = "predicted_step_ms";
    entries.set(step, b.getF64FloatAttr(
                          schedule.getAs<FloatAttr>(step).getValueAsDouble() +
                          prediction.exposedSeconds * 1e3));
    function->setAttr(ExecDialect::kSchedule,
                      entries.getDictionary(&getContext()));
  }

  Selection selection;
  MemorySpace homeSpace = MemorySpace::File;
  Bandwidth rates;
  optimus::Pricing pricing;
};
} // namespace

std::unique_ptr<Pass> exec::createOffloadPass(
    const OffloadPassOptions &options,
    std::shared_ptr<const optimus::MeasuredCosts> measured) {
  return std::make_unique<OffloadPass>(options, std::move(measured));
}
