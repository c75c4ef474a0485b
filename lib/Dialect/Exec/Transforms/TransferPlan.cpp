//===- TransferPlan.cpp - When copies between memories run ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TransferPlan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::exec;

/// Times are predictions: copies get this much more.
static constexpr double kSpare = 1.25;

void TransferPlan::schedule(int64_t window) {
  if (window == 0) {
    // Double-buffered: the next command's while one is at work.
    std::vector<int64_t> together(getNumCommands() + 1);
    for (const Fetch &fetch : fetches)
      window = std::max(window, together[fetch.use] += fetch.bytes);
    std::fill(together.begin(), together.end(), 0);
    for (const Store &store : stores)
      window = std::max(window, together[store.use] += store.bytes);
  }
  scheduleFetches(window);
  scheduleStores(window);
}

void TransferPlan::scheduleFetches(int64_t window) {
  SmallVector<size_t> order(fetches.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return fetches[a].use < fetches[b].use;
  });
  // As late as possible, from the last one on.
  double next = std::numeric_limits<double>::infinity();
  for (size_t number : llvm::reverse(order)) {
    Fetch &fetch = fetches[number];
    next = std::min(next, times[fetch.use]) - kSpare * fetch.seconds;
    auto after = llvm::upper_bound(times, next);
    fetch.begin = std::max<int64_t>(after - times.begin() - 1, 0);
  }
  // Those from `oldest` on, up to the one at hand, fit into the window.
  size_t oldest = 0;
  int64_t ahead = 0;
  for (size_t number : order) {
    Fetch &fetch = fetches[number];
    ahead += fetch.bytes;
    while (ahead > window && fetches[order[oldest]].use < fetch.use)
      ahead -= fetches[order[oldest++]].bytes;
    if (oldest > 0)
      fetch.begin = std::max(fetch.begin, fetches[order[oldest - 1]].use);
    fetch.begin = std::min(std::max(fetch.begin, fetch.earliest), fetch.use);
  }
}

void TransferPlan::scheduleStores(int64_t window) {
  SmallVector<size_t> order(stores.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(
      order, [&](size_t a, size_t b) { return stores[a].use < stores[b].use; });
  double free = 0;
  size_t oldest = 0;
  int64_t waiting = 0;
  for (size_t number : order) {
    Store &store = stores[number];
    free = std::max(free, times[store.use + 1]) + kSpare * store.seconds;
    store.end = llvm::lower_bound(times, free) - times.begin();
    store.end = std::clamp(store.end, store.use + 1, getNumCommands());
    waiting += store.bytes;
    for (; waiting > window && stores[order[oldest]].use < store.use;
         ++oldest) {
      Store &first = stores[order[oldest]];
      waiting -= first.bytes;
      first.end = std::min(first.end, store.use + 1);
    }
  }
}

PagingPrediction TransferPlan::predict() const {
  const size_t count = getNumCommands();
  std::vector<SmallVector<size_t, 1>> begins(count + 1), uses(count + 1),
      stored(count + 1), ends(count + 1);
  for (auto [number, fetch] : llvm::enumerate(fetches)) {
    begins[fetch.begin].push_back(number);
    uses[fetch.use].push_back(number);
  }
  for (auto [number, store] : llvm::enumerate(stores)) {
    stored[store.use].push_back(number);
    ends[store.end].push_back(number);
  }
  PagingPrediction result;
  std::vector<double> fetchEnds(fetches.size()), storeEnds(stores.size());
  double now = 0, fetchFree = 0, storeFree = 0;
  for (size_t command = 0; command <= count; ++command) {
    for (size_t number : begins[command]) {
      const Fetch &fetch = fetches[number];
      fetchFree = std::max(fetchFree, now);
      if (fetch.store)
        fetchFree = std::max(fetchFree, storeEnds[*fetch.store]);
      fetchEnds[number] = fetchFree += fetch.seconds;
      result.fetchedBytes += fetch.bytes;
      result.fetchSeconds += fetch.seconds;
    }
    for (size_t number : uses[command])
      now = std::max(now, fetchEnds[number]);
    for (size_t number : ends[command])
      now = std::max(now, storeEnds[number]);
    if (command == count)
      break;
    now += times[command + 1] - times[command];
    for (size_t number : stored[command]) {
      const Store &store = stores[number];
      storeEnds[number] = storeFree = std::max(storeFree, now) + store.seconds;
      result.storedBytes += store.bytes;
      result.storeSeconds += store.seconds;
    }
  }
  now = std::max({now, fetchFree, storeFree});
  result.exposedSeconds = std::max(0.0, now - times.back());
  return result;
}
