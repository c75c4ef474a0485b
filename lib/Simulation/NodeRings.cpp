//===- NodeRings.cpp - Rings that leave nodes by each member ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeRings.h"

#include "SharedLinks.h"

#include <algorithm>

namespace optimus_simulation {

/// Links come in pairs, out and in: of members, then of cards.
static std::vector<double> listRates(const NodeRings &rings) {
  std::vector<double> rates(size_t(2 * rings.members), rings.deviceRate);
  rates.resize(size_t(2 * (rings.members + rings.cards)), rings.cardRate);
  return rates;
}

namespace {
/// Messages by step, ring and place on the node. The one at the last place goes
/// to the next node, where it comes to the first.
class Follower {
public:
  Follower(const NodeRings &rings, int64_t steps)
      : rings(rings), steps(uint32_t(steps)), k(uint32_t(rings.members)),
        links(listRates(rings)), ends(size_t(steps)),
        states(size_t(steps) * k * k) {
    for (uint32_t ring = 0; ring != k; ++ring)
      for (uint32_t place = 0; place != k; ++place)
        loads.push_back(listLoads(ring, place));
  }

  /// By step, when the last of its messages has come.
  const std::vector<Picoseconds> &follow() {
    for (uint32_t number = 0; number != k * k; ++number)
      start(number);
    while (!links.isIdle())
      for (uint32_t number : links.advance())
        end(number);
    return ends;
  }

private:
  struct State {
    Picoseconds begin = 0;
    uint32_t missing = 2;
  };

  bool isFar(uint32_t number) const { return number % k == k - 1; }

  LinkLoads listLoads(uint32_t ring, uint32_t place) const {
    const uint32_t from = (ring + place) % k, to = (ring + place + 1) % k;
    auto card = [&](uint32_t member) {
      return k + uint32_t(member * rings.cards / rings.members);
    };
    if (isFar(place))
      return {{2 * card(from), 1}, {2 * card(to) + 1, 1}};
    return {{2 * from, 1}, {2 * to + 1, 1}};
  }

  void start(uint32_t number) {
    links.add(states[number].begin, {.number = number,
                                     .bytes = rings.part,
                                     .loads = &loads[number % (k * k)]});
  }

  void end(uint32_t number) {
    const uint32_t step = number / (k * k);
    const Picoseconds left = links.getTime(),
                      come = left + toPicoseconds(isFar(number)
                                                      ? rings.cardStep
                                                      : rings.deviceStep);
    ends[step] = std::max(ends[step], come);
    if (step + 1 == steps)
      return;
    const uint32_t next = number + k * k, place = number % k;
    admit(next, left);
    admit(next - place + (place + 1) % k, come);
  }

  void admit(uint32_t number, Picoseconds time) {
    State &state = states[number];
    state.begin = std::max(state.begin, time);
    if (--state.missing == 0)
      start(number);
  }

  const NodeRings &rings;
  const uint32_t steps, k;
  SharedLinks links;
  std::vector<LinkLoads> loads;
  std::vector<Picoseconds> ends;
  std::vector<State> states;
};
} // namespace

double followRings(const NodeRings &rings) {
  // Two turns are as long as the two before.
  const int64_t turns = 2 * rings.members, most = 6 * turns;
  const int64_t followed = rings.steps <= most
                               ? rings.steps
                               : most - (most - rings.steps % turns) % turns;
  Follower follower(rings, followed);
  const std::vector<Picoseconds> &ends = follower.follow();
  double seconds = double(ends.back()) * 1e-12;
  if (followed != rings.steps)
    seconds += double(ends.back() - ends[size_t(followed - 1 - turns)]) *
               1e-12 * double(rings.steps - followed) / double(turns);
  return seconds;
}

} // namespace optimus_simulation
