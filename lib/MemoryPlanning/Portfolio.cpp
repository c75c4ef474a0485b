//===- Portfolio.cpp - Placing buffers one by one --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Portfolio.h"

#include "Neighbours.h"
#include "Occupied.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

using namespace optimus_planning;

namespace {

enum class Fit { First, Best };

/// Chooses among the gaps that hold a buffer, offered by rising offset.
class GapChoice {
public:
  explicit GapChoice(Fit fit) : fit(fit) {}

  /// Returns true when the choice is made. `slack`: the bytes that the buffer
  /// leaves of the gap.
  bool offer(int64_t begin, int64_t slack) {
    if (slack >= leastSlack)
      return false;
    leastSlack = slack;
    chosen = begin;
    return fit == Fit::First || slack == 0;
  }

  std::optional<int64_t> getOffset() const { return chosen; }

private:
  Fit fit;
  std::optional<int64_t> chosen;
  int64_t leastSlack = std::numeric_limits<int64_t>::max();
};

class Portfolio {
public:
  Portfolio(const Component &component, int64_t &work)
      : component(component), work(work),
        neighbours(component, kPairsPerBuffer * static_cast<int64_t>(
                                                    component.buffers.size())) {
    for (const Buffer &buffer : component.buffers)
      sizes.push_back(buffer.size);
  }

  /// Tries one order; `best` is replaced when the arena is smaller. Returns the
  /// first position at which it is not. What lies before the position `begin`
  /// is as in the last attempt, and stays.
  std::optional<size_t> attempt(std::span<const int32_t> order, Fit fit,
                                const std::string &name, Placement &best,
                                size_t begin = 0) {
    if (neighbours.empty())
      begin = 0;
    restart(order, begin);
    for (size_t position = begin; position < order.size(); ++position) {
      int32_t index = order[position];
      int64_t offset = findOffset(index, fit);
      put(index, offset);
      arenas[position + 1] =
          std::max(arenas[position], offset + component.buffers[index].size);
      if (!best.offsets.empty() &&
          (arenas[position + 1] >= best.arenaBytes || work <= 0))
        return position;
    }
    best = {offsets, arenas.back(),
            name + (fit == Fit::First ? "/first-fit" : "/best-fit")};
    return std::nullopt;
  }

  /// Local search from one order: the buffer that reaches the end of the best
  /// arena comes forward, by so many eighths of its position, when there is
  /// still room below. Goes on down to `target` bytes, with an allowance of
  /// work and as many turns as there are buffers.
  void repair(std::vector<int32_t> order, Fit fit, const std::string &name,
              size_t eighths, int64_t target, int64_t allowance,
              Placement &best) {
    size_t begin = 0;
    int64_t end = work - std::min(work, allowance);
    for (size_t turn = 0; turn < order.size() && work > end; ++turn) {
      std::optional<size_t> late = attempt(order, fit, name, best, begin);
      if (best.arenaBytes <= target)
        return;
      if (!late)
        late = std::lower_bound(arenas.begin(), arenas.end(), best.arenaBytes) -
               arenas.begin() - 1;
      begin = *late * eighths / 8;
      std::rotate(order.begin() + begin, order.begin() + *late,
                  order.begin() + *late + 1);
    }
  }

private:
  /// Takes back what lies at positions of an order from `begin` on.
  void restart(std::span<const int32_t> order, size_t begin) {
    if (begin > 0) {
      for (int32_t index : order.subspan(begin))
        offsets[index] = -1;
      return;
    }
    offsets.assign(component.buffers.size(), -1);
    arenas.assign(order.size() + 1, 0);
    if (neighbours.empty())
      occupied = Occupied(component.numSections);
    for (size_t i = 0; i < offsets.size(); ++i) {
      const Buffer &buffer = component.buffers[i];
      if (!buffer.isFixed())
        continue;
      put(i, buffer.fixedOffset);
      arenas[0] = std::max(arenas[0], buffer.fixedOffset + buffer.size);
    }
  }

  void put(size_t index, int64_t offset) {
    const Buffer &buffer = component.buffers[index];
    offsets[index] = offset;
    if (neighbours.empty())
      for (SectionSpan span : component.spansOf(buffer))
        work -= kLooksPerStretch *
                occupied.insert(span, {offset, offset + buffer.size});
  }

  /// The offset left for a buffer by the placed ones.
  int64_t findOffset(int32_t index, Fit fit) {
    const Buffer &buffer = component.buffers[index];
    GapChoice choice(fit);
    if (neighbours.empty()) {
      const Occupied::Passed passed = occupied.visitGaps(
          component.spansOf(buffer), buffer.size, buffer.alignment,
          [&](int64_t begin, int64_t slack) {
            return choice.offer(begin, slack);
          });
      work -= passed.looks;
      return choice.getOffset().value_or(passed.offset);
    }
    // About half of them are placed, which no processor can guess: so all are
    // written, and the next one over those that are not.
    std::span<const int32_t> others = neighbours.of(index);
    around.resize(others.size());
    auto end = around.begin();
    for (int32_t other : others) {
      *end = {offsets[other], offsets[other] + sizes[other]};
      end += offsets[other] >= 0;
    }
    std::sort(around.begin(), end, [](const Stretch &a, const Stretch &b) {
      return a.offset < b.offset;
    });
    // Sorting a buffer costs a few looks.
    work -= 4 * static_cast<int64_t>(end - around.begin()) + 1;
    int64_t begin = 0, top = 0;
    for (auto placed = around.begin(); placed != end; ++placed) {
      const int64_t slack = placed->offset - begin - buffer.size;
      if (slack >= 0 && choice.offer(begin, slack))
        break;
      top = std::max(top, placed->end);
      begin = alignUp(top, buffer.alignment);
    }
    return choice.getOffset().value_or(begin);
  }

  /// A stretch comes from one of many lists.
  static constexpr int64_t kLooksPerStretch = 8;
  /// Up to this many the array of neighbours beats scanning what is placed.
  static constexpr int64_t kPairsPerBuffer = 200;
  const Component &component;
  int64_t &work;
  Neighbours neighbours;
  /// Of each buffer.
  std::vector<int64_t> sizes;
  // Of the attempt: by buffer where it lies, or -1; by position of the order
  // the arena of all before it; what is placed, where there are no neighbours.
  std::vector<int64_t> offsets;
  std::vector<int64_t> arenas;
  Occupied occupied{0};
  std::vector<Stretch> around;
};

/// What each repair is allowed in one round and the next.
constexpr int64_t kRepairWork[] = {300'000, 2'000'000};
/// Looks in the time of a node of the search, and a number of looks too cheap
/// to be weighed against bytes: some hundredths of a second.
constexpr int64_t kLooksPerNode = 1000;
constexpr int64_t kLeastLooks = 3'000'000;
/// Repair ends when it has found nothing for so many looks, one round or two,
/// and for as many as it had spent until the last find.
constexpr int64_t kVainLooks = 30'000'000;

/// The indices of the buffers that may lie anywhere by falling key; equal keys
/// keep time order.
template <typename KeyFn>
std::vector<int32_t> fallingOrder(const Component &component, KeyFn key) {
  std::vector<int32_t> order;
  std::vector<decltype(key(0))> keys;
  for (size_t i = 0; i < component.buffers.size(); ++i) {
    if (!component.buffers[i].isFixed())
      order.push_back(static_cast<int32_t>(i));
    keys.push_back(key(static_cast<int32_t>(i)));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return keys[a] > keys[b]; });
  return order;
}

/// An order in which buffers are placed, found when it is asked for.
class Order {
public:
  Order(const char *name, std::function<std::vector<int32_t>()> find)
      : name(name), find(std::move(find)) {}

  const std::vector<int32_t> &get() const {
    if (indices.empty())
      indices = find();
    return indices;
  }

  const char *const name;

private:
  std::function<std::vector<int32_t>()> find;
  mutable std::vector<int32_t> indices;
};

} // namespace

Placement optimus_planning::placeByPortfolio(const Component &component,
                                             int64_t target, int64_t goodEnough,
                                             int64_t bytesPerNode,
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
  const auto fullest = static_cast<int32_t>(
      std::max_element(loads.begin(), loads.end()) - loads.begin());
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

  // The buffers alive at the fullest time leave no room to choose: placed first
  // they lie without a gap. In the order of their births or deaths the room
  // left by them is in one piece.
  auto falling = [&](const char *name, auto key) {
    return Order(name,
                 [&component, key] { return fallingOrder(component, key); });
  };
  auto peakOrder = [&](const char *name, auto key) {
    return falling(name, [&, key](int32_t i) {
      bool isAtPeak = buffers[i].first <= fullest && fullest < buffers[i].last;
      return std::tuple(isAtPeak, isAtPeak ? key(i) : size(i), length(i));
    });
  };
  const Order orders[] = {
      falling("size", [&](int32_t i) { return std::pair(size(i), length(i)); }),
      falling("size*length", area),
      falling("length",
              [&](int32_t i) { return std::pair(length(i), size(i)); }),
      falling("pressure",
              [&](int32_t i) { return std::pair(pressure(i), area(i)); }),
      falling(
          "start",
          [&](int32_t i) { return std::tuple(-buffers[i].first, length(i)); }),
      falling(
          "end",
          [&](int32_t i) { return std::tuple(buffers[i].last, length(i)); }),
  };
  const Order peakOrders[] = {
      peakOrder("peak by size", size),
      peakOrder("peak by length", length),
      peakOrder("peak by start",
                [&](int32_t i) -> int64_t { return -buffers[i].first; }),
      peakOrder("peak by end",
                [&](int32_t i) -> int64_t { return buffers[i].last; }),
  };

  Portfolio portfolio(component, work);
  Placement best;
  const int64_t enough = std::max(target, goodEnough);
  const int64_t least = buffers.size() < kManyBuffers ? target : enough;
  auto tryAll = [&](std::span<const Order> some, Fit fit) {
    for (const Order &order : some)
      if (best.offsets.empty() || (best.arenaBytes > least && work > 0))
        portfolio.attempt(order.get(), fit, order.name, best);
  };
  tryAll(orders, Fit::First);
  tryAll(peakOrders, Fit::First);
  tryAll(orders, Fit::Best);
  if (best.arenaBytes <= target || work <= 0)
    return best;

  // Neither one order nor one share of the way forward is best for all.
  int64_t end = 0;
  if (bytesPerNode > 0) {
    int64_t nodes = (best.arenaBytes - component.lowerBound) / bytesPerNode;
    int64_t looks = kLeastLooks + std::min(nodes, work) * kLooksPerNode;
    end = work - std::min(work, looks);
  }
  const int64_t given = work;
  int64_t mostLooks = kVainLooks;
  for (int64_t allowance : kRepairWork)
    for (size_t eighths : {6, 4, 1, 7})
      for (Fit fit : {Fit::First, Fit::Best})
        for (const Order &order : orders) {
          const bool isVain = bytesPerNode > 0 && given - work > mostLooks;
          if (best.arenaBytes <= enough || work <= end || isVain)
            return best;
          const int64_t before = best.arenaBytes;
          portfolio.repair(order.get(), fit,
                           std::string(order.name) + "+repair", eighths, enough,
                           allowance, best);
          if (best.arenaBytes < before)
            mostLooks = kVainLooks + 2 * (given - work);
        }
  return best;
}
