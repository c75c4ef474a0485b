//===- ScheduledFunction.cpp - A function with its commands in order *- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduledFunction.h"

#include "MemoryOrder.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/Regions.h"

#include "optimus-support/Pages.h"

using namespace mlir;
using namespace mlir::exec;

ScheduledFunction::ScheduledFunction(func::FuncOp function,
                                     const optimus::CostModel &costs,
                                     const Offloading &offloading)
    : function(function), costs(costs), offloading(offloading) {
  findNodes();
}

void ScheduledFunction::findNodes() {
  nodes = computeDependences(function);
  buffers.clear();
  touchedBy.assign(nodes.size(), {});
  llvm::DenseMap<Value, unsigned> numbers;
  llvm::DenseMap<Operation *, uint32_t> nodeOf;
  for (unsigned node = 0; node < nodes.size(); ++node) {
    nodeOf[nodes[node].command] = node;
    for (Value base : getTouchedBases(node)) {
      if (!base.getDefiningOp<AllocOp>() ||
          getMemorySpace(base) != MemorySpace::Device)
        continue;
      auto [entry, isNew] = numbers.insert({base, buffers.size()});
      if (isNew)
        buffers.push_back({base, getPlacedBytes(base)});
      touchedBy[node].push_back(entry->second);
    }
  }
  order.clear();
  for (auto command : function.getBody().front().getOps<CommandOpInterface>()) {
    Operation *awaited = command.getAwaitedCommand();
    order.push_back(
        {nodeOf.at(awaited ? awaited : command), awaited != nullptr});
  }
  isApplied = true;
}

void ScheduledFunction::schedule(int64_t bound, std::optional<unsigned> reach) {
  if (indices.empty())
    describe();
  LiveBytes within = live->withBound(bound);
  OverlapScheduler scheduler(computeSeconds, given, axes.size(), reach, within);
  std::vector<SmallVector<OverlapEvent>> events = scheduler.run();
  tasks.assign(scheduler.getTasks().begin(), scheduler.getTasks().end());
  emit(events);
}

void ScheduledFunction::restore() {
  Order restored;
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    restored.push_back({node, false});
    if (nodes[node].isCollective())
      restored.push_back({node, true});
  }
  setOrder(std::move(restored));
  for (OverlapTask &task : tasks) {
    task.startGap = task.waitGap;
    task.wasBounded = true;
  }
}

bool ScheduledFunction::overlap(int64_t bound, std::optional<unsigned> reach) {
  schedule(bound, reach);
  // Slots are coarser than commands; what they miss comes off the bound, and a
  // little more each time.
  int64_t limit = bound;
  for (int attempt = 0; attempt < 4; ++attempt) {
    int64_t excess = getPeakBytes() - bound;
    if (excess <= 0)
      return true;
    limit -= excess + attempt * bound / 256;
    schedule(limit, reach);
  }
  // Buffers that several collectives fill can defeat it; what was there
  // before fits.
  if (getPeakBytes() <= bound)
    return true;
  restore();
  return false;
}

void ScheduledFunction::orderForMemory() {
  OrderProblem problem;
  for (const Buffer &buffer : buffers)
    problem.bytes.push_back(buffer.placedBytes);
  for (auto [node, touched] : llvm::zip_equal(nodes, touchedBy))
    problem.nodes.push_back({node.before, node.after, touched});
  Order found;
  for (uint32_t node : exec::orderForMemory(problem)) {
    found.push_back({node, false});
    if (nodes[node].isCollective())
      found.push_back({node, true});
  }
  setOrder(std::move(found));
  apply();
  findNodes();
  indices.clear();
  described.clear();
}

std::pair<unsigned, unsigned> ScheduledFunction::countNotOverlapped() const {
  unsigned all = 0, bounded = 0;
  for (const OverlapTask &task : tasks)
    if (task.startGap == task.waitGap) {
      ++all;
      bounded += task.wasBounded;
    }
  return {all, bounded};
}

void ScheduledFunction::describe() {
  computes.clear();
  collectives.clear();
  indices.assign(nodes.size(), 0);
  for (unsigned node = 0; node < nodes.size(); ++node) {
    SmallVectorImpl<unsigned> &kind =
        nodes[node].isCollective() ? collectives : computes;
    indices[node] = kind.size();
    kind.push_back(node);
  }
  computeSeconds.clear();
  for (unsigned node : computes)
    computeSeconds.push_back(costs.getComputeSeconds(nodes[node].command));
  given = describeTasks();
  findResident();
  countLiveBytes();
}

void ScheduledFunction::findResident() {
  resident.clear();
  OffloadPlan *plan = getOffloadPlan();
  if (!plan)
    return;
  SmallVector<int64_t> slots;
  int64_t gap = 0;
  for (CommandOpInterface command : plan->getCommands()) {
    bool isCollective =
        command.getWaitingCommand() || command.getAwaitedCommand();
    slots.push_back(isCollective ? 2 * gap : 2 * gap++ + 1);
  }
  plan->getRewriter().forEachRange(
      [&](Value base, int64_t first, int64_t last) {
        resident[base].push_back({slots[first], slots[last]});
      });
}

void ScheduledFunction::findFreeing(MutableArrayRef<OverlapTask> described) {
  struct Range {
    unsigned first, last;
  };
  llvm::DenseMap<Value, Range> ranges;
  for (unsigned node = 0; node < nodes.size(); ++node)
    for (Value base : getTouchedBases(node))
      if (base.getDefiningOp<AllocOp>())
        ranges.try_emplace(base, Range{node, node}).first->second.last = node;
  for (auto [node, task] : llvm::zip_equal(collectives, described)) {
    int64_t freed = 0;
    for (Value base : task.bases) {
      auto found = ranges.find(base);
      if (found == ranges.end())
        continue;
      auto [first, last] = found->second;
      if (last == node)
        freed += getPlacedBytes(base);
      if (first == node)
        freed -= getPlacedBytes(base);
    }
    task.frees = freed > 0;
  }
}

std::vector<OverlapTask> ScheduledFunction::describeTasks() {
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
  findFreeing(result);
  return result;
}

unsigned ScheduledFunction::getAxis(StringRef name) {
  auto *found = llvm::find(axes, name);
  if (found == axes.end()) {
    axes.push_back(name);
    return axes.size() - 1;
  }
  return found - axes.begin();
}

SmallVector<Value> ScheduledFunction::getTouchedBases(unsigned node) {
  SmallVector<Value> bases;
  for (const Access &access : nodes[node].command.getAccesses())
    for (Value base : getBases(access.operand->get()))
      if (!llvm::is_contained(bases, base))
        bases.push_back(base);
  return bases;
}

void ScheduledFunction::countLiveBytes() {
  live.emplace(2 * (computes.size() + 1), std::numeric_limits<int64_t>::max());
  int64_t gap = 0;
  for (unsigned node = 0; node < nodes.size(); ++node) {
    int64_t slot = nodes[node].isCollective() ? 2 * gap : 2 * gap++ + 1;
    for (Value base : getTouchedBases(node))
      if (!resident.contains(base))
        live->touch(base, slot);
  }
  for (const auto &[base, ranges] : resident)
    for (auto [first, last] : ranges)
      live->addResident(base, first, last);
  live->seal();
}

void ScheduledFunction::emit(ArrayRef<SmallVector<OverlapEvent>> events) {
  Order emitted;
  emitted.reserve(computes.size() + 2 * collectives.size());
  for (auto [gap, list] : llvm::enumerate(events)) {
    for (const OverlapEvent &event : list)
      emitted.push_back({collectives[event.task], event.isWait});
    if (gap < computes.size())
      emitted.push_back({computes[gap], false});
  }
  setOrder(std::move(emitted));
}

void ScheduledFunction::setOrder(Order newOrder) {
  order = std::move(newOrder);
  isApplied = false;
  peakBytes.reset();
  plan.reset();
}

void ScheduledFunction::place(Operation *op) {
  if (!placed.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    if (Operation *definition = operand.getDefiningOp())
      place(definition);
  op->moveBefore(function.getBody().front().getTerminator());
}

void ScheduledFunction::apply() {
  if (isApplied)
    return;
  placed.clear();
  for (auto [node, isWait] : order)
    place(isWait ? nodes[node].wait : nodes[node].command);
  numberCommands(function);
  isApplied = true;
}

OffloadPlan *ScheduledFunction::getOffloadPlan() {
  if (!plan && !offloading.isEmpty()) {
    apply();
    plan.emplace(function, offloading, costs);
  }
  return plan ? &*plan : nullptr;
}

ScheduledFunction::Lives ScheduledFunction::computeLives() {
  Lives lives;
  lives.intervals.assign(buffers.size(), {-1, -1});
  const int64_t end = order.size() - 1;
  for (auto [position, placed] : llvm::enumerate(order)) {
    const int64_t first = position;
    const int64_t last = first + nodes[placed.node].command.getCommandLag();
    for (unsigned buffer : touchedBy[placed.node]) {
      LiveInterval &interval = lives.intervals[buffer];
      if (interval.first < 0) {
        interval.first = first;
        lives.touched.push_back(buffer);
      }
      // Nothing comes after the last command.
      interval.last = std::max(interval.last, std::min(last, end));
    }
  }
  return lives;
}

int64_t ScheduledFunction::getPeakBytes() {
  if (peakBytes)
    return *peakBytes;
  if (!offloading.isEmpty()) {
    peakBytes = optimus_planning::lowerBound(collectLiveRanges());
    return *peakBytes;
  }
  std::vector<int64_t> changes(order.size() + 1);
  for (auto [buffer, interval] :
       llvm::zip_equal(buffers, computeLives().intervals)) {
    changes[interval.first] += buffer.placedBytes;
    changes[interval.last + 1] -= buffer.placedBytes;
  }
  int64_t alive = 0, most = 0;
  for (int64_t change : changes)
    most = std::max(most, alive += change);
  peakBytes = most;
  return most;
}

SmallVector<optimus_planning::LiveRange>
ScheduledFunction::collectLiveRanges() {
  SmallVector<optimus_planning::LiveRange> ranges;
  auto add = [&](Value base, int64_t first, int64_t last, int64_t alignment) {
    ranges.push_back({static_cast<int64_t>(ranges.size()), first, last + 1,
                      getBufferBytes(base), alignment});
  };
  OffloadPlan *plan = getOffloadPlan();
  const Lives lives = computeLives();
  for (unsigned buffer : lives.touched)
    if (Value base = buffers[buffer].base;
        !(plan && plan->getRewriter().contains(base)))
      add(base, lives.intervals[buffer].first, lives.intervals[buffer].last,
          getBufferAlignment(base));
  if (plan)
    plan->getRewriter().forEachRange(
        [&](Value base, int64_t first, int64_t last) {
          add(base, first, last, optimus_support::kPageBytes);
        });
  return ranges;
}

optimus::StepPrediction ScheduledFunction::predict() {
  if (described.empty())
    for (const ProgramNode &node : nodes)
      described.push_back(
          optimus::StepPredictor::describe(costs, node.command));
  optimus::StepPredictor predictor(costs);
  for (auto [node, isWait] : order)
    if (isWait)
      predictor.wait(described[node].command);
    else
      predictor.advance(described[node]);
  return predictor.endCall();
}

double ScheduledFunction::predictSeconds() {
  double seconds = predict().getSeconds();
  if (OffloadPlan *plan = getOffloadPlan())
    seconds += plan->getTransfers().predict().exposedSeconds;
  return seconds;
}
