//===- MessageFlows.h - Messages under way ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_MESSAGEFLOWS_H
#define OPTIMUS_LIB_SIMULATION_MESSAGEFLOWS_H

#include "MessagePlan.h"
#include "SharedLinks.h"

#include <map>
#include <optional>
#include <unordered_map>

namespace optimus_simulation {

/// Sends the messages of meetings over links as they may begin.
class MessageFlows {
public:
  MessageFlows(const Network &network, SharedLinks &links)
      : network(network), links(links) {}

  /// The plan outlives the meeting.
  void begin(uint32_t meeting, Picoseconds time, const MessagePlan &plan);
  /// A flow of the links has ended; the meeting that ends with it, if any does.
  std::optional<uint32_t> end(uint32_t flow);

private:
  static constexpr uint32_t kWhole = 0xffffffff;

  struct State {
    /// As far as they are known; `end` is when all has left.
    Picoseconds begin = 0, end = 0;
    uint32_t beginsAfter, endsAfter;
    bool hasFlown = false;
  };
  /// A meeting under way.
  struct Run {
    const MessagePlan *plan;
    std::vector<State> states;
    size_t left;
    Picoseconds end;
  };
  struct FlowOf {
    uint32_t meeting, message;
  };

  void addFlow(uint32_t meeting, uint32_t message, Picoseconds begin,
               double bytes, const LinkLoads &loads);
  void start(uint32_t meeting, Run &run, uint32_t message);
  /// One of those that a message waits for has let it begin at a time.
  void admit(uint32_t meeting, Run &run, uint32_t message, Picoseconds time);
  /// All bytes of a message have left.
  void leave(uint32_t meeting, Run &run, uint32_t message);
  const LinkLoads &getLoads(uint32_t from, uint32_t to);

  const Network &network;
  SharedLinks &links;
  std::unordered_map<uint32_t, Run> runs;
  std::vector<FlowOf> flows;
  std::vector<uint32_t> freeFlows;
  std::map<std::pair<uint32_t, uint32_t>, LinkLoads> loads;
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_MESSAGEFLOWS_H
