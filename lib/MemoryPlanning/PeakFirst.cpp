//===- PeakFirst.cpp - The fullest times before all others ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PeakFirst.h"

#include <algorithm>
#include <limits>

using namespace optimus_planning;

/// Sections with this part of the lower bound count as full. Of a training step
/// of 96 layers a tenth of the buffers are alive in one.
static constexpr double kPeak = 0.97;

/// The numbers of the buffers that are alive in a full section.
static std::vector<size_t> listAtPeak(const Component &component) {
  const std::vector<int64_t> loads = sectionLoads(component);
  const double full = kPeak * static_cast<double>(component.lowerBound);
  // By section, how many before it are full.
  std::vector<int32_t> numFull{0};
  for (int64_t load : loads)
    numFull.push_back(numFull.back() + (static_cast<double>(load) > full));
  std::vector<size_t> members;
  for (size_t i = 0; i < component.buffers.size(); ++i)
    if (std::ranges::any_of(component.spansOf(component.buffers[i]),
                            [&](SectionSpan span) {
                              return numFull[span.last] > numFull[span.first];
                            }))
      members.push_back(i);
  return members;
}

std::optional<Placement> optimus_planning::placeAround(
    std::span<const LiveRange> ranges, const Component &component,
    std::span<const int64_t> offsets, int64_t limit, const char *order) {
  std::vector<LiveRange> all;
  Options quick;
  quick.capacity = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const Buffer &buffer = component.buffers[i];
    all.push_back(ranges[buffer.range]);
    if (offsets[i] == Buffer::kFree)
      continue;
    all.back().fixedOffset = offsets[i];
    quick.capacity = std::max(*quick.capacity, offsets[i] + buffer.size);
  }
  quick.nodeLimit = 0;
  quick.moveLimit = 0;
  quick.bytesPerNode = std::numeric_limits<int64_t>::max();
  Plan whole = plan(all, quick);
  if (whole.arenaBytes >= limit)
    return std::nullopt;
  return Placement{std::move(whole.offsets), whole.arenaBytes, order};
}

std::optional<Placement> optimus_planning::placePeakFirst(
    std::span<const LiveRange> ranges, const Component &component,
    const Options &options, int64_t limit, int64_t &moves) {
  const std::vector<Buffer> &buffers = component.buffers;
  if (std::ranges::any_of(buffers, &Buffer::isFixed))
    return std::nullopt;
  const std::vector<size_t> atPeak = listAtPeak(component);
  if (atPeak.size() > buffers.size() / 2)
    return std::nullopt;

  std::vector<LiveRange> first;
  for (size_t member : atPeak)
    first.push_back(ranges[buffers[member].range]);
  Options apart = options;
  apart.moveLimit = options.moveLimit.value_or(options.nodeLimit);
  apart.nodeLimit = 0;
  // So few are searched in a second, whatever it gains.
  apart.bytesPerNode = 0;
  const Plan peak = plan(first, apart);
  if (peak.arenaBytes >= limit)
    return std::nullopt;

  std::vector<int64_t> offsets(buffers.size(), Buffer::kFree);
  for (size_t i = 0; i < atPeak.size(); ++i)
    offsets[atPeak[i]] = peak.offsets[i];
  std::optional<Placement> placed =
      placeAround(ranges, component, offsets, limit, "peak first");
  if (placed)
    moves += peak.moves;
  return placed;
}
