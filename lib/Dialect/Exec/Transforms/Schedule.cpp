//===- Schedule.cpp - Moves starts up and waits down ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dependences.h"
#include "OverlapScheduler.h"
#include "Regions.h"

#include "optimus/Analysis/CostModel.h"
#include "optimus/Dialect/Exec/Transforms/ExtraWorkspace.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "llvm/Support/FormatVariadic.h"

namespace mlir::exec {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {
/// A function as the scheduler sees it, and back.
class ScheduledFunction {
public:
  ScheduledFunction(func::FuncOp function, const optimus::CostModel &costs)
      : function(function), costs(costs) {
    for (CollectiveStartOp start : function.getOps<CollectiveStartOp>())
      start.getWait()->moveAfter(start);
    nodes = computeDependences(function);
  }

  /// Schedules under a bound of bytes that are alive together, and puts the
  /// commands into the new order.
  void schedule(int64_t bound) {
    number();
    LiveBytes live(2 * (computes.size() + 1), bound);
    countLiveBytes(live);
    std::vector<double> seconds;
    for (unsigned node : computes)
      seconds.push_back(costs.getComputeSeconds(nodes[node].command));
    std::vector<OverlapTask> described = describeTasks();
    OverlapScheduler scheduler(std::move(seconds), std::move(described),
                               axes.size(), live);
    std::vector<SmallVector<OverlapEvent>> events = scheduler.run();
    tasks.assign(scheduler.getTasks().begin(), scheduler.getTasks().end());
    emit(events);
  }

  /// Puts the commands back where they were, each wait behind its start.
  void restore() {
    placed.clear();
    for (ProgramNode &node : nodes) {
      place(node.command);
      if (node.isCollective())
        place(node.wait);
    }
    numberCommands();
    for (OverlapTask &task : tasks) {
      task.startGap = task.waitGap;
      task.wasBounded = true;
    }
  }

  /// Collectives that end before anything is computed, and those of them that
  /// memory kept from a better place.
  std::pair<unsigned, unsigned> countNotOverlapped() const {
    unsigned all = 0, bounded = 0;
    for (const OverlapTask &task : tasks)
      if (task.startGap == task.waitGap) {
        ++all;
        bounded += task.wasBounded;
      }
    return {all, bounded};
  }

private:
  /// Tells computing nodes from collectives and numbers both.
  void number() {
    computes.clear();
    collectives.clear();
    indices.assign(nodes.size(), 0);
    for (unsigned node = 0; node < nodes.size(); ++node) {
      SmallVectorImpl<unsigned> &kind =
          nodes[node].isCollective() ? collectives : computes;
      indices[node] = kind.size();
      kind.push_back(node);
    }
  }

  std::vector<OverlapTask> describeTasks() {
    std::vector<OverlapTask> result;
    unsigned gap = 0;
    for (unsigned node = 0; node < nodes.size(); ++node) {
      if (!nodes[node].isCollective()) {
        ++gap;
        continue;
      }
      auto start = cast<CollectiveStartOp>(nodes[node].command);
      OverlapTask &task = result.emplace_back();
      task.axis = getAxis(costs.getLink(start.getAxis()));
      task.seconds = costs.getSeconds(start);
      task.gap = gap;
      task.firstUse = computes.size();
      task.bases = getTouchedBases(node);
      for (unsigned before : nodes[node].before)
        if (nodes[before].isCollective())
          task.before.push_back(indices[before]);
        else
          task.release = std::max(task.release, indices[before] + 1);
      for (unsigned after : nodes[node].after)
        if (nodes[after].isCollective())
          task.after.push_back(indices[after]);
        else
          task.firstUse = std::min(task.firstUse, indices[after]);
    }
    return result;
  }

  unsigned getAxis(StringRef name) {
    auto *found = llvm::find(axes, name);
    if (found == axes.end()) {
      axes.push_back(name);
      return axes.size() - 1;
    }
    return found - axes.begin();
  }

  SmallVector<Value> getTouchedBases(unsigned node) {
    SmallVector<Value> bases;
    for (const Access &access : nodes[node].command.getAccesses())
      for (Value base : getBases(access.operand->get()))
        if (!llvm::is_contained(bases, base))
          bases.push_back(base);
    return bases;
  }

  void countLiveBytes(LiveBytes &live) {
    int64_t gap = 0;
    for (unsigned node = 0; node < nodes.size(); ++node) {
      int64_t slot = nodes[node].isCollective() ? 2 * gap : 2 * gap++ + 1;
      for (Value base : getTouchedBases(node))
        live.touch(base, slot);
    }
    live.seal();
  }

  void emit(ArrayRef<SmallVector<OverlapEvent>> events) {
    placed.clear();
    for (auto [gap, list] : llvm::enumerate(events)) {
      for (const OverlapEvent &event : list) {
        ProgramNode &node = nodes[collectives[event.task]];
        place(event.isWait ? node.wait.getOperation()
                           : node.command.getOperation());
      }
      if (gap < computes.size())
        place(nodes[computes[gap]].command);
    }
    numberCommands();
  }

  void numberCommands() {
    unsigned id = 0;
    function.walk(
        [&](CommandOpInterface command) { command.setCommandId(id++); });
  }

  /// Puts an operation at the end, after what makes its operands.
  void place(Operation *op) {
    if (!placed.insert(op).second)
      return;
    for (Value operand : op->getOperands())
      if (Operation *definition = operand.getDefiningOp())
        place(definition);
    op->moveBefore(function.getBody().front().getTerminator());
  }

  func::FuncOp function;
  const optimus::CostModel &costs;
  std::vector<ProgramNode> nodes;
  /// Nodes by kind, and each node's number among its kind.
  SmallVector<unsigned> computes, collectives, indices;
  SmallVector<StringRef> axes;
  std::vector<OverlapTask> tasks;
  llvm::DenseSet<Operation *> placed;
};

class SchedulePass : public exec::impl::SchedulePassBase<SchedulePass> {
public:
  using SchedulePassBase::SchedulePassBase;

  LogicalResult initialize(MLIRContext *context) override {
    auto fail = [&](llvm::Error error) {
      return emitError(UnknownLoc::get(context))
             << llvm::toString(std::move(error));
    };
    if (mode != "none" && mode != "overlap")
      return emitError(UnknownLoc::get(context))
             << "unknown schedule '" << mode << "'; known are none and overlap";
    auto extra = ExtraWorkspace::parse(extraWorkspace);
    if (!extra)
      return fail(extra.takeError());
    workspace = *extra;
    auto loaded = optimus::MachineProfile::load(machineProfile);
    if (!loaded)
      return fail(loaded.takeError());
    profile = std::move(*loaded);
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
      if (start.getWait()->getBlock() != start->getBlock()) {
        start.emitOpError("its exec.wait is not in the same block");
        return signalPassFailure();
      }
    if (failed(verifyAllocations(function)))
      return signalPassFailure();
    optimus::MeshOp mesh = optimus::getMesh(function);
    optimus::CostModel costs(profile, mesh ? mesh.getNumRanks() : 1);
    int64_t before = computePeakBytes(function);
    unsigned notOverlapped = 0, bounded = 0;
    for ([[maybe_unused]] CollectiveStartOp start :
         function.getOps<CollectiveStartOp>())
      ++notOverlapped;
    numCollectives += notOverlapped;
    if (mode == "overlap" && notOverlapped > 0) {
      ScheduledFunction scheduled(function, costs);
      before = computePeakBytes(function);
      int64_t bound = before + workspace.getBytes(before);
      scheduled.schedule(bound);
      // Slots are coarser than commands; what they miss comes off the bound.
      int64_t limit = bound;
      for (int attempt = 0; attempt < 4; ++attempt) {
        int64_t excess = computePeakBytes(function) - bound;
        if (excess <= 0)
          break;
        limit -= excess;
        scheduled.schedule(limit);
      }
      // Buffers that several collectives fill can defeat it; what was there
      // before fits.
      if (computePeakBytes(function) > bound)
        scheduled.restore();
      std::tie(notOverlapped, bounded) = scheduled.countNotOverlapped();
    }
    numNotOverlapped += notOverlapped;
    numBounded += bounded;
    annotate(function, costs.predictStep(function),
             std::max<int64_t>(0, computePeakBytes(function) - before),
             notOverlapped, bounded);
  }

private:
  static bool hasCommands(func::FuncOp function) {
    return function
        .walk([](CommandOpInterface) { return WalkResult::interrupt(); })
        .wasInterrupted();
  }

  void annotate(func::FuncOp function,
                const optimus::StepPrediction &prediction, int64_t extra,
                unsigned notOverlapped, unsigned bounded) {
    numExtraBytes += extra;
    Builder b(&getContext());
    auto number = [&](StringRef name, double seconds) {
      return b.getNamedAttr(name, b.getF64FloatAttr(seconds * 1e3));
    };
    auto count = [&](StringRef name, int64_t value) {
      return b.getNamedAttr(name, b.getI64IntegerAttr(value));
    };
    SmallVector<Attribute> waits;
    for (const optimus::ExposedCollectives &entry : prediction.exposed)
      waits.push_back(b.getDictionaryAttr(
          {b.getNamedAttr("axis", b.getStringAttr(entry.axis)),
           b.getNamedAttr("collective",
                          b.getStringAttr(stringifyCollectiveKind(entry.kind))),
           count("count", entry.count), number("ms", entry.seconds),
           number("queued_ms", entry.queuedSeconds),
           number("idle_ms", entry.idleSeconds)}));
    SmallVector<NamedAttribute> parts;
    for (auto [kind, seconds] : prediction.parts)
      parts.push_back(number(kind, seconds));
    function->setAttr(
        ExecDialect::kSchedule,
        b.getDictionaryAttr(
            {b.getNamedAttr("waits", b.getArrayAttr(waits)),
             number("predicted_step_ms", prediction.getSeconds()),
             number("predicted_comm_ms", prediction.commSeconds),
             number("predicted_exposed_ms", prediction.exposedSeconds),
             b.getNamedAttr("predicted_parts_ms", b.getDictionaryAttr(parts)),
             count("extra_workspace_bytes", extra),
             count("not_overlapped", notOverlapped),
             count("out_of_workspace", bounded)}));
    if (report && notOverlapped > 0)
      function.emitRemark()
          << notOverlapped
          << " collectives are not overlapped: " << notOverlapped - bounded
          << " have nothing to hide behind, " << bounded
          << " would exceed the extra workspace";
  }

  optimus::MachineProfile profile;
  ExtraWorkspace workspace;
};
} // namespace
