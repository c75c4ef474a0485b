//===- OverlapScheduler.cpp - When collectives start and end ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OverlapScheduler.h"

#include "optimus-support/model_abi.h"

#include "llvm/Support/DebugLog.h"

#include <algorithm>

#define DEBUG_TYPE "optimus-schedule"

using namespace mlir;
using namespace mlir::exec;

/// How far a wait is put off at a time while its collective is under way.
static constexpr unsigned kStride = 16;
/// Ready tasks that are tried for one gap, and tasks looked ahead at.
static constexpr unsigned kMaxTries = 8, kLookAhead = 16;
/// Seconds by which predictions may always be wrong.
static constexpr double kMargin = 100e-6;

OverlapScheduler::OverlapScheduler(std::vector<double> computeSeconds,
                                   std::vector<OverlapTask> tasks,
                                   unsigned numAxes,
                                   std::optional<unsigned> reach,
                                   LiveBytes &live)
    : computeSeconds(std::move(computeSeconds)), tasks(std::move(tasks)),
      live(live), axes(numAxes) {
  size_t numTasks = this->tasks.size();
  states.assign(numTasks, State::Waiting);
  finish.resize(numTasks);
  deadlines.resize(numTasks);
  numBefore.resize(numTasks);
  sequence.resize(numTasks);
  queued.resize(numTasks);
  startsAt.resize(numGaps());
  waitsAt.resize(numGaps());
  releasesAt.resize(numGaps());
  events.resize(numGaps());
  elapsed.assign(1, 0);
  for (double seconds : this->computeSeconds)
    elapsed.push_back(elapsed.back() + seconds);

  std::vector<double> total(numAxes);
  for (unsigned task = 0; task < numTasks; ++task) {
    const OverlapTask &each = this->tasks[task];
    axes[each.axis].order.push_back(task);
    queued[task] = total[each.axis];
    total[each.axis] += each.seconds;
    numBefore[task] = each.before.size();
    startsAt[each.gap].push_back(task);
    if (each.before.empty())
      releasesAt[each.release].push_back(task);
  }
  if (reach)
    for (auto [axis, seconds] : llvm::zip_equal(axes, total))
      axis.reach =
          *reach * seconds / std::max<size_t>(1, axis.order.size()) + kMargin;
  for (unsigned task = numTasks; task-- > 0;) {
    deadlines[task] = this->tasks[task].firstUse;
    for (unsigned after : this->tasks[task].after)
      deadlines[task] = std::min(deadlines[task], deadlines[after]);
    waitsAt[this->tasks[task].firstUse].push_back(task);
  }
}

void OverlapScheduler::release(unsigned task) {
  axes[tasks[task].axis].ready.insert({getDeadline(task), task});
}

bool OverlapScheduler::isFull(const Axis &axis) const {
  return axis.started.size() - axis.oldest >= OPTRT_MAX_IN_FLIGHT - 1;
}

void OverlapScheduler::advanceOldest(Axis &axis) {
  while (axis.oldest < axis.started.size() &&
         states[axis.started[axis.oldest]] == State::Done)
    ++axis.oldest;
}

void OverlapScheduler::start(unsigned task) {
  OverlapTask &each = tasks[task];
  Axis &axis = axes[each.axis];
  axis.ready.erase({getDeadline(task), task});
  axis.free = std::max(axis.free, now) + each.seconds;
  finish[task] = axis.free;
  sequence[task] = axis.started.size();
  axis.started.push_back(task);
  states[task] = State::Started;
  each.startGap = at;
  LDBG() << "start collective " << task << " at gap " << at << " of "
         << numGaps() << ", needed at " << each.firstUse;
  events[at].push_back({task, /*isWait=*/false});
  while (axis.next < axis.order.size() &&
         states[axis.order[axis.next]] != State::Waiting)
    ++axis.next;
  if (!each.after.empty() || each.freesInChain())
    chained.push_back(task);
  reserveWait(task);
}

void OverlapScheduler::reserveWait(unsigned task) {
  OverlapTask &each = tasks[task];
  // Where it will have ended, with as much time to spare as it takes.
  double end = finish[task] + each.seconds;
  auto after = std::lower_bound(elapsed.begin() + at, elapsed.end(),
                                end - now + elapsed[at]);
  unsigned wanted = std::min<unsigned>(after - elapsed.begin(), numGaps() - 1);
  wanted = std::max(std::min(wanted, each.firstUse), at);
  if (wanted == each.firstUse && live.growTo(each.bases, 2 * at, 2 * wanted))
    return;
  int64_t slot = live.getFarthest(each.bases, 2 * at, 2 * wanted);
  unsigned gap = std::max<int64_t>(slot / 2, at);
  each.wasBounded |= gap < wanted;
  (void)live.growTo(each.bases, 2 * at, 2 * gap);
  if (gap < each.firstUse)
    waitsAt[gap].push_back(task);
}

void OverlapScheduler::wait(unsigned task) {
  if (states[task] == State::Done)
    return;
  OverlapTask &each = tasks[task];
  now = std::max(now, finish[task]);
  states[task] = State::Done;
  each.waitGap = at;
  events[at].push_back({task, /*isWait=*/true});
  advanceOldest(axes[each.axis]);
  for (unsigned after : each.after)
    if (--numBefore[after] == 0) {
      if (tasks[after].release <= at)
        release(after);
      else
        releasesAt[tasks[after].release].push_back(after);
    }
}

void OverlapScheduler::forceStart(unsigned task) {
  if (states[task] != State::Waiting)
    return;
  for (unsigned before : tasks[task].before) {
    forceStart(before);
    wait(before);
  }
  Axis &axis = axes[tasks[task].axis];
  while (isFull(axis))
    wait(axis.started[axis.oldest]);
  (void)live.growTo(tasks[task].bases, 2 * at);
  start(task);
}

bool OverlapScheduler::tryStart(unsigned task) {
  if (!live.growTo(tasks[task].bases, 2 * at)) {
    tasks[task].wasBounded = true;
    LDBG() << "collective " << task << " waits at gap " << at
           << ": its buffers would exceed the workspace";
    return false;
  }
  start(task);
  return true;
}

double OverlapScheduler::getQueue(unsigned task) const {
  const Axis &axis = axes[tasks[task].axis];
  double before = queued[axis.order[axis.next]];
  return std::max(0.0, queued[task] - before) + tasks[task].seconds;
}

bool OverlapScheduler::isTooEarly(unsigned task) const {
  // What frees memory is never too early.
  if (tasks[task].frees)
    return false;
  if (getTime(getDeadline(task)) - now > axes[tasks[task].axis].reach)
    return true;
  // Too early: even after the next command there will be twice the time needed
  // by its axis until then. Then memory is worth more than the start.
  unsigned next = std::min(at + 1, numGaps() - 1);
  return getTime(getDeadline(task)) - getTime(next) >
         2 * getQueue(task) + kMargin;
}

bool OverlapScheduler::anyMoreUrgent(
    unsigned task, llvm::function_ref<bool(unsigned)> predicate) const {
  const Axis &axis = axes[tasks[task].axis];
  size_t end = std::min(axis.next + kLookAhead, axis.order.size());
  for (size_t i = axis.next; i < end; ++i) {
    unsigned other = axis.order[i];
    if (states[other] == State::Waiting &&
        getDeadline(other) < getDeadline(task) && predicate(other))
      return true;
  }
  return false;
}

bool OverlapScheduler::shouldYield(unsigned task) const {
  double end = std::max(axes[tasks[task].axis].free, now) + tasks[task].seconds;
  // What is left when it starts as late as it can, behind its axis' queue.
  double slack = getTime(getDeadline(task)) - now - getQueue(task);
  return anyMoreUrgent(task, [&](unsigned other) {
    double released = getTime(tasks[other].release);
    return tasks[other].release > at && released < end &&
           slack > released - now + tasks[other].seconds;
  });
}

void OverlapScheduler::fill(double until) {
  for (Axis &axis : axes) {
    unsigned tries = 0;
    for (auto it = axis.ready.begin();
         it != axis.ready.end() && !isFull(axis) && tries < kMaxTries;
         ++tries) {
      unsigned task = it->second;
      // One more than the axis carries by then: a collective leaves the links
      // of those ranks idle that have sent, or received, all of theirs.
      if (axis.free >= until + tasks[task].seconds)
        break;
      // Starting erases the entry and adds none.
      ++it;
      if (isTooEarly(task))
        break;
      if (!shouldYield(task))
        (void)tryStart(task);
    }
  }
}

void OverlapScheduler::placeHere(unsigned task) {
  if (states[task] != State::Waiting)
    return;
  OverlapTask &each = tasks[task];
  unsigned later = std::min(at + kStride, getDeadline(task));
  // What frees memory waits for the one before it, not for its axis: without an
  // early use it would wait as long as there is room.
  bool mayWait = later > at &&
                 (each.freesInChain()
                      ? numBefore[task] > 0
                      : axes[each.axis].free > now &&
                            anyMoreUrgent(task, [](unsigned) { return true; }));
  if (mayWait && live.growTo(each.bases, 2 * later))
    startsAt[later].push_back(task);
  else
    forceStart(task);
}

std::vector<SmallVector<OverlapEvent>> OverlapScheduler::run() {
  for (at = 0; at < numGaps(); ++at) {
    for (unsigned task : releasesAt[at])
      release(task);
    llvm::erase_if(chained, [&](unsigned task) {
      // The last one of a chain has as much time to spare as it takes.
      double spare = tasks[task].after.empty() ? tasks[task].seconds : 0;
      if (states[task] == State::Started && finish[task] + spare <= now)
        wait(task);
      return states[task] == State::Done;
    });
    // Starting pushes to the lists of later gaps, or to this one's end.
    for (size_t i = 0; i < startsAt[at].size(); ++i) {
      unsigned task = startsAt[at][i];
      placeHere(task);
      // Where the buffers of one gap do not fit together, one collective ends
      // before the next begins, as they stood in the program.
      if (states[task] == State::Started && live.exceeds(2 * at)) {
        tasks[task].wasBounded = true;
        wait(task);
      }
    }
    SmallVector<unsigned> urgent;
    double ready = now;
    for (size_t i = 0; i < waitsAt[at].size(); ++i) {
      unsigned task = waitsAt[at][i];
      if (states[task] == State::Done)
        continue;
      forceStart(task);
      OverlapTask &each = tasks[task];
      // What memory or foresight limited may have room by now.
      if (at < each.firstUse && finish[task] > now) {
        unsigned later = std::min(at + kStride, each.firstUse);
        if (live.growTo(each.bases, 2 * at, 2 * later)) {
          if (later < each.firstUse)
            waitsAt[later].push_back(task);
          continue;
        }
        each.wasBounded = true;
      }
      urgent.push_back(task);
      ready = std::max(ready, finish[task]);
    }
    bool isLast = at + 1 == numGaps();
    fill(isLast ? ready : ready + computeSeconds[at]);
    llvm::sort(urgent);
    urgent.erase(llvm::unique(urgent), urgent.end());
    for (unsigned task : urgent)
      wait(task);
    if (!isLast)
      now += computeSeconds[at];
  }
  sinkWaits();
  return std::move(events);
}

void OverlapScheduler::sinkWaits() {
  // Behind a wait that frees its place, a start may have come.
  constexpr unsigned kSpan = OPTRT_MAX_IN_FLIGHT - 4;
  std::vector<unsigned> sunk;
  for (unsigned task = 0; task < tasks.size(); ++task) {
    OverlapTask &each = tasks[task];
    Axis &axis = axes[each.axis];
    unsigned limit = each.firstUse;
    if (size_t later = sequence[task] + kSpan; later < axis.started.size())
      limit = std::min(limit,
                       std::max(1u, tasks[axis.started[later]].startGap) - 1);
    if (!each.after.empty() || each.freesInChain() || limit <= each.waitGap)
      continue;
    // Only as far as its buffers are alive anyway.
    unsigned gap =
        std::min<int64_t>(limit, live.getEnd(each.bases, 2 * each.waitGap) / 2);
    if (gap <= each.waitGap)
      continue;
    llvm::erase_if(events[each.waitGap], [&](const OverlapEvent &event) {
      return event.isWait && event.task == task;
    });
    each.waitGap = gap;
    sunk.push_back(task);
  }
  for (unsigned task : sunk)
    events[tasks[task].waitGap].push_back({task, /*isWait=*/true});
}
