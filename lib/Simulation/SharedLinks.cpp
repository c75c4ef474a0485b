//===- SharedLinks.cpp - Flows that share links -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedLinks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace optimus_simulation {

static constexpr double kLeastBytes = 1.0 / (1 << 20);

Picoseconds roundUp(double seconds) {
  return static_cast<Picoseconds>(
      std::ceil(std::min(seconds * 1e12, double(kMostTime))));
}

double SharedLinks::getCarried(uint32_t link) const {
  return double(carried[link]) * kLeastLoad * kLeastBytes;
}

void SharedLinks::settle(std::span<Active *> flows, double rate) {
  for (Active *one : flows) {
    one->rate = rate;
    for (const LinkLoad &load : *one->flow.loads)
      given[load.link] += load.perByte;
  }
  for (Active *one : flows)
    for (const LinkLoad &load : *one->flow.loads) {
      const double sum = std::exchange(given[load.link], 0);
      room[load.link] = std::max(0.0, room[load.link] - rate * sum);
      asked[load.link] -= sum;
    }
}

/// Fills all flows alike until a link is full, which settles the rates of its
/// flows; then the others, and so on.
void SharedLinks::share() {
  room = capacities;
  asked.assign(capacities.size(), 0);
  std::vector<Active *> open;
  for (Active &one : active) {
    open.push_back(&one);
    for (const LinkLoad &load : *one.flow.loads)
      asked[load.link] += load.perByte;
  }
  constexpr double kNone = std::numeric_limits<double>::infinity();
  while (!open.empty()) {
    double rate = kNone;
    auto getRate = [&](const Active &one) {
      double least = one.flow.most;
      for (const LinkLoad &load : *one.flow.loads)
        least = std::min(least, room[load.link] / asked[load.link]);
      return least;
    };
    for (const Active *one : open)
      rate = std::min(rate, getRate(*one));
    // Which flows are limited is decided before any link changes.
    constexpr double kSlack = 1 + 1e-12;
    const auto limited =
        std::stable_partition(open.begin(), open.end(), [&](const Active *one) {
          return getRate(*one) > rate * kSlack;
        });
    settle({limited, open.end()}, rate);
    open.erase(limited, open.end());
  }
  for (Active &one : active)
    one.end = now + roundUp(one.left / one.rate);
}

void SharedLinks::move(Picoseconds time) {
  const double seconds = double(time - now) * 1e-12;
  for (Active &one : active) {
    const double bytes = std::min(one.left, one.rate * seconds);
    one.left -= bytes;
    // Of more, sums would not fit.
    constexpr double kMost = 1e20;
    const auto moved = Sum(std::min(std::round(bytes / kLeastBytes), kMost));
    for (const LinkLoad &load : *one.flow.loads)
      carried[load.link] +=
          moved *
          static_cast<uint64_t>(std::llround(load.perByte / kLeastLoad));
  }
  now = time;
}

void SharedLinks::limit(Picoseconds time, uint32_t number, double most) {
  for (auto &[begin, flow] : coming)
    if (flow.number == number) {
      flow.most = most;
      return;
    }
  move(std::max(now, time));
  for (Active &one : active)
    if (one.flow.number == number)
      one.flow.most = most;
  share();
}

Picoseconds SharedLinks::getNext() const {
  Picoseconds time = std::numeric_limits<Picoseconds>::max();
  if (!coming.empty())
    time = coming.begin()->first;
  for (const Active &one : active)
    time = std::min(time, one.end);
  return std::max(time, now);
}

std::vector<uint32_t> SharedLinks::advance() {
  move(getNext());
  std::vector<uint32_t> ended;
  std::erase_if(active, [&](const Active &one) {
    if (one.end <= now)
      ended.push_back(one.flow.number);
    return one.end <= now;
  });
  while (!coming.empty() && coming.begin()->first <= now) {
    const Flow &flow = coming.begin()->second;
    // What asks for nothing has come.
    if (flow.bytes <= 0 || (flow.loads->empty() && std::isinf(flow.most)))
      ended.push_back(flow.number);
    else
      active.push_back({flow, flow.bytes});
    coming.erase(coming.begin());
  }
  share();
  return ended;
}

} // namespace optimus_simulation
