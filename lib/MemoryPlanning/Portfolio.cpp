//===- Portfolio.cpp - Placing buffers one by one --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Portfolio.h"

#include "Neighbours.h"

#include <algorithm>
#include <limits>
#include <tuple>

using namespace optimus_planning;

namespace {

enum class Fit { First, Best };

/// A placed buffer.
struct Placed {
  int64_t offset;
  int64_t end;
  const Buffer *buffer;
};

/// Finds the offset of a buffer among placed ones fed to it by rising offset.
class GapFinder {
public:
  GapFinder(const Buffer &buffer, Fit fit) : buffer(buffer), fit(fit) {}

  /// Returns true when the offset is decided.
  bool visit(const Placed &placed) {
    int64_t start = alignUp(top, buffer.alignment);
    int64_t slack = placed.offset - start - buffer.size;
    if (slack >= 0 && slack < bestSlack) {
      bestSlack = slack;
      bestOffset = start;
      if (fit == Fit::First || slack == 0)
        return true;
    }
    top = std::max(top, placed.end);
    return false;
  }

  int64_t offset() const {
    return bestOffset >= 0 ? bestOffset : alignUp(top, buffer.alignment);
  }

private:
  const Buffer &buffer;
  Fit fit;
  int64_t top = 0;
  int64_t bestOffset = -1;
  int64_t bestSlack = std::numeric_limits<int64_t>::max();
};

/// Placed buffers by rising offset, in blocks, so that inserting one moves few.
class PlacedList {
public:
  void insert(const Placed &placed) {
    auto after =
        std::upper_bound(blocks.begin(), blocks.end(), placed.offset,
                         [](int64_t offset, const std::vector<Placed> &block) {
                           return offset < block.front().offset;
                         });
    if (blocks.empty()) {
      blocks.push_back({placed});
      return;
    }
    std::vector<Placed> &block =
        after == blocks.begin() ? *after : *std::prev(after);
    block.insert(std::upper_bound(block.begin(), block.end(), placed.offset,
                                  [](int64_t offset, const Placed &entry) {
                                    return offset < entry.offset;
                                  }),
                 placed);
    if (block.size() < kBlockSize)
      return;
    std::vector<Placed> upperHalf(block.begin() + kBlockSize / 2, block.end());
    block.resize(kBlockSize / 2);
    blocks.insert(blocks.begin() + (&block - blocks.data()) + 1,
                  std::move(upperHalf));
  }

  /// Feeds those that a buffer of the component meets to the finder; returns
  /// how many were looked at.
  int64_t scan(const Component &component, const Buffer &buffer,
               GapFinder &finder) const {
    int64_t looks = 0;
    for (const std::vector<Placed> &block : blocks) {
      looks += block.size();
      for (const Placed &entry : block)
        if (component.meet(*entry.buffer, buffer) && finder.visit(entry))
          return looks;
    }
    return looks;
  }

private:
  static constexpr size_t kBlockSize = 512;
  std::vector<std::vector<Placed>> blocks;
};

class Portfolio {
public:
  Portfolio(const Component &component, int64_t &work)
      : component(component), work(work),
        neighbours(component, kPairsPerBuffer * static_cast<int64_t>(
                                                    component.buffers.size())) {
  }

  /// Tries one order; `best` is replaced when the arena is smaller. Returns the
  /// first position at which it is not.
  std::optional<size_t> attempt(std::span<const int32_t> order, Fit fit,
                                const std::string &name, Placement &best) {
    std::vector<int64_t> offsets(component.buffers.size(), -1);
    PlacedList list;
    std::vector<Placed> around;
    int64_t arena = 0;
    auto put = [&](size_t index, int64_t offset) {
      const Buffer &buffer = component.buffers[index];
      offsets[index] = offset;
      arena = std::max(arena, offset + buffer.size);
      if (neighbours.empty())
        list.insert({offset, offset + buffer.size, &buffer});
    };
    for (size_t i = 0; i < offsets.size(); ++i)
      if (component.buffers[i].isFixed())
        put(i, component.buffers[i].fixedOffset);
    for (size_t position = 0; position < order.size(); ++position) {
      int32_t index = order[position];
      const Buffer &buffer = component.buffers[index];
      GapFinder finder(buffer, fit);
      if (neighbours.empty()) {
        work -= list.scan(component, buffer, finder);
      } else {
        around.clear();
        for (int32_t other : neighbours.of(index))
          if (offsets[other] >= 0)
            around.push_back({offsets[other],
                              offsets[other] + component.buffers[other].size,
                              &component.buffers[other]});
        std::sort(around.begin(), around.end(),
                  [](const Placed &a, const Placed &b) {
                    return a.offset < b.offset;
                  });
        // Sorting a buffer costs a few looks.
        work -= 4 * static_cast<int64_t>(around.size()) + 1;
        for (const Placed &placed : around)
          if (finder.visit(placed))
            break;
      }
      put(index, finder.offset());
      if (!best.offsets.empty() && (arena >= best.arenaBytes || work <= 0))
        return position;
    }
    best = {std::move(offsets), arena,
            name + (fit == Fit::First ? "/first-fit" : "/best-fit")};
    return std::nullopt;
  }

  /// Local search from one order: the buffer that reaches the end of the best
  /// arena comes earlier next time, when there is still room below. Goes on
  /// down to `target` bytes.
  void repair(const std::vector<int32_t> &start, Fit fit, int64_t target,
              Placement &best) {
    std::string name = best.order.substr(0, best.order.find('/')) + "+repair";
    // How far forward it comes decides what is found: no one share is best.
    for (size_t eighths : {4, 1, 6}) {
      std::vector<int32_t> order = start;
      int64_t end = work - std::min(work, kRepairWork);
      for (int turn = 0; turn < kRepairTurns; ++turn) {
        if (best.arenaBytes <= target || work <= end)
          break;
        if (std::optional<size_t> late = attempt(order, fit, name, best))
          std::rotate(order.begin() + *late * eighths / 8,
                      order.begin() + *late, order.begin() + *late + 1);
      }
    }
  }

private:
  /// With each share; where turns are dear, about a tenth of a second of them.
  static constexpr int kRepairTurns = 1000;
  static constexpr int64_t kRepairWork = 40'000'000;
  /// Up to this many the array of neighbours beats scanning what is placed.
  static constexpr int64_t kPairsPerBuffer = 200;
  const Component &component;
  int64_t &work;
  Neighbours neighbours;
};

/// The indices of the buffers that may lie anywhere by falling key; equal keys
/// keep time order.
template <typename KeyFn>
std::vector<int32_t> fallingOrder(const Component &component, KeyFn key) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < component.buffers.size(); ++i)
    if (!component.buffers[i].isFixed())
      order.push_back(static_cast<int32_t>(i));
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return key(a) > key(b); });
  return order;
}

} // namespace

Placement optimus_planning::placeByPortfolio(const Component &component,
                                             int64_t target, int64_t goodEnough,
                                             int64_t &work) {
  const std::vector<Buffer> &buffers = component.buffers;
  auto size = [&](int32_t i) { return buffers[i].size; };
  auto length = [&](int32_t i) {
    return static_cast<int64_t>(buffers[i].last) - buffers[i].first;
  };
  // A product of bytes and sections may pass 64 bits; a key need not be exact.
  auto area = [&](int32_t i) {
    return static_cast<double>(size(i)) * static_cast<double>(length(i));
  };

  // The fullest section of each buffer: what is alive then is hardest to place.
  std::vector<int64_t> loads = sectionLoads(component);
  std::vector<std::vector<int64_t>> maxima{std::move(loads)};
  for (size_t span = 1; 2 * span <= maxima[0].size(); span *= 2) {
    const std::vector<int64_t> &half = maxima.back();
    std::vector<int64_t> whole(half.size() - span);
    for (size_t i = 0; i < whole.size(); ++i)
      whole[i] = std::max(half[i], half[i + span]);
    maxima.push_back(std::move(whole));
  }
  auto pressure = [&](int32_t i) {
    int level = 0;
    while ((int64_t{2} << level) <= length(i))
      ++level;
    return std::max(maxima[level][buffers[i].first],
                    maxima[level][buffers[i].last - (int64_t{1} << level)]);
  };

  struct Order {
    const char *name;
    std::vector<int32_t> indices;
  };
  Order orders[] = {
      {"size",
       fallingOrder(component,
                    [&](int32_t i) { return std::pair(size(i), length(i)); })},
      {"size*length", fallingOrder(component, area)},
      {"length",
       fallingOrder(component,
                    [&](int32_t i) { return std::pair(length(i), size(i)); })},
      {"pressure", fallingOrder(component,
                                [&](int32_t i) {
                                  return std::pair(pressure(i), area(i));
                                })},
      {"start", fallingOrder(component,
                             [&](int32_t i) {
                               return std::tuple(-buffers[i].first, length(i));
                             })},
      {"end", fallingOrder(component,
                           [&](int32_t i) {
                             return std::tuple(buffers[i].last, length(i));
                           })},
  };

  Portfolio portfolio(component, work);
  Placement best;
  const Order *bestOrder = nullptr;
  Fit bestFit = Fit::First;
  for (Fit fit : {Fit::First, Fit::Best})
    for (const Order &order : orders) {
      if (!best.offsets.empty() && (best.arenaBytes <= target || work <= 0))
        return best;
      if (portfolio.attempt(order.indices, fit, order.name, best))
        continue;
      bestOrder = &order;
      bestFit = fit;
    }
  portfolio.repair(bestOrder->indices, bestFit, std::max(target, goodEnough),
                   best);
  return best;
}
