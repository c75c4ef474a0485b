//===- DataBench.cpp - What data cost a step ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataBench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

using namespace optrt;

namespace optimus_run {

static constexpr double kShares[] = {0, 0.25, 0.5, 0.75, 1};
/// Cold batches are read for so long, and no more than so many.
static constexpr double kMostMilliseconds = 2000;
static constexpr int64_t kMostBatches = 500;

double DataTimes::predict(double share) const {
  return std::max(step, reading(share));
}

double DataTimes::stall(double share) const {
  return 1 - step / predict(share);
}

double DataTimes::shareNeeded() const {
  if (reading(0) <= step)
    return 0;
  if (reading(1) > step)
    return 2;
  return (reading(0) - step) / (fetchCold - fetchWarm);
}

/// Milliseconds of each batch on average. `most` bounds them all together.
template <typename Read>
static StatusOr<double> timeBatches(int64_t &batches, double most, Read read) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::chrono::duration<double, std::milli> passed{};
  int64_t done = 0;
  while (done != batches && passed.count() < most) {
    OPTRT_RETURN_IF_ERROR(read(done++));
    passed = Clock::now() - begin;
  }
  batches = done;
  return passed.count() / double(done);
}

StatusOr<DataTimes> measureData(const Session &session, const Dataset &data,
                                double step) {
  const int64_t size = session.manifest().batch;
  DataTimes times;
  times.step = step;
  // No window comes twice.
  times.batches =
      std::clamp<int64_t>(data.numWindows() / size, 1, kMostBatches);
  HostBatch batch;
  auto fetch = [&](int64_t index) {
    return session.read(
        [&](int64_t begin, int64_t count, int32_t *, int32_t *) {
          return data.fetchRows(index * size, size, begin, count);
        },
        batch);
  };
  auto fill = [&](int64_t index) {
    return session.read(
        [&](int64_t begin, int64_t count, int32_t *tokens, int32_t *targets) {
          return data.fillBatch(index * size, size, begin, count, tokens,
                                targets);
        },
        batch);
  };
  // An epoch's order is made once, and buffers are there after the first time.
  OPTRT_RETURN_IF_ERROR(fill(0));
  OPTRT_RETURN_IF_ERROR(data.dropFromMemory());
  OPTRT_ASSIGN_OR_RETURN(times.fetchCold,
                         timeBatches(times.batches, kMostMilliseconds, fetch));
  OPTRT_ASSIGN_OR_RETURN(times.fetchWarm,
                         timeBatches(times.batches, 1e9, fetch));
  OPTRT_ASSIGN_OR_RETURN(const double filled,
                         timeBatches(times.batches, 1e9, fill));
  times.preparation = std::max(0.0, filled - times.fetchWarm);
  return times;
}

void printDataTimes(const DataTimes &times) {
  std::printf("data of a step, by %lld batches: fetched in %.3f ms from the "
              "disk, in %.3f ms from memory; prepared in %.3f ms\n",
              static_cast<long long>(times.batches), times.fetchCold,
              times.fetchWarm, times.preparation);
  for (double share : kShares)
    std::printf("%3.0f %% in memory: step %.2f ms predicted, %.1f %% of it "
                "waiting for data\n",
                100 * share, times.predict(share), 100 * times.stall(share));
  const double needed = times.shareNeeded();
  if (needed == 0)
    std::printf("nothing stalls: a batch is read while a step runs\n");
  else if (needed <= 1)
    std::printf("the disk stalls steps until %.0f %% of the data are in "
                "memory\n",
                100 * needed);
  else
    std::printf("%s stalls steps, with all data in memory too\n",
                times.preparation > times.fetchWarm ? "preparation" : "memory");
}

nlohmann::ordered_json dataTimesToJson(const DataTimes &times) {
  nlohmann::ordered_json json = {{"batches", times.batches},
                                 {"fetch_cold_ms", times.fetchCold},
                                 {"fetch_warm_ms", times.fetchWarm},
                                 {"preparation_ms", times.preparation}};
  for (double share : kShares)
    json["predicted"].push_back({{"share_in_memory", share},
                                 {"step_ms", times.predict(share)},
                                 {"stall", times.stall(share)}});
  return json;
}

} // namespace optimus_run
