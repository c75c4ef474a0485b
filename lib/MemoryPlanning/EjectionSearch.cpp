//===- EjectionSearch.cpp - Local search by ejection -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An attempt takes the buffer at the top of the arena out and places it below a
// capacity, where it costs least: buffers in its way are ejected into a pool
// and placed again in the same manner. An attempt succeeds when the pool is
// empty; otherwise its changes are undone. So only what is alive near the top
// buffer moves, whatever the size of the graph.
//
// Each ejection raises the buffer's penalty, for good: buffers that are hard to
// place are left alone, and attempts do not go in circles. The scheme is that
// of Nagata and Braysy for vehicle routing ("A powerful route minimization
// heuristic", Operations Research Letters 37, 2009).
//
//   capacity |----------------------      1. a passes the capacity
//            |  [ a ]                     2. a takes the place of c, the
//            |[  b   ][ d ]                  cheapest in its way
//            | [ c ] [ e   ]              3. c is placed above e, and so on
//            +----------------- time
//
//===----------------------------------------------------------------------===//

#include "EjectionSearch.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace optimus_planning;

/// Buffers from one list of live ones to the next.
static constexpr int32_t kBlockSize = 64;
/// An attempt with more buffers in the pool, and a share of its moves, has
/// opened a hole that it will hardly fill.
static constexpr int64_t kMostInPool = 100;
static constexpr int64_t kMovesPerPooled = 100;
/// What an ejection multiplies a penalty with; all are rescaled above the
/// largest.
static constexpr double kPenaltyGrowth = 1.01;
static constexpr double kLargestPenalty = 1e12;
/// Neighbours whose looking through takes as long as a node of the search.
static constexpr int64_t kNeighboursPerNode = 50;

EjectionSearch::EjectionSearch(const Component &component, int64_t step)
    : component(component), step(step),
      penalties(component.buffers.size(), 1.0),
      staysUntil(component.buffers.size(), 0) {
  const std::vector<Buffer> &buffers = component.buffers;
  const auto count = static_cast<int32_t>(buffers.size());
  std::vector<int32_t> alive;
  for (int32_t i = 0; i < count; ++i) {
    while (static_cast<int32_t>(firstAt.size()) <= buffers[i].first)
      firstAt.push_back(i);
    if (i % kBlockSize == 0) {
      std::erase_if(alive, [&](int32_t other) {
        return buffers[other].last <= buffers[i].first;
      });
      aliveAtBlock.push_back(alive);
    }
    alive.push_back(i);
  }
  firstAt.resize(component.numSections + 1, count);

  // Square roots are exact everywhere, other powers are not.
  for (bool squareSize : {false, true})
    for (int halves : {0, 1, 2}) {
      std::vector<double> &table = weightTables.emplace_back();
      for (const Buffer &buffer : buffers) {
        auto size = static_cast<double>(buffer.size);
        auto length = static_cast<double>(buffer.last - buffer.first);
        double stretch = halves == 0   ? 1.0
                         : halves == 1 ? std::sqrt(length)
                                       : length;
        table.push_back((squareSize ? size * size : size) * stretch);
      }
    }
}

bool EjectionSearch::isSpent(const SearchBudget &budget) const {
  return budget.nodes <= 0 || (move % 16 == 0 && budget.isLate());
}

int32_t EjectionSearch::topBuffer() const {
  int32_t top = 0;
  for (int32_t i = 1; i < static_cast<int32_t>(offsets.size()); ++i)
    if (endOf(i) > endOf(top))
      top = i;
  return top;
}

void EjectionSearch::eject(int32_t index) {
  changed.emplace_back(index, offsets[index]);
  offsets[index] = -1;
  pool.push_back(index);
  penalties[index] *= kPenaltyGrowth;
  if (penalties[index] > kLargestPenalty)
    for (double &penalty : penalties)
      penalty = std::sqrt(penalty);
}

int32_t EjectionSearch::takeFromPool() {
  size_t position = pool.size() - 1;
  if (pick == Pick::Any)
    position = random() % pool.size();
  if (pick == Pick::Dearest)
    position =
        std::max_element(
            pool.begin(), pool.end(),
            [&](int32_t a, int32_t b) { return costOf(a) < costOf(b); }) -
        pool.begin();
  int32_t index = pool[position];
  pool[position] = pool.back();
  pool.pop_back();
  return index;
}

/// Fills `around` and `byEnd`.
void EjectionSearch::collectNeighbours(int32_t index) {
  const Buffer &buffer = component.buffers[index];
  around.clear();
  auto add = [&](int32_t other) {
    const Buffer &neighbour = component.buffers[other];
    if (offsets[other] >= 0 && neighbour.last > buffer.first &&
        component.meet(neighbour, buffer))
      around.push_back({offsets[other], endOf(other), costOf(other), other,
                        neighbour.isFixed(), staysUntil[other] > move});
  };
  int32_t block = firstAt[buffer.first] / kBlockSize;
  block = std::min(block, static_cast<int32_t>(aliveAtBlock.size()) - 1);
  for (int32_t other : aliveAtBlock[block])
    add(other);
  for (int32_t other = block * kBlockSize; other < firstAt[buffer.last];
       ++other)
    add(other);
  std::sort(around.begin(), around.end(),
            [](const Neighbour &a, const Neighbour &b) {
              return std::pair(a.begin, a.buffer) <
                     std::pair(b.begin, b.buffer);
            });
  byEnd.resize(around.size());
  for (size_t i = 0; i < byEnd.size(); ++i)
    byEnd[i] = static_cast<int32_t>(i);
  std::sort(byEnd.begin(), byEnd.end(), [&](int32_t a, int32_t b) {
    return std::pair(around[a].end, a) < std::pair(around[b].end, b);
  });
}

/// The costs of the buffers between two offsets; both only rise.
class EjectionSearch::GapCosts {
public:
  GapCosts(const std::vector<Neighbour> &around,
           const std::vector<int32_t> &byEnd)
      : around(around), byEnd(byEnd) {}

  void moveTo(int64_t begin, int64_t end) {
    for (; entered < around.size() && around[entered].begin < end; ++entered)
      count(around[entered], 1);
    for (; left < byEnd.size() && around[byEnd[left]].end <= begin; ++left)
      count(around[byEnd[left]], -1);
  }

  bool isFree() const { return entered == left; }
  bool meetsFixed() const { return fixed > 0; }
  /// Fewest tabu buffers first, then the costs.
  std::pair<int32_t, double> cost() const {
    // Rounding must not make a cost look like none.
    return isFree() ? std::pair(0, 0.0)
                    : std::pair(tabu, std::max(sum, kLeastCost));
  }

private:
  static constexpr double kLeastCost = 1e-9;

  void count(const Neighbour &neighbour, int sign) {
    fixed += neighbour.isFixed ? sign : 0;
    tabu += neighbour.isTabu ? sign : 0;
    sum += sign * neighbour.cost;
  }

  const std::vector<Neighbour> &around;
  const std::vector<int32_t> &byEnd;
  size_t entered = 0, left = 0;
  int32_t fixed = 0, tabu = 0;
  double sum = 0;
};

/// Where the least has to be ejected: on top of a neighbour, below one, on the
/// floor, or at the end. None, where fixed buffers leave no room.
std::optional<int64_t> EjectionSearch::chooseOffset(const Buffer &buffer,
                                                    int64_t capacity) {
  std::optional<int64_t> best;
  std::pair<int32_t, double> bestCost;
  uint64_t ties = 0;
  auto consider = [&](int64_t offset, const GapCosts &gap) {
    if (gap.meetsFixed())
      return;
    std::pair<int32_t, double> cost = gap.cost();
    if (!best || cost < bestCost) {
      best = offset;
      bestCost = cost;
      ties = 1;
    } else if (cost == bestCost && !gap.isFree() && random() % ++ties == 0) {
      best = offset;
    }
  };
  GapCosts onTop(around, byEnd), below(around, byEnd);
  int64_t last = -1;
  for (size_t i = 0; i <= byEnd.size(); ++i) {
    int64_t offset =
        i == 0 ? 0 : alignUp(around[byEnd[i - 1]].end, buffer.alignment);
    if (offset == last || offset + buffer.size > capacity)
      continue;
    last = offset;
    onTop.moveTo(offset, offset + buffer.size);
    consider(offset, onTop);
  }
  last = -1;
  for (size_t i = 0; i <= around.size(); ++i) {
    int64_t end = i == around.size() ? capacity : around[i].begin;
    if (end < buffer.size || end > capacity)
      continue;
    int64_t offset = (end - buffer.size) & ~(buffer.alignment - 1);
    if (offset == last)
      continue;
    last = offset;
    below.moveTo(offset, offset + buffer.size);
    consider(offset, below);
  }
  return best;
}

/// Places one buffer; false where it has no room.
bool EjectionSearch::placeFromPool(int64_t capacity, SearchBudget &budget) {
  int32_t index = takeFromPool();
  const Buffer &buffer = component.buffers[index];
  collectNeighbours(index);
  budget.nodes -= 1 + static_cast<int64_t>(around.size()) / kNeighboursPerNode;
  ++move;
  std::optional<int64_t> offset = chooseOffset(buffer, capacity);
  if (!offset)
    return false;
  for (const Neighbour &neighbour : around)
    if (neighbour.begin < *offset + buffer.size && neighbour.end > *offset)
      eject(neighbour.buffer);
  changed.emplace_back(index, -1);
  offsets[index] = *offset;
  staysUntil[index] = move + static_cast<int64_t>(random() % 2);
  return true;
}

/// Brings the top buffer below a capacity, with all that it ejects. Where that
/// fails, nothing has moved.
bool EjectionSearch::lowerBuffer(int32_t top, int64_t capacity,
                                 SearchBudget &budget) {
  pool.clear();
  changed.clear();
  pick = static_cast<Pick>(random() % 3);
  weights = &weightTables[random() % weightTables.size()];
  eject(top);
  const int64_t end = move + allowance;
  const size_t mostInPool = kMostInPool + allowance / kMovesPerPooled;
  bool hasRoom = true;
  while (hasRoom && !pool.empty() && pool.size() < mostInPool && move < end &&
         !isSpent(budget))
    hasRoom = placeFromPool(capacity, budget);
  if (hasRoom && pool.empty())
    return true;
  for (auto it = changed.rbegin(); it != changed.rend(); ++it)
    offsets[it->first] = it->second;
  return false;
}

void EjectionSearch::improve(Placement &placement, int64_t goal,
                             SearchBudget &budget) {
  offsets = placement.offsets;
  // What lies above it comes down buffer by buffer; none at first.
  std::optional<int64_t> capacity;
  while (!isSpent(budget)) {
    const int32_t top = topBuffer();
    const int64_t arena = endOf(top);
    if (arena < placement.arenaBytes)
      placement = {offsets, arena, "ejection"};
    if (arena <= goal)
      return;
    if (!capacity || arena <= *capacity) {
      auto cut = static_cast<int64_t>(static_cast<double>(arena - goal) * share);
      capacity = std::max(goal, arena - std::max(step, cut / step * step));
    }
    if (lowerBuffer(top, *capacity, budget)) {
      share = std::min(1.0, share * 1.2);
      continue;
    }
    // Less at a time; where nothing goes, with longer attempts.
    capacity.reset();
    share /= 2;
    if (share < 0.02) {
      share = 0.25;
      allowance += allowance / 4;
    }
  }
}
