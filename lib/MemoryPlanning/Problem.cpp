//===- Problem.cpp - Live ranges on a compressed time axis -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Problem.h"

#include <algorithm>

using namespace optimus_planning;

std::vector<int64_t>
optimus_planning::sectionLoads(const Component &component) {
  std::vector<int64_t> loads(component.numSections + 1, 0);
  for (const Buffer &buffer : component.buffers) {
    loads[buffer.first] += buffer.size;
    loads[buffer.last] -= buffer.size;
  }
  for (int32_t section = 1; section < component.numSections; ++section)
    loads[section] += loads[section - 1];
  loads.pop_back();
  return loads;
}

double optimus_planning::durationOf(const LiveRange &range) {
  return static_cast<double>(range.upper) - static_cast<double>(range.lower);
}

/// Replaces the times of the ranges by section numbers.
static Component compress(std::span<const LiveRange> ranges,
                          std::span<const size_t> members) {
  std::vector<int64_t> times;
  for (size_t member : members) {
    times.push_back(ranges[member].lower);
    times.push_back(ranges[member].upper);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto sectionAt = [&](int64_t time) {
    return static_cast<int32_t>(
        std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };

  Component component;
  component.numSections = static_cast<int32_t>(times.size()) - 1;
  for (size_t member : members) {
    const LiveRange &range = ranges[member];
    component.buffers.push_back({sectionAt(range.lower), sectionAt(range.upper),
                                 paddedSize(range), range.alignment,
                                 durationOf(range), member});
  }
  std::vector<int64_t> loads = sectionLoads(component);
  component.lowerBound = *std::max_element(loads.begin(), loads.end());
  return component;
}

std::vector<Component>
optimus_planning::splitInTime(std::span<const LiveRange> ranges) {
  std::vector<size_t> byStart;
  for (size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].size > 0 && ranges[i].lower < ranges[i].upper)
      byStart.push_back(i);
  std::stable_sort(byStart.begin(), byStart.end(), [&](size_t a, size_t b) {
    return ranges[a].lower < ranges[b].lower;
  });

  std::vector<Component> components;
  for (size_t begin = 0; begin < byStart.size();) {
    int64_t reach = ranges[byStart[begin]].upper;
    size_t end = begin + 1;
    while (end < byStart.size() && ranges[byStart[end]].lower < reach) {
      reach = std::max(reach, ranges[byStart[end]].upper);
      ++end;
    }
    components.push_back(compress(
        ranges, std::span<const size_t>(byStart).subspan(begin, end - begin)));
    begin = end;
  }
  std::stable_sort(components.begin(), components.end(),
                   [](const Component &a, const Component &b) {
                     return a.lowerBound > b.lowerBound;
                   });
  return components;
}
