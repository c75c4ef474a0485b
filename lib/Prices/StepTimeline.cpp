//===- StepTimeline.cpp - When a rank computes and waits --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/StepTimeline.h"

#include <algorithm>

namespace optimus_prices {

void StepTimeline::compute(double seconds, std::string_view kind) {
  auto part = std::find_if(result.parts.begin(), result.parts.end(),
                           [&](const auto &one) { return one.first == kind; });
  if (part == result.parts.end())
    part = result.parts.insert(part, {kind, 0.0});
  part->second += seconds;
  result.computeSeconds += seconds;
  now += seconds;
}

void StepTimeline::start(uint64_t id, std::string_view axis,
                         CollectiveKind kind, double seconds,
                         std::string_view link) {
  double &free = linkFree[link];
  const double begin = std::max(free, now);
  free = begin + seconds;
  transfers[id] = {axis, kind, begin - now, free, result.computeSeconds};
  result.commSeconds += seconds;
}

void StepTimeline::wait(uint64_t id) {
  const Transfer &transfer = transfers.at(id);
  const double exposed = std::max(0.0, transfer.finish - now);
  result.exposedSeconds += exposed;
  now += exposed;
  if (exposed == 0)
    return;
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
  if (transfer.computed == result.computeSeconds)
    entry->idleSeconds += exposed - queued;
}

StepPrediction StepTimeline::finish() && {
  std::stable_sort(
      result.exposed.begin(), result.exposed.end(),
      [](const auto &a, const auto &b) { return a.seconds > b.seconds; });
  std::stable_sort(
      result.parts.begin(), result.parts.end(),
      [](const auto &a, const auto &b) { return a.second > b.second; });
  return std::move(result);
}

} // namespace optimus_prices
