//===- ProgramLifetimes.cpp - When buffers of arenas are alive ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCheck.h"

#include "optimus-support/ProgramLifetimes.h"

#include <algorithm>
#include <numeric>

namespace optimus_support::program {

LiveBuffers::LiveBuffers(const FunctionT &function)
    : function(function), byFirst(function.buffers.size()) {
  std::iota(byFirst.begin(), byFirst.end(), 0);
  byLast = byFirst;
  auto at = [&](uint32_t number) -> const BufferT & {
    return *function.buffers[number];
  };
  std::stable_sort(byFirst.begin(), byFirst.end(), [&](uint32_t a, uint32_t b) {
    return at(a).first < at(b).first;
  });
  std::stable_sort(byLast.begin(), byLast.end(), [&](uint32_t a, uint32_t b) {
    return at(a).last < at(b).last;
  });
}

std::span<const uint32_t> LiveBuffers::begin(uint32_t command) {
  const size_t from = begun;
  while (begun != byFirst.size() &&
         function.buffers[byFirst[begun]]->first == command) {
    const BufferT &buffer = *function.buffers[byFirst[begun]];
    if (buffer.bytes > 0)
      alive.insert({{buffer.arena, buffer.offset}, byFirst[begun]});
    ++begun;
  }
  return {byFirst.data() + from, begun - from};
}

std::span<const uint32_t> LiveBuffers::end(uint32_t command) {
  const size_t from = ended;
  while (ended != byLast.size() &&
         function.buffers[byLast[ended]]->last == command) {
    const BufferT &buffer = *function.buffers[byLast[ended]];
    auto [first, last] = alive.equal_range({buffer.arena, buffer.offset});
    auto found = std::find_if(first, last, [&](const auto &entry) {
      return entry.second == byLast[ended];
    });
    if (found != last)
      alive.erase(found);
    ++ended;
  }
  return {byLast.data() + from, ended - from};
}

std::optional<uint32_t> LiveBuffers::find(uint32_t arena, int64_t begin,
                                          int64_t end) const {
  auto found = alive.upper_bound({arena, begin});
  if (found == alive.begin())
    return std::nullopt;
  --found;
  const BufferT &buffer = *function.buffers[found->second];
  if (buffer.arena != arena || end > buffer.offset + buffer.bytes)
    return std::nullopt;
  return found->second;
}

std::optional<uint32_t> LiveBuffers::findOverlap(uint32_t number) const {
  const BufferT &buffer = *function.buffers[number];
  auto overlaps = [&](uint32_t other) {
    const BufferT &each = *function.buffers[other];
    return other != number && each.arena == buffer.arena &&
           each.offset < buffer.offset + buffer.bytes &&
           buffer.offset < each.offset + each.bytes;
  };
  auto [first, last] = alive.equal_range({buffer.arena, buffer.offset});
  // The buffers before it are apart, so it can overlap its neighbours only.
  for (auto entry = first; entry != last; ++entry)
    if (overlaps(entry->second))
      return entry->second;
  if (first != alive.begin() && overlaps(std::prev(first)->second))
    return std::prev(first)->second;
  if (last != alive.end() && overlaps(last->second))
    return last->second;
  return std::nullopt;
}

namespace {

class LifetimeChecker {
public:
  LifetimeChecker(const TargetT &target, const ProgramTableT &table,
                  const FunctionT &function, const Mesh &mesh)
      : target(target), table(table), function(function), mesh(mesh),
        alive(function) {}

  Status check() {
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      OPTRT_RETURN_IF_ERROR(checkApart(alive.begin(number)));
      OPTRT_RETURN_IF_ERROR(checkTouches(number, number));
      const WaitT *wait = function.commands[number]->action.AsWait();
      if (wait && wait->command != kNone)
        OPTRT_RETURN_IF_ERROR(checkTouches(wait->command, number));
      alive.end(number);
    }
    return okStatus();
  }

private:
  Status checkApart(std::span<const uint32_t> begun) {
    for (uint32_t number : begun)
      if (std::optional<uint32_t> other = alive.findOverlap(number))
        return wrong(concat(print(number), " overlaps ", print(*other),
                            ", which is alive at the same time"));
    return okStatus();
  }

  /// Checks that the memory of a command is still there at a later one.
  Status checkTouches(uint32_t command, uint32_t when) {
    touches.clear();
    appendTouches(function, *function.commands[command], mesh, touches);
    for (const Touch &touch : touches) {
      const Region &region = touch.region;
      if (region.base != Base::Arena || region.begin == region.end() ||
          alive.find(region.index, region.begin, region.end()))
        continue;
      return wrong(concat(describe(target, table, function, command),
                          " touches bytes [", region.begin, ", ", region.end(),
                          ") of arena ", region.index,
                          "; expected them in one buffer that is alive at "
                          "command ",
                          when));
    }
    return okStatus();
  }

  std::string print(uint32_t number) const {
    const BufferT &buffer = *function.buffers[number];
    return concat("buffer ", number, " (bytes [", buffer.offset, ", ",
                  buffer.offset + buffer.bytes, ") of arena ", buffer.arena,
                  ", alive from command ", buffer.first, " to ", buffer.last,
                  ")");
  }

  const TargetT &target;
  const ProgramTableT &table;
  const FunctionT &function;
  const Mesh &mesh;
  LiveBuffers alive;
  /// Of the command that is checked.
  std::vector<Touch> touches;
};

} // namespace

Status checkLifetimes(const TargetT &target, const ProgramTableT &table,
                      const FunctionT &function, const Mesh &mesh) {
  // A table that was written by hand may leave arenas as they are.
  if (function.buffers.empty())
    return okStatus();
  return LifetimeChecker(target, table, function, mesh).check();
}

} // namespace optimus_support::program
