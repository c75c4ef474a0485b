//===- StepTimeline.cpp - When a rank computes and waits --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/StepTimeline.h"

#include <algorithm>
#include <utility>

namespace optimus_prices {

void StepTimeline::compute(double seconds, std::string_view kind) {
  auto part = std::find_if(result.parts.begin(), result.parts.end(),
                           [&](const auto &one) { return one.first == kind; });
  if (part == result.parts.end())
    part = result.parts.insert(part, {kind, 0.0});
  part->second += seconds;
  result.computeSeconds += seconds;
  computed += seconds;
  now += seconds;
}

StepTimeline::Transfer StepTimeline::send(std::string_view axis,
                                          CollectiveKind kind, double seconds,
                                          std::string_view link) {
  double &free = linkFree[link];
  const double begin = std::max(free, now);
  free = begin + seconds;
  result.commSeconds += seconds;
  return {axis, kind, begin - now, free, computed};
}

void StepTimeline::start(uint64_t id, std::string_view axis,
                         CollectiveKind kind, double seconds,
                         std::string_view link) {
  transfers[id] = send(axis, kind, seconds, link);
}

void StepTimeline::wait(uint64_t id) { waitFor(transfers.at(id)); }

void StepTimeline::carry(uint32_t number, std::string_view axis,
                         CollectiveKind kind, double seconds,
                         std::string_view link) {
  carried[number] = send(axis, kind, seconds, link);
  ++result.carried.count;
  result.carried.seconds += seconds;
}

void StepTimeline::waitCarried(uint32_t number) {
  if (const auto found = carried.find(number); found != carried.end()) {
    result.carried.exposedSeconds += waitFor(found->second);
    carried.erase(found);
  }
}

double StepTimeline::waitFor(const Transfer &transfer) {
  const double exposed = std::max(0.0, transfer.finish - now);
  result.exposedSeconds += exposed;
  now += exposed;
  if (exposed == 0)
    return 0;
  auto entry = std::find_if(
      result.exposed.begin(), result.exposed.end(), [&](const auto &one) {
        return one.axis == transfer.axis && one.kind == transfer.kind;
      });
  if (entry == result.exposed.end())
    entry = result.exposed.insert(entry, {transfer.axis, transfer.kind});
  const double queued = std::min(exposed, transfer.queued);
  ++entry->count;
  entry->seconds += exposed;
  entry->queuedSeconds += queued;
  if (transfer.computed == computed)
    entry->idleSeconds += exposed - queued;
  return exposed;
}

StepPrediction StepTimeline::endCall() {
  for (const auto &[number, transfer] : carried)
    result.carried.afterSeconds =
        std::max(result.carried.afterSeconds, transfer.finish - now);
  std::stable_sort(
      result.exposed.begin(), result.exposed.end(),
      [](const auto &a, const auto &b) { return a.seconds > b.seconds; });
  std::stable_sort(
      result.parts.begin(), result.parts.end(),
      [](const auto &a, const auto &b) { return a.second > b.second; });
  return std::exchange(result, {});
}

} // namespace optimus_prices
