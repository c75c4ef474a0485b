//===- SharedLinks.h - Flows that share links -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_SHAREDLINKS_H
#define OPTIMUS_LIB_SIMULATION_SHAREDLINKS_H

#include "optimus/Simulation/TimedProgram.h"

#include <limits>
#include <map>
#include <span>
#include <vector>

namespace optimus_simulation {

/// How many bytes a link carries of each byte of a flow. Whole multiples of
/// kLeastLoad add up to the same sum in any order.
struct LinkLoad {
  uint32_t link;
  double perByte;
};
inline constexpr double kLeastLoad = 1.0 / (uint64_t(1) << 32);
using LinkLoads = std::vector<LinkLoad>;

/// Bytes on their way over some links at once, at one rate.
struct Flow {
  uint32_t number = 0;
  double bytes = 0;
  const LinkLoads *loads = nullptr;
  /// Its rate while it is alone, if links have more.
  double most = std::numeric_limits<double>::infinity();
};

/// The next, at most kMostTime.
Picoseconds roundUp(double seconds);

/// Carries flows at max-min fair rates, which change when one begins or ends:
/// no flow can go faster without slowing down another that is not faster than
/// it.
///
///   link 0 of 10 bytes/s: a, b; link 1 of 4 bytes/s: b, c
///   b and c have 2 each, a has the 8 that b leaves of link 0
class SharedLinks {
public:
  explicit SharedLinks(std::vector<double> bytesPerSecond)
      : capacities(std::move(bytesPerSecond)), carried(capacities.size()),
        given(capacities.size()) {}

  /// A flow from a time on, the present or later.
  void add(Picoseconds begin, const Flow &flow) { coming.emplace(begin, flow); }
  /// From a time on, at most the present one's next event, a flow is no faster
  /// than `most`. Nothing where it has ended.
  void limit(Picoseconds time, uint32_t number, double most);
  bool isIdle() const { return coming.empty() && active.empty(); }

  /// When the next one begins or ends. Not of what is idle.
  Picoseconds getNext() const;
  /// Goes on to the next begin or end; the numbers of flows that end there.
  std::vector<uint32_t> advance();
  Picoseconds getTime() const { return now; }

  /// Bytes that a link has carried.
  double getCarried(uint32_t link) const;

private:
  struct Active {
    Flow flow;
    double left, rate = 0;
    Picoseconds end = 0;
  };

  void share();
  /// Gives flows a rate, and takes it from their links.
  void settle(std::span<Active *> flows, double rate);
  void move(Picoseconds time);

  std::vector<double> capacities;
  /// In units of kLeastLoad and of kLeastBytes: the same sum in any order.
  __extension__ using Sum = unsigned __int128;
  std::vector<Sum> carried;
  std::multimap<Picoseconds, Flow> coming;
  std::vector<Active> active;
  Picoseconds now = 0;
  /// Of share(), by link: the rate left, and the sums of the loads of flows
  /// without a rate and of those in settle().
  std::vector<double> room, asked, given;
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_SHAREDLINKS_H
