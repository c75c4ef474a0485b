//===- RaceCheck.cpp - What nothing orders on a fake GPU ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RaceCheck.h"

#include <algorithm>

namespace optrt::cuda::fake {

//===----------------------------------------------------------------------===//
// Clocks
//===----------------------------------------------------------------------===//

void Clock::set(size_t lane, uint32_t count) {
  if (lane >= counts.size())
    counts.resize(lane + 1);
  counts[lane] = count;
}

void Clock::join(const Clock &other) {
  for (size_t lane = 0; lane != other.counts.size(); ++lane)
    if (other.counts[lane] > get(lane))
      set(lane, other.counts[lane]);
}

bool Clock::includes(const Clock &other) const {
  for (size_t lane = 0; lane != other.counts.size(); ++lane)
    if (other.counts[lane] > get(lane))
      return false;
  return true;
}

Operation RaceCheck::next(std::string name, size_t lane, const Clock &before) {
  numbers.resize(std::max(numbers.size(), lane + 1));
  Operation operation{std::move(name), lane, ++numbers[lane], before};
  operation.clock.join(host);
  operation.clock.set(lane, operation.number);
  return operation;
}

static bool isBefore(const Operation &first, const Clock &clock) {
  return first.number <= clock.get(first.lane);
}

//===----------------------------------------------------------------------===//
// What one operation touches
//===----------------------------------------------------------------------===//

void Accesses::add(const void *address, size_t bytes, bool isWrite) {
  auto place = reinterpret_cast<uintptr_t>(address);
  if (bytes >= kPageBytes) {
    large.push_back({place, place + bytes, isWrite});
    return;
  }
  while (bytes != 0) {
    const uintptr_t number = place / kPageBytes;
    if (!latest || number != latestNumber) {
      latest = &pages[number];
      latestNumber = number;
    }
    const size_t bit = place % kPageBytes,
                 count = std::min(bytes, 64 - bit % 64);
    const uint64_t mask =
        (count == 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1) << bit % 64;
    (isWrite ? latest->written : latest->read)[bit / 64] |= mask;
    place += count;
    bytes -= count;
  }
}

std::vector<Accesses::Range> Accesses::ranges() const {
  std::vector<Range> result = large;
  auto append = [&](uintptr_t begin, uintptr_t end, bool isWrite) {
    if (!result.empty() && result.back().end == begin &&
        result.back().isWrite == isWrite)
      result.back().end = end;
    else
      result.push_back({begin, end, isWrite});
  };
  for (const auto &[number, page] : pages)
    for (size_t word = 0; word != page.read.size(); ++word) {
      const uintptr_t begin = number * kPageBytes + word * 64;
      const uint64_t written = page.written[word], read = page.read[word];
      if (!(written | read))
        continue;
      if (!~written || (!written && !~read)) {
        append(begin, begin + 64, written != 0);
        continue;
      }
      for (unsigned bit = 0; bit != 64; ++bit)
        if ((written | read) >> bit & 1)
          append(begin + bit, begin + bit + 1, written >> bit & 1);
    }
  return result;
}

//===----------------------------------------------------------------------===//
// What all of them touched
//===----------------------------------------------------------------------===//

RaceCheck::Segments::iterator RaceCheck::split(uintptr_t place) {
  auto behind = segments.upper_bound(place);
  if (behind == segments.begin())
    return behind;
  auto at = std::prev(behind);
  if (at->first == place)
    return at;
  if (at->second.end <= place)
    return behind;
  Segment rest = at->second;
  at->second.end = place;
  return segments.emplace_hint(behind, place, std::move(rest));
}

static std::string describeRace(const Operation &now, bool isWrite,
                                const Operation &other, bool otherWrites,
                                uintptr_t begin, uintptr_t end) {
  return now.name + (isWrite ? " writes " : " reads ") +
         std::to_string(end - begin) + " bytes that " + other.name +
         (otherWrites ? " writes" : " reads") +
         ", and nothing orders the two: an event is missing";
}

std::string RaceCheck::check(const OperationRef &operation,
                             Accesses::Range range) {
  for (auto at = split(range.begin); at != segments.end(); ++at) {
    const auto &[begin, segment] = *at;
    if (begin >= range.end)
      break;
    const uintptr_t end = std::min(segment.end, range.end);
    if (segment.writer && !isBefore(*segment.writer, operation->clock))
      return describeRace(*operation, range.isWrite, *segment.writer, true,
                          begin, end);
    for (const OperationRef &reader : segment.readers)
      if (range.isWrite && !isBefore(*reader, operation->clock))
        return describeRace(*operation, true, *reader, false, begin, end);
  }
  return "";
}

void RaceCheck::write(const OperationRef &operation, Accesses::Range range) {
  auto first = split(range.begin), last = split(range.end);
  segments.erase(first, last);
  segments[range.begin] = {range.end, operation, {}};
}

void RaceCheck::read(const OperationRef &operation, Accesses::Range range) {
  auto at = split(range.begin);
  split(range.end);
  for (uintptr_t place = range.begin; place != range.end;) {
    if (at == segments.end() || at->first != place) {
      const uintptr_t end =
          at == segments.end() ? range.end : std::min(at->first, range.end);
      at = segments.emplace_hint(at, place, Segment{end, nullptr, {}});
    }
    Segment &segment = at->second;
    std::erase_if(segment.readers, [&](const OperationRef &reader) {
      return isBefore(*reader, operation->clock);
    });
    segment.readers.push_back(operation);
    place = segment.end;
    ++at;
  }
}

std::string RaceCheck::check(const OperationRef &operation,
                             const Accesses &accesses) {
  for (const Accesses::Range &range : accesses.ranges()) {
    if (std::string race = check(operation, range); !race.empty())
      return race;
    range.isWrite ? write(operation, range) : read(operation, range);
  }
  return "";
}

std::string RaceCheck::release(const void *begin, size_t bytes) {
  const auto place = reinterpret_cast<uintptr_t>(begin);
  auto first = split(place), last = split(place + bytes);
  std::string problem;
  auto require = [&](const OperationRef &user) {
    if (user && problem.empty() && !isBefore(*user, host))
      problem = "memory is given back that " + user->name +
                " uses, and nobody waited for it";
  };
  for (auto at = first; at != last; ++at) {
    require(at->second.writer);
    for (const OperationRef &reader : at->second.readers)
      require(reader);
  }
  segments.erase(first, last);
  return problem;
}

} // namespace optrt::cuda::fake
