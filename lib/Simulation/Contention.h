//===- Contention.h - What ranks share while they compute -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_CONTENTION_H
#define OPTIMUS_LIB_SIMULATION_CONTENTION_H

#include "Meetings.h"
#include "SharedLinks.h"

#include <vector>

namespace optimus_simulation {

/// Decides when computing and meetings end where they slow each other.
class Contention {
public:
  virtual ~Contention() = default;

  /// An actor computes a command for so long by itself, from a time on;
  /// `beside` times as long while a collective is under way on its device.
  virtual void compute(uint32_t actor, Picoseconds begin, Picoseconds seconds,
                       double beside) = 0;

  /// A meeting as it would be by itself.
  struct Move {
    uint32_t meeting;
    /// Who waits for it on a core.
    uint32_t actor;
    Picoseconds begin, seconds;
    /// Of processors.
    Picoseconds processors;
    /// So many times as long while a member computes.
    double beside;
    const std::vector<Arrival> &members;
    /// So many such take place at once.
    size_t groups;
  };
  virtual void move(const Move &move) = 0;
  /// A meeting whose end the links decide; alone they give it so many bytes a
  /// second.
  virtual void moveOnLinks(const Move &, double) {}
  virtual void endOnLinks(uint32_t, Picoseconds) {}

  struct End {
    /// An actor, or a meeting.
    uint32_t number;
    bool isMeeting;
  };
  virtual bool isIdle() const = 0;
  virtual Picoseconds getNext() = 0;
  virtual Picoseconds getTime() const = 0;
  virtual std::vector<End> advance() = 0;
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_CONTENTION_H
