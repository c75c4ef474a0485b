//===- PlanWalk.h - A member on its way through a plan ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_PLANS_PLANWALK_H
#define OPTIMUS_RUNTIME_CCL_PLANS_PLANWALK_H

#include "../ScratchBuffer.h"
#include "optimus-runtime/Collectives.h"
#include "optimus-support/CollectivePlan.h"

#include <array>
#include <vector>

namespace optrt {

/// A collective as plans know it.
optimus_support::CollectiveShape shapeOf(const optrt_collective_desc &desc);

/// What a member does for a collective, or for its end of a message.
optimus_support::CollectivePlan
planOf(const optrt_collective_desc &desc, int index, int size,
       optimus_support::CollectiveRoute route,
       optimus_support::CollectivePlan former = {});

/// Does the steps of a collective's plan, segment by segment: additions and
/// copies itself, messages by a transport, whose class derives from this one.
/// Nothing waits, so that the walks of a thread take turns.
class PlanWalk {
public:
  /// Does what can be done without waiting.
  Status advance();
  bool isDone() const { return stepsLeft == 0; }
  Communicator::Clock::time_point completedAt() const { return doneAt; }

protected:
  using Step = optimus_support::PlanStep;

  /// A segment of a step that sends or receives.
  struct Message {
    int step;
    int64_t segment;
    std::byte *data;
    int64_t elements;
  };

  ~PlanWalk() = default;

  /// Does what can be done before anything has come. The operands outlive the
  /// walk.
  Status begin(optimus_support::CollectivePlan newPlan,
               const optimus_support::PlanLimits &newLimits,
               const optrt_collective_desc &newDesc, const void *newSrc,
               void *newDst);

  /// Begins to move a message.
  virtual Status post(const Message &message) = 0;
  /// Moves what it can without waiting; adds what has arrived or left.
  virtual Status test(std::vector<Message> &ended) = 0;

  static std::vector<int64_t>
  bufferBytes(const optimus_support::CollectivePlan &plan,
              const optimus_support::PlanLimits &limits,
              const optrt_collective_desc &desc);
  const Step &stepOf(const Message &message) const {
    return plan.steps[message.step];
  }

  optrt_collective_desc desc{};
  int64_t elementBytes = 0;
  optimus_support::CollectivePlan plan; ///< its memory serves the next one

private:
  using View = optimus_support::PlanView;

  /// Counts segments of a step.
  struct Progress {
    int64_t segments, started = 0, done = 0;
    uint64_t early = 0; ///< bit i: segment done + i is done as well
  };
  /// Its sends take turns.
  struct Channel {
    std::vector<int> sends;
    std::size_t next = 0;
    int inFlight = 0;
  };

  Status work();
  Status postSends(Channel &channel);
  bool isReady(int step) const;
  /// The next segment of a step begins.
  Message start(int step);
  void end(const Message &message);
  void add(const Step &step, int64_t begin, int64_t length);
  void copy(const Step &step, int64_t begin, int64_t length);

  /// Where an element of a view is.
  std::byte *at(const View &view, int64_t element) const;
  /// Calls body(run, offset, length) for what lies together of some elements.
  template <typename Body>
  void forEachRun(const View &view, int64_t begin, int64_t length,
                  Body body) const;

  optimus_support::PlanLimits limits{};
  std::byte *src = nullptr, *dst = nullptr;
  bool flushes = false; ///< subnormal numbers, as the thread that began it
  int64_t ringLength = 0;
  int stepsLeft = 0;
  bool hasPosted = false; ///< since the last look at messages
  Communicator::Clock::time_point doneAt;
  std::vector<Progress> progress; ///< by step
  std::array<Channel, 2> channels;
  std::vector<Message> ended;
  // Kept between uses: fresh pages are slow.
  std::array<ScratchBuffer, 3> buffers; ///< as CollectiveRoom
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_PLANS_PLANWALK_H
