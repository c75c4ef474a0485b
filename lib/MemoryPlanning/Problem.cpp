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
  for (const Buffer &buffer : component.buffers)
    for (SectionSpan span : component.spansOf(buffer)) {
      loads[span.first] += buffer.size;
      loads[span.last] -= buffer.size;
    }
  for (int32_t section = 1; section < component.numSections; ++section)
    loads[section] += loads[section - 1];
  loads.pop_back();
  return loads;
}

bool Component::spansMeet(const Buffer &a, const Buffer &b) const {
  uint32_t i = a.spansBegin, j = b.spansBegin;
  while (i != a.spansEnd && j != b.spansEnd) {
    if (spans[i].first < spans[j].last && spans[j].first < spans[i].last)
      return true;
    if (spans[i].last <= spans[j].last)
      ++i;
    else
      ++j;
  }
  return false;
}

std::vector<TimeSpan> optimus_planning::aliveSpans(const LiveRange &range) {
  std::vector<TimeSpan> spans;
  int64_t begin = range.lower;
  auto add = [&](int64_t end) {
    if (begin < end)
      spans.push_back({begin, end});
  };
  for (TimeSpan gap : range.gaps) {
    add(gap.lower);
    begin = gap.upper;
  }
  add(range.upper);
  return spans;
}

double optimus_planning::durationOf(const LiveRange &range) {
  double duration = 0;
  for (TimeSpan span : aliveSpans(range))
    duration +=
        static_cast<double>(span.upper) - static_cast<double>(span.lower);
  return duration;
}

namespace {

/// A range that takes space.
struct Member {
  size_t range;
  std::vector<TimeSpan> spans;

  int64_t lower() const { return spans.front().lower; }
  int64_t upper() const { return spans.back().upper; }
};

} // namespace

/// Replaces the times of the ranges by section numbers.
static Component compress(std::span<const LiveRange> ranges,
                          std::span<const Member> members) {
  std::vector<int64_t> times;
  for (const Member &member : members)
    for (TimeSpan span : member.spans) {
      times.push_back(span.lower);
      times.push_back(span.upper);
    }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto sectionAt = [&](int64_t time) {
    return static_cast<int32_t>(
        std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };

  Component component;
  component.numSections = static_cast<int32_t>(times.size()) - 1;
  int64_t fixedEnd = 0;
  for (const Member &member : members) {
    const LiveRange &range = ranges[member.range];
    auto spansBegin = static_cast<uint32_t>(component.spans.size());
    for (TimeSpan span : member.spans)
      component.spans.push_back({sectionAt(span.lower), sectionAt(span.upper)});
    component.buffers.push_back(
        {component.spans[spansBegin].first, component.spans.back().last,
         paddedSize(range), range.alignment, durationOf(range), member.range,
         range.fixedOffset.value_or(Buffer::kFree), spansBegin,
         static_cast<uint32_t>(component.spans.size())});
    if (range.fixedOffset)
      fixedEnd = std::max(fixedEnd, *range.fixedOffset + paddedSize(range));
  }
  std::vector<int64_t> loads = sectionLoads(component);
  component.lowerBound =
      std::max(fixedEnd, *std::max_element(loads.begin(), loads.end()));
  return component;
}

std::vector<Component>
optimus_planning::splitInTime(std::span<const LiveRange> ranges) {
  std::vector<Member> byStart;
  for (size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].size > 0)
      if (std::vector<TimeSpan> spans = aliveSpans(ranges[i]); !spans.empty())
        byStart.push_back({i, std::move(spans)});
  std::stable_sort(
      byStart.begin(), byStart.end(),
      [](const Member &a, const Member &b) { return a.lower() < b.lower(); });

  std::vector<Component> components;
  for (size_t begin = 0; begin < byStart.size();) {
    int64_t reach = byStart[begin].upper();
    size_t end = begin + 1;
    while (end < byStart.size() && byStart[end].lower() < reach) {
      reach = std::max(reach, byStart[end].upper());
      ++end;
    }
    components.push_back(compress(
        ranges, std::span<const Member>(byStart).subspan(begin, end - begin)));
    begin = end;
  }
  std::stable_sort(components.begin(), components.end(),
                   [](const Component &a, const Component &b) {
                     return a.lowerBound > b.lowerBound;
                   });
  return components;
}
