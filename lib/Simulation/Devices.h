//===- Devices.h - Collectives beside computing on a device -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_DEVICES_H
#define OPTIMUS_LIB_SIMULATION_DEVICES_H

#include "Contention.h"

#include <map>
#include <set>

namespace optimus_simulation {

/// Devices whose collectives and computing slow each other: a command takes its
/// factor times as long while a collective is under way there, and a collective
/// its own while any of its members computes.
///
///   a collective of 4 with a factor of 2, a command of 3 with one of 1.5
///   both begin at 0: at 4.5 the command ends, and 2.25 of the collective are
///   done; the other 1.75 take as long, to 6.25
class Devices : public Contention {
public:
  /// One for each actor. With `links`, meetings on them are as slow.
  Devices(size_t numActors, SharedLinks *links)
      : links(links), devices(numActors) {}

  void compute(uint32_t actor, Picoseconds begin, Picoseconds seconds,
               double beside) override;
  void move(const Move &move) override;
  void moveOnLinks(const Move &move, double bytesPerSecond) override;
  void endOnLinks(uint32_t meeting, Picoseconds time) override;

  bool isIdle() const override { return coming.empty() && ends.empty(); }
  Picoseconds getNext() override;
  Picoseconds getTime() const override { return now; }
  std::vector<End> advance() override;

private:
  static constexpr uint32_t kMeeting = 0x80000000;

  struct Task {
    /// Of its time alone, in picoseconds, since when, and at which factor.
    double left = 0, beside = 1;
    Picoseconds since = 0, end = 0;
    bool isSlow = false;
    /// Of meetings on links: their rate alone.
    bool isOnLinks = false;
    double rate = 0;
    std::vector<uint32_t> devices;
  };
  struct Device {
    uint32_t computing = 0;
    std::set<uint32_t> meetings;
  };

  void add(uint32_t number, Picoseconds begin, Task task);
  void begin(uint32_t number);
  void remove(uint32_t number);
  /// Goes on at the speed that those beside it leave.
  void refresh(uint32_t number);
  /// All on the devices of a task.
  void refreshBeside(const std::vector<uint32_t> &places);

  SharedLinks *const links;
  std::vector<Device> devices;
  /// Computing by actor, meetings with kMeeting.
  std::map<uint32_t, Task> tasks;
  std::multimap<Picoseconds, uint32_t> coming;
  std::set<std::pair<Picoseconds, uint32_t>> ends;
  std::set<uint32_t> underWay;
  Picoseconds now = 0;
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_DEVICES_H
