//===- Meetings.h - Where ranks come together -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_MEETINGS_H
#define OPTIMUS_LIB_SIMULATION_MEETINGS_H

#include "optimus/Simulation/TimedProgram.h"

#include <functional>
#include <optional>
#include <vector>

namespace optimus_simulation {

inline constexpr uint32_t kNoMeeting = 0xffffffff;

/// Collectives with the same number among the same ranks, or the two ends of a
/// message, are one meeting.
struct MeetingKey {
  uint32_t axes;
  /// The group and kNoMeeting; of a message sender and receiver.
  uint32_t first, second;
  /// How many such came before.
  uint32_t index = 0;

  bool operator==(const MeetingKey &) const = default;
};

struct MeetingKeyHash {
  size_t operator()(const MeetingKey &key) const {
    uint64_t hash = key.axes;
    for (uint64_t part : {key.first, key.second, key.index})
      hash = (hash ^ part) * 0x9e3779b97f4a7c15 + (hash >> 29);
    return hash ^ (hash >> 32);
  }
};

/// A rank comes to a meeting, with its link free at `ready`.
struct Arrival {
  uint32_t rank, colour, link, transfer, meeting;
  uint32_t call, command;
  Picoseconds post = 0, ready = 0, seconds = 0;
  /// The meeting that its link carried until `ready`, or kNoMeeting where it
  /// was free before.
  uint32_t before = kNoMeeting;
  /// Of the command.
  uint32_t priority = 0;

  /// Whether this one comes later; of two at once, the lower colour decides.
  bool isAfter(const Arrival &other) const {
    return ready != other.ready ? ready > other.ready : colour < other.colour;
  }
};

/// A rank's command.
struct Cause {
  uint32_t rank, call, command;
};

struct Meeting {
  MeetingKey key;
  uint32_t expected = 0;
  /// Whether it begins only when a member waits for it, and whether all have
  /// come and none does.
  bool isAwaited = false, isHeld = false;
  bool isOver = false;
  Picoseconds begin = 0, end = 0;
  /// What it takes with all links to itself.
  Picoseconds alone = 0;
  /// All that have come; once it is over, the last of them alone.
  std::vector<Arrival> arrivals;
  /// The wait with which it began, where it was later.
  std::optional<Cause> waiter = {};
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_MEETINGS_H
