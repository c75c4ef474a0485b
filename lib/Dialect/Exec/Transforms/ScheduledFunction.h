//===- ScheduledFunction.h - A function with its commands in order *- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_SCHEDULEDFUNCTION_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_SCHEDULEDFUNCTION_H

#include "Dependences.h"
#include "Offloading.h"
#include "OverlapScheduler.h"

#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/MemoryPlanning/MemoryPlanner.h"

namespace mlir::exec {

/// A function as the schedulers see it, and back. While it lives nothing else
/// changes the order of commands. Orders are tried without touching the
/// function, until one is applied.
class ScheduledFunction {
public:
  /// A node's command, or its wait.
  struct PlacedCommand {
    uint32_t node : 31, isWait : 1;
    bool operator==(const PlacedCommand &) const = default;
  };
  using Order = std::vector<PlacedCommand>;

  /// Every wait stands behind its start. What is to be offloaded rests outside
  /// the device's memory as it would in each order, but no copies are made.
  ScheduledFunction(func::FuncOp function, const optimus::CostModel &costs,
                    const Offloading &offloading);

  /// Puts the commands into an order in which fewer bytes are alive, each wait
  /// behind its start, and applies it.
  void orderForMemory();

  const Order &getOrder() const { return order; }
  void setOrder(Order newOrder);

  /// Puts the function's operations into the order as it is, what makes a
  /// command's operands before it, and numbers the commands.
  void apply();

  /// Moves starts up and waits down so that no more than `bound` bytes are
  /// alive together; restores the order where that cannot be kept, and returns
  /// false. What was moved before counts for nothing. The reach is
  /// OverlapScheduler's.
  bool overlap(int64_t bound, std::optional<unsigned> reach = std::nullopt);

  /// Puts the commands back where they were, each wait behind its start.
  void restore();

  /// The most bytes that are alive at once, in the order as it is.
  int64_t getPeakBytes();

  /// The live ranges in the device's memory, in the order as it is.
  SmallVector<optimus_planning::LiveRange> collectLiveRanges();

  /// A call in the order as it is, without the transfers of what is offloaded.
  optimus::StepPrediction predict();

  /// The predicted time of a call in the order as it is, with these.
  double predictSeconds();

  /// Collectives that end before any computation, and how many of them lack
  /// memory for a better place.
  std::pair<unsigned, unsigned> countNotOverlapped() const;

private:
  /// A buffer in the device's memory that the function allocates.
  struct Buffer {
    Value base;
    int64_t placedBytes;
  };
  /// When buffers are alive, by number, and which of them, by first touch.
  struct Lives {
    std::vector<LiveInterval> intervals;
    SmallVector<unsigned> touched;
  };

  /// Finds nodes and the buffers they touch.
  void findNodes();
  Lives computeLives();
  /// Schedules under a bound of bytes that are alive together.
  void schedule(int64_t bound, std::optional<unsigned> reach);
  /// Tells computing nodes from collectives, numbers both and describes them to
  /// the scheduler: the same for every schedule.
  void describe();
  std::vector<OverlapTask> describeTasks();
  /// Finds the collectives that free memory where they stand.
  void findFreeing(MutableArrayRef<OverlapTask> described);
  unsigned getAxis(StringRef name);
  SmallVector<Value> getTouchedBases(unsigned node);
  void countLiveBytes();
  /// Finds the slots at which offloaded buffers are in the device's memory.
  void findResident();
  void emit(ArrayRef<SmallVector<OverlapEvent>> events);
  /// Puts an operation at the end, after what makes its operands.
  void place(Operation *op);
  /// The copies in the order as it is; nothing if nothing is offloaded.
  OffloadPlan *getOffloadPlan();

  func::FuncOp function;
  const optimus::CostModel &costs;
  const Offloading &offloading;
  std::vector<ProgramNode> nodes;
  std::vector<Buffer> buffers;
  /// The buffers that each node touches, once each.
  std::vector<SmallVector<unsigned, 4>> touchedBy;
  /// What each node costs, once an order was predicted.
  std::vector<optimus::StepPredictor::Command> described;
  Order order;
  bool isApplied = true;
  /// Nodes by kind, and each node's number among its kind.
  SmallVector<unsigned> computes, collectives, indices;
  SmallVector<StringRef> axes;
  std::vector<double> computeSeconds;
  /// The collectives, as they were given and as they are scheduled.
  std::vector<OverlapTask> given, tasks;
  /// In the order as it was given: what is offloaded, with first and last
  /// slots.
  llvm::MapVector<Value, SmallVector<std::pair<int64_t, int64_t>>> resident;
  /// The same bytes, without a bound.
  std::optional<LiveBytes> live;
  llvm::DenseSet<Operation *> placed;
  /// Of the order as it is, once they were asked for.
  std::optional<int64_t> peakBytes;
  std::optional<OffloadPlan> plan;
};

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_SCHEDULEDFUNCTION_H
