//===- Schedule.cpp - Moves starts up and waits down ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OverlapChoice.h"

#include "optimus/Analysis/Pricing.h"
#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"
#include "optimus/Dialect/Exec/Transforms/Prediction.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "llvm/Support/FormatVariadic.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-schedule"

namespace mlir::exec {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

static SmallVector<Operation *> listOperations(func::FuncOp function) {
  return llvm::map_to_vector(function.getBody().front(),
                             [](Operation &op) { return &op; });
}

/// Puts the operations of a function's block into an order of them.
static void restoreOrder(func::FuncOp function,
                         ArrayRef<Operation *> operations) {
  Block &block = function.getBody().front();
  for (Operation *op : operations)
    op->moveBefore(&block, block.end());
  numberCommands(function);
}

namespace {
class SchedulePass : public exec::impl::SchedulePassBase<SchedulePass> {
public:
  using SchedulePassBase::SchedulePassBase;
  SchedulePass() = default;
  SchedulePass(const SchedulePassOptions &options,
               std::shared_ptr<const optimus::MeasuredCosts> measured)
      : SchedulePassBase(options), pricing(std::move(measured)) {}

  LogicalResult initialize(MLIRContext *context) override {
    auto fail = [&](llvm::Error error) {
      return emitError(UnknownLoc::get(context))
             << llvm::toString(std::move(error));
    };
    if (!llvm::is_contained({"none", "time", "memory", "balanced"}, mode))
      return emitError(UnknownLoc::get(context))
             << "unknown schedule '" << mode
             << "'; known are none, time, memory and balanced";
    auto extra = ExtraWorkspace::parse(extraWorkspace);
    if (!extra)
      return fail(extra.takeError());
    workspace = *extra;
    if (llvm::Error error = pricing.load(machineProfile, profile))
      return fail(std::move(error));
    auto read =
        Offloading::read({llvm::to_vector_of<StringRef>(offload), offloadSpace,
                          offloadBandwidth, offloadWindow, offloadLeast},
                         pricing.getMachine());
    if (!read)
      return fail(read.takeError());
    offloading = std::move(*read);
    return success();
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !hasCommands(function))
      return;
    if (function->hasAttr(ExecDialect::kArenaBytes)) {
      function.emitOpError("has an arena already; a schedule must come first");
      return signalPassFailure();
    }
    if (!function.getBody().hasOneBlock()) {
      function.emitOpError("has more than one block; only straight-line "
                           "commands can be scheduled");
      return signalPassFailure();
    }
    for (CollectiveStartOp start : function.getOps<CollectiveStartOp>())
      if (start.isCarried()) {
        start.emitOpError("is carried to the next step already; a schedule "
                          "must come first");
        return signalPassFailure();
      } else if (start.getWait()->getBlock() != start->getBlock()) {
        start.emitOpError("its exec.wait is not in the same block");
        return signalPassFailure();
      }
    if (failed(verifyAllocations(function)))
      return signalPassFailure();
    FailureOr<optimus::CostModel> priced = pricing.getCosts(function);
    if (failed(priced))
      return signalPassFailure();
    const optimus::CostModel &costs = *priced;
    unsigned numStarts = 0;
    for (CollectiveStartOp start : function.getOps<CollectiveStartOp>()) {
      ++numStarts;
      if (mode != "none")
        start.getWait()->moveAfter(start);
    }
    offloading.chooseState(function);
    if (mode != "none" && !offloading.isEmpty())
      (void)offloading.hoistSums(function);
    ScheduledFunction scheduled(function, costs, offloading);
    const int64_t before = scheduled.getPeakBytes();
    numCollectives += numStarts;
    OverlapOutcome outcome{numStarts, 0, before};
    if (mode == "time" && numStarts > 0)
      // Computation as it is, collectives behind it.
      outcome = overlapWithin(scheduled, workspace);
    if (mode == "memory") {
      // All commands for few live bytes, then overlap without more bytes.
      scheduled.orderForMemory();
      outcome = overlapWithin(scheduled, /*workspace=*/{});
    }
    if (mode == "balanced")
      outcome = balance(function, costs, before);
    numNotOverlapped += outcome.notOverlapped;
    numBounded += outcome.bounded;
    LDBG() << "@" << function.getSymName() << ": mode " << mode << ", "
           << numStarts << " collectives, live bytes " << before << " -> "
           << outcome.peakBytes;
    // The best of the balanced orders is not the one that is scheduled here.
    annotate(function, costs, before, outcome,
             mode == "balanced" ? costs.predictStep(function)
                                : scheduled.predict());
  }

private:
  /// Of both orders, each with workspace and without, the one with the least
  /// product of predicted time and bytes alive.
  OverlapOutcome balance(func::FuncOp function, const optimus::CostModel &costs,
                         int64_t before) {
    SmallVector<Operation *> given = listOperations(function), best;
    OverlapOutcome ofBest;
    double least = 0;
    for (bool isForMemory : {false, true})
      for (const ExtraWorkspace &extra : {workspace, ExtraWorkspace()}) {
        restoreOrder(function, given);
        ScheduledFunction scheduled(function, costs, offloading);
        if (isForMemory)
          scheduled.orderForMemory();
        OverlapOutcome outcome = overlapWithin(scheduled, extra);
        double product = scheduled.predictSeconds() * double(outcome.peakBytes);
        LDBG() << "balance: " << (isForMemory ? "memory" : "time") << " with "
               << extra.getBytes(before) << " bytes more: time x bytes "
               << product
               << (best.empty() || product < least ? ", best so far" : "");
        if (!best.empty() && product >= least)
          continue;
        best = listOperations(function);
        ofBest = outcome;
        least = product;
      }
    restoreOrder(function, best);
    return ofBest;
  }

  /// How much of a function was measured.
  DictionaryAttr describeMeasured(func::FuncOp function,
                                  const optimus::CostModel &costs) {
    int64_t all = 0, known = 0;
    double allSeconds = 0, knownSeconds = 0;
    function.walk([&](CommandOpInterface command) {
      if (command.getAwaitedCommand())
        return;
      auto start = dyn_cast<CollectiveStartOp>(*command);
      std::optional<double> seconds = costs.getMeasured(command);
      ++all;
      known += seconds.has_value();
      knownSeconds += seconds.value_or(0);
      allSeconds += seconds ? *seconds
                    : start ? costs.getSeconds(start)
                            : costs.getComputeSeconds(command);
    });
    Builder b(&getContext());
    return b.getDictionaryAttr(
        {b.getNamedAttr("commands", b.getI64IntegerAttr(known)),
         b.getNamedAttr("of", b.getI64IntegerAttr(all)),
         b.getNamedAttr("ms", b.getF64FloatAttr(knownSeconds * 1e3)),
         b.getNamedAttr("of_ms", b.getF64FloatAttr(allSeconds * 1e3))});
  }

  /// Annotates a function with the outcome; `before` bytes were alive in it.
  void annotate(func::FuncOp function, const optimus::CostModel &costs,
                int64_t before, const OverlapOutcome &outcome,
                const optimus::StepPrediction &prediction) {
    auto [notOverlapped, bounded, peakBytes] = outcome;
    const int64_t extra = std::max<int64_t>(0, peakBytes - before);
    numExtraBytes += extra;
    Builder b(&getContext());
    NamedAttrList entries;
    setPrediction(entries, prediction, &getContext());
    auto count = [&](StringRef name, int64_t value) {
      entries.set(name, b.getI64IntegerAttr(value));
    };
    count("extra_workspace_bytes", extra);
    count("not_overlapped", notOverlapped);
    count("out_of_workspace", bounded);
    if (pricing.isMeasured())
      entries.set("measured", describeMeasured(function, costs));
    function->setAttr(ExecDialect::kSchedule,
                      entries.getDictionary(&getContext()));
    if (report && notOverlapped > 0)
      function.emitRemark()
          << notOverlapped
          << " collectives are not overlapped: " << notOverlapped - bounded
          << " have nothing to hide behind, " << bounded
          << " would exceed the extra workspace";
  }

  optimus::Pricing pricing;
  Offloading offloading;
  ExtraWorkspace workspace;
};
} // namespace

std::unique_ptr<Pass> exec::createSchedulePass(
    const SchedulePassOptions &options,
    std::shared_ptr<const optimus::MeasuredCosts> measured) {
  return std::make_unique<SchedulePass>(options, std::move(measured));
}
