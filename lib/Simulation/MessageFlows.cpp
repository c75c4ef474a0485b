//===- MessageFlows.cpp - Messages under way --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MessageFlows.h"

#include <algorithm>

namespace optimus_simulation {

/// Of what says when a meeting is over.
static const LinkLoads kNoLoads;

const LinkLoads &MessageFlows::getLoads(uint32_t from, uint32_t to) {
  auto [entry, isNew] = loads.try_emplace({from, to});
  if (isNew)
    entry->second = network.getLoads(from, to);
  return entry->second;
}

void MessageFlows::addFlow(uint32_t meeting, uint32_t message,
                           Picoseconds begin, double bytes,
                           const LinkLoads &loads) {
  auto number = static_cast<uint32_t>(flows.size());
  if (freeFlows.empty()) {
    flows.emplace_back();
  } else {
    number = freeFlows.back();
    freeFlows.pop_back();
  }
  flows[number] = {meeting, message};
  links.add(begin, {number, bytes, &loads});
}

void MessageFlows::begin(uint32_t meeting, Picoseconds time,
                         const MessagePlan &plan) {
  Run run{.plan = &plan, .states = {}, .left = plan.size(), .end = time};
  for (const Message &one : plan)
    run.states.push_back({.begin = time,
                          .beginsAfter = one.beginsAfter,
                          .endsAfter = one.endsAfter});
  Run &kept = runs.insert_or_assign(meeting, std::move(run)).first->second;
  for (uint32_t message = 0; message != plan.size(); ++message)
    if (plan[message].beginsAfter == 0)
      start(meeting, kept, message);
  if (plan.empty())
    addFlow(meeting, kWhole, time, 0, kNoLoads);
}

void MessageFlows::start(uint32_t meeting, Run &run, uint32_t number) {
  const Message &message = (*run.plan)[number];
  const Picoseconds begin = run.states[number].begin;
  addFlow(meeting, number, begin, message.bytes,
          getLoads(message.from, message.to));
  for (const Message::Successor &next : message.successors)
    if (next.reason == Message::Streams)
      admit(meeting, run, next.message, begin + message.latency);
}

void MessageFlows::admit(uint32_t meeting, Run &run, uint32_t message,
                         Picoseconds time) {
  State &state = run.states[message];
  state.begin = std::max(state.begin, time);
  if (--state.beginsAfter == 0)
    start(meeting, run, message);
}

void MessageFlows::leave(uint32_t meeting, Run &run, uint32_t number) {
  const Message &message = (*run.plan)[number];
  const Picoseconds end = run.states[number].end, come = end + message.latency;
  run.end = std::max(run.end, come);
  for (const Message::Successor &next : message.successors) {
    if (next.reason != Message::Streams) {
      admit(meeting, run, next.message,
            next.reason == Message::Comes ? come : end);
      continue;
    }
    State &state = run.states[next.message];
    state.end = std::max(state.end, come);
    if (--state.endsAfter == 0 && state.hasFlown)
      leave(meeting, run, next.message);
  }
  if (--run.left == 0)
    addFlow(meeting, kWhole, run.end, 0, kNoLoads);
}

std::optional<uint32_t> MessageFlows::end(uint32_t flow) {
  const auto [meeting, message] = flows[flow];
  freeFlows.push_back(flow);
  if (message == kWhole) {
    runs.erase(meeting);
    return meeting;
  }
  Run &run = runs.at(meeting);
  State &state = run.states[message];
  state.hasFlown = true;
  state.end = std::max(state.end, links.getTime());
  if (state.endsAfter == 0)
    leave(meeting, run, message);
  return std::nullopt;
}

} // namespace optimus_simulation
