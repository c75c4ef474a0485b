//===- MemoryOrder.cpp - An order in which few bytes are alive --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryOrder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/DebugLog.h"

#include <numeric>

#define DEBUG_TYPE "optimus-schedule"

using namespace mlir;
using namespace mlir::exec;

/// The most nodes moved together, the most buffers tried at the peak, and the
/// most visits of nodes by a search: about a second.
static constexpr size_t kMostMoved = 64, kMostTried = 48;
static constexpr int64_t kMostVisits = 100'000'000;

namespace {
struct Interval {
  int64_t first = -1, last = -1;
};

/// How good an order is: the peak, and how many nodes are nearly at it, since
/// one of several peaks has to go before the next.
using Quality = std::pair<int64_t, int64_t>;

class OrderSearch {
public:
  explicit OrderSearch(const OrderProblem &problem)
      : problem(problem), numNodes(problem.nodes.size()) {
    order.resize(numNodes);
    std::iota(order.begin(), order.end(), 0);
    touching.resize(problem.bytes.size());
    for (unsigned node = 0; node < numNodes; ++node)
      for (unsigned buffer : problem.nodes[node].buffers)
        touching[buffer].push_back(node);
  }

  std::vector<unsigned> run();

private:
  /// Fills in positions, intervals and the bytes alive.
  Quality measure(ArrayRef<unsigned> candidate);
  /// The buffers alive where most are, the largest first.
  std::vector<unsigned> listAtPeak(int64_t peakPosition) const;
  /// The nodes to move behind the peak for a buffer to be not there yet, or
  /// before it for the buffer to be gone; nothing where that cannot be.
  std::vector<unsigned> collect(unsigned buffer, int64_t peak,
                                bool later) const;
  /// With these nodes right behind, or right before, a position.
  std::vector<unsigned> moveTo(ArrayRef<unsigned> moved, int64_t target,
                               bool behind) const;
  /// The ways to move what makes or uses a buffer past the peak: no farther,
  /// and as far as can be.
  void addWays(unsigned buffer, int64_t peak,
               std::vector<std::vector<unsigned>> &ways) const;
  bool improve();

  const OrderProblem &problem;
  size_t numNodes;
  std::vector<unsigned> order;
  /// The nodes that touch each buffer.
  std::vector<SmallVector<unsigned, 4>> touching;
  /// Of what was measured last.
  std::vector<int64_t> positions, alive;
  std::vector<Interval> intervals;
  /// Of `order`.
  Quality quality;
  int64_t numVisits = 0;
};
} // namespace

Quality OrderSearch::measure(ArrayRef<unsigned> candidate) {
  numVisits += numNodes;
  positions.assign(numNodes, 0);
  intervals.assign(problem.bytes.size(), Interval());
  for (auto [position, node] : llvm::enumerate(candidate)) {
    positions[node] = position;
    for (unsigned buffer : problem.nodes[node].buffers) {
      Interval &interval = intervals[buffer];
      if (interval.first < 0)
        interval.first = position;
      interval.last = position;
    }
  }
  alive.assign(numNodes + 1, 0);
  for (auto [interval, bytes] : llvm::zip_equal(intervals, problem.bytes)) {
    if (interval.first < 0)
      continue;
    alive[interval.first] += bytes;
    alive[interval.last + 1] -= bytes;
  }
  std::partial_sum(alive.begin(), alive.end(), alive.begin());
  int64_t peak = *llvm::max_element(alive);
  return {peak, llvm::count_if(alive, [&](int64_t bytes) {
            return bytes > peak - peak / 256;
          })};
}

std::vector<unsigned> OrderSearch::listAtPeak(int64_t peak) const {
  std::vector<unsigned> buffers;
  for (auto [buffer, interval] : llvm::enumerate(intervals))
    if (problem.bytes[buffer] > 0 && interval.first >= 0 &&
        interval.first <= peak && peak <= interval.last)
      buffers.push_back(buffer);
  llvm::stable_sort(buffers, [&](unsigned a, unsigned b) {
    return problem.bytes[a] > problem.bytes[b];
  });
  return buffers;
}

std::vector<unsigned> OrderSearch::collect(unsigned buffer, int64_t peak,
                                           bool later) const {
  std::vector<unsigned> moved;
  std::vector<bool> isMoved(numNodes);
  auto add = [&](unsigned node) {
    bool isBehind = later ? positions[node] > peak : positions[node] < peak;
    if (!isBehind && !isMoved[node]) {
      isMoved[node] = true;
      moved.push_back(node);
    }
  };
  // All nodes that touch it, and their users or producers.
  for (unsigned node : touching[buffer])
    add(node);
  for (size_t i = 0; i < moved.size() && moved.size() <= kMostMoved; ++i) {
    const OrderProblem::Node &node = problem.nodes[moved[i]];
    for (unsigned next : later ? node.after : node.before)
      add(next);
  }
  // What stands at the peak stays there.
  if (moved.size() > kMostMoved || isMoved[order[peak]])
    return {};
  return moved;
}

std::vector<unsigned> OrderSearch::moveTo(ArrayRef<unsigned> moved,
                                          int64_t target, bool behind) const {
  std::vector<unsigned> sorted(moved.begin(), moved.end());
  llvm::sort(sorted, [&](unsigned a, unsigned b) {
    return positions[a] < positions[b];
  });
  std::vector<bool> isMoved(numNodes);
  for (unsigned node : sorted)
    isMoved[node] = true;
  std::vector<unsigned> result;
  result.reserve(numNodes);
  for (auto [position, node] : llvm::enumerate(order)) {
    if (isMoved[node])
      continue;
    bool isHere = int64_t(position) == target;
    if (isHere && !behind)
      llvm::append_range(result, sorted);
    result.push_back(node);
    if (isHere && behind)
      llvm::append_range(result, sorted);
  }
  return result;
}

void OrderSearch::addWays(unsigned buffer, int64_t peak,
                          std::vector<std::vector<unsigned>> &ways) const {
  if (std::vector<unsigned> moved = collect(buffer, peak, /*later=*/true);
      !moved.empty()) {
    int64_t next = numNodes;
    for (unsigned node : moved)
      for (unsigned after : problem.nodes[node].after)
        if (positions[after] > peak)
          next = std::min(next, positions[after]);
    ways.push_back(moveTo(moved, peak, /*behind=*/true));
    if (next - 1 > peak)
      ways.push_back(moveTo(moved, next - 1, /*behind=*/true));
  }
  if (std::vector<unsigned> moved = collect(buffer, peak, /*later=*/false);
      !moved.empty()) {
    int64_t last = -1;
    for (unsigned node : moved)
      for (unsigned before : problem.nodes[node].before)
        if (positions[before] < peak)
          last = std::max(last, positions[before]);
    ways.push_back(moveTo(moved, peak, /*behind=*/false));
    if (last + 1 < peak)
      ways.push_back(moveTo(moved, last + 1, /*behind=*/false));
  }
}

/// Takes the first move around the peak that makes the order better.
bool OrderSearch::improve() {
  (void)measure(order);
  int64_t peak = llvm::max_element(alive) - alive.begin();
  std::vector<unsigned> buffers = listAtPeak(peak);
  if (buffers.size() > kMostTried)
    buffers.resize(kMostTried);
  std::vector<std::vector<unsigned>> ways;
  for (unsigned buffer : buffers)
    addWays(buffer, peak, ways);
  for (std::vector<unsigned> &way : ways)
    if (Quality now = measure(way); now < quality) {
      LDBG() << "memory order: peak " << quality.first << " -> " << now.first
             << " bytes, " << now.second << " commands nearly at it";
      quality = now;
      order = std::move(way);
      return true;
    }
  return false;
}

std::vector<unsigned> OrderSearch::run() {
  if (numNodes == 0)
    return order;
  quality = measure(order);
  while (numVisits < kMostVisits && improve())
    ;
  return order;
}

int64_t mlir::exec::computePeak(const OrderProblem &problem,
                                ArrayRef<unsigned> order) {
  std::vector<int64_t> lefts(problem.bytes.size());
  for (unsigned node : order)
    for (unsigned buffer : problem.nodes[node].buffers)
      ++lefts[buffer];
  std::vector<bool> isAlive(problem.bytes.size());
  int64_t now = 0, peak = 0;
  for (unsigned node : order) {
    for (unsigned buffer : problem.nodes[node].buffers)
      if (!isAlive[buffer]) {
        isAlive[buffer] = true;
        now += problem.bytes[buffer];
      }
    peak = std::max(peak, now);
    for (unsigned buffer : problem.nodes[node].buffers)
      if (--lefts[buffer] == 0)
        now -= problem.bytes[buffer];
  }
  return peak;
}

std::vector<unsigned> mlir::exec::orderForMemory(const OrderProblem &problem) {
  return OrderSearch(problem).run();
}
