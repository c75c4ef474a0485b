//===- OverlapScheduler.h - When collectives start and end ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A list scheduler on predicted times. Computation keeps its order. Time passes
// from one command that computes to the next; before each, every mesh axis that
// would fall idle during it and one more collective gets a collective: of those
// with their data, the one needed first. docs/scheduling.md describes the
// rules.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OVERLAPSCHEDULER_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OVERLAPSCHEDULER_H

#include "LiveBytes.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <limits>
#include <optional>
#include <set>
#include <vector>

namespace mlir::exec {

/// A collective. Gap g is the place before the g-th command that computes.
struct OverlapTask {
  unsigned axis;
  double seconds;
  /// Where it stands in the program.
  unsigned gap;
  /// From where on what it reads is there, as far as computation goes.
  unsigned release = 0;
  /// The first command that computes with its result, or overwrites its source.
  unsigned firstUse;
  /// The buffers it touches, once each.
  SmallVector<Value> bases;
  /// It ends the live ranges of more bytes than it begins.
  bool frees = false;
  /// Collectives to end before its start, and collectives to start after it.
  SmallVector<unsigned, 2> before, after;

  /// Whether it frees memory and follows another one, or another follows it, as
  /// where a gradient is reduced over rows and then over "data".
  bool freesInChain() const {
    return frees && !(before.empty() && after.empty());
  }

  // Where it is in the end.
  unsigned startGap = 0, waitGap = 0;
  bool wasBounded = false; ///< memory kept it from a better place
};

/// A start or a wait of a task.
struct OverlapEvent {
  unsigned task;
  bool isWait;
};

class OverlapScheduler {
public:
  /// Commands that compute take `computeSeconds`. `live` has two slots for
  /// each gap: 2g is the gap, 2g + 1 the command after it. No collective starts
  /// further ahead of its use than `reach` of mean length take on its axis.
  OverlapScheduler(std::vector<double> computeSeconds,
                   std::vector<OverlapTask> tasks, unsigned numAxes,
                   std::optional<unsigned> reach, LiveBytes &live);

  /// The starts and waits at each gap, in order.
  std::vector<SmallVector<OverlapEvent>> run();

  ArrayRef<OverlapTask> getTasks() const { return tasks; }

private:
  enum class State { Waiting, Started, Done };

  /// The unstarted tasks of one axis and what is under way on it.
  struct Axis {
    double free = 0;
    /// Seconds ahead of its use from where on a task starts.
    double reach = std::numeric_limits<double>::infinity();
    /// Ready tasks, by when they are needed.
    std::set<std::pair<unsigned, unsigned>> ready;
    /// All tasks in program order; those before `next` have started.
    std::vector<unsigned> order;
    size_t next = 0;
    /// Tasks by the order of their starts; those before `oldest` have ended.
    std::vector<unsigned> started;
    size_t oldest = 0;
  };

  unsigned numGaps() const { return computeSeconds.size() + 1; }
  double getTime(unsigned gap) const {
    return now + elapsed[gap] - elapsed[at];
  }
  unsigned getDeadline(unsigned task) const { return deadlines[task]; }

  void release(unsigned task);
  /// Starts a task, after what must come before it.
  void forceStart(unsigned task);
  /// Starts a ready task if memory permits.
  bool tryStart(unsigned task);
  void start(unsigned task);
  void wait(unsigned task);
  /// Decides until where a started task may be waited for.
  void reserveWait(unsigned task);
  bool isFull(const Axis &axis) const;
  void advanceOldest(Axis &axis);
  /// What a task's axis carries until it has ended, in program order.
  double getQueue(unsigned task) const;
  /// Whether a task would lie in memory for longer than is of use.
  bool isTooEarly(unsigned task) const;
  /// Whether a task had better wait for one that is needed sooner.
  bool shouldYield(unsigned task) const;
  /// Whether the axis of a task will soon have one that is needed sooner.
  bool anyMoreUrgent(unsigned task,
                     llvm::function_ref<bool(unsigned)> predicate) const;
  void fill(double until);
  /// Keeps a task that stands here waiting for a while, or starts it.
  void placeHere(unsigned task);
  void sinkWaits();

  std::vector<double> computeSeconds;
  std::vector<OverlapTask> tasks;
  LiveBytes &live;
  std::vector<Axis> axes;
  std::vector<State> states;
  std::vector<double> finish;
  std::vector<unsigned> deadlines, numBefore, sequence;
  /// The time at each gap if nothing were ever waited for.
  std::vector<double> elapsed;
  /// Communication of the axis before each task, in program order.
  std::vector<double> queued;
  /// The starts and ends at each gap.
  std::vector<SmallVector<unsigned, 2>> startsAt, waitsAt;
  std::vector<SmallVector<unsigned, 2>> releasesAt;
  std::vector<SmallVector<OverlapEvent>> events;
  /// Under way, with tasks that come after them or memory to free.
  std::vector<unsigned> chained;
  unsigned at = 0;
  double now = 0;
};

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OVERLAPSCHEDULER_H
