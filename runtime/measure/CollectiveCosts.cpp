//===- CollectiveCosts.cpp - What collectives take ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveCosts.h"

#include "MachineProfile.h"
#include "Timing.h"

#include "optimus-support/InputFile.h"

#include <algorithm>
#include <set>

namespace optrt {
namespace {

/// A small whole number, so that sums over ranks are exact in any order.
float element(int rank, int64_t i) {
  return static_cast<float>((i * 7 + rank * 13) % 61);
}

/// Of one measurement; ranks agree on their times by a collective, too.
constexpr int kMostRepeats = 200;

/// One rank's buffers and its way through the list of measurements. All ranks
/// go the same way; what decides is agreed through collectives.
class RankBench {
public:
  /// Of the ranks of a process the first counts its processor's time.
  RankBench(CollectiveMover &mover, int n, int index, bool isFirst,
            int64_t maxBytes)
      : mover(mover), n(n), index(index), isFirst(isFirst),
        source(maxBytes / 4 + n), destination(maxBytes / 4 + n) {}

  /// Times a meeting of all ranks: one goes before each measurement.
  Status measureMeetings() {
    OPTRT_ASSIGN_OR_RETURN(const double seconds,
                           spend([&] { return meet(); }, kMostRepeats));
    meetingSeconds = seconds / kMostRepeats;
    return okStatus();
  }

  Status measure(int64_t bytes, CollectivePoint &result) {
    const int32_t kind = result.kind;
    bool parts = readsBlocks(kind) || writesBlocks(kind);
    int64_t block = std::max<int64_t>(1, bytes / 4 / (parts ? n : 1));
    result.count = parts ? block * n : block;
    optrt_collective_desc desc{};
    desc.kind = kind;
    desc.outer = 1;
    desc.inner = block;
    desc.src_ld = readsBlocks(kind) ? block * n : block;
    desc.dst_ld = writesBlocks(kind) ? block * n : block;

    // The first call may make buffers; it also tells how often to repeat.
    OPTRT_ASSIGN_OR_RETURN(double first, time(desc));
    OPTRT_ASSIGN_OR_RETURN(double second, time(desc));
    float longest = static_cast<float>(std::min(first, second));
    OPTRT_RETURN_IF_ERROR(largest(&longest, 1));
    constexpr double kSecondsOfAPoint = 0.1;
    int repeats = static_cast<int>(
        std::clamp(kSecondsOfAPoint / std::max<double>(longest, 1e-6), 5.0,
                   double(kMostRepeats)));
    std::vector<float> times(repeats);
    int done = 0;
    auto timeOne = [&]() -> Status {
      OPTRT_ASSIGN_OR_RETURN(double own, time(desc));
      times[done++] = static_cast<float>(own);
      return okStatus();
    };
    OPTRT_ASSIGN_OR_RETURN(const double spent, spend(timeOne, repeats));
    result.processorSeconds = std::max(0.0, spent / repeats - meetingSeconds);
    // A collective takes as long as its slowest rank.
    OPTRT_RETURN_IF_ERROR(largest(times.data(), repeats));
    result.seconds = takeMedian(std::move(times));
    return check(desc, result.wrong);
  }

private:
  /// values[i] becomes the largest of all ranks'.
  Status largest(float *values, int64_t count) {
    return mover.run(
        {OPTRT_ALL_REDUCE, OPTRT_MAX, 0, 0, 1, count, count, count, OPTRT_F32},
        values, values);
  }

  Status meet() {
    float nothing = 0;
    return largest(&nothing, 1);
  }

  StatusOr<double> time(const optrt_collective_desc &desc) {
    // All begin together.
    OPTRT_RETURN_IF_ERROR(meet());
    return mover.time(desc, source.data(), destination.data());
  }

  /// The processor's time of all ranks while they do something so many times.
  template <typename Work>
  StatusOr<double> spend(Work work, int times) {
    OPTRT_RETURN_IF_ERROR(meet());
    const double before = getProcessorSeconds(RUSAGE_SELF);
    for (int i = 0; i != times; ++i)
      OPTRT_RETURN_IF_ERROR(work());
    OPTRT_RETURN_IF_ERROR(meet());
    float spent = static_cast<float>(
        isFirst ? getProcessorSeconds(RUSAGE_SELF) - before : 0);
    OPTRT_RETURN_IF_ERROR(
        mover.run({OPTRT_ALL_REDUCE, OPTRT_SUM, 0, 0, 1, 1, 1, 1, OPTRT_F32},
                  &spent, &spent));
    return spent;
  }

  Status check(const optrt_collective_desc &desc, int64_t &wrong) {
    for (int64_t i = 0; i != desc.src_ld; ++i)
      source[i] = element(index, i);
    std::fill_n(destination.begin(), desc.dst_ld, -1.0f);
    OPTRT_RETURN_IF_ERROR(mover.run(desc, source.data(), destination.data()));
    int64_t block = desc.inner, own = 0;
    bool receives = desc.kind != OPTRT_REDUCE || index == desc.root;
    for (int64_t i = 0; receives && i != desc.dst_ld; ++i) {
      float expected = 0;
      int64_t at = desc.kind == OPTRT_REDUCE_SCATTER ? index * block + i : i;
      if (desc.kind == OPTRT_BROADCAST)
        expected = element(desc.root, at);
      else if (desc.kind == OPTRT_ALL_GATHER)
        expected = element(static_cast<int>(at / block), at % block);
      else
        for (int rank = 0; rank != n; ++rank)
          expected += element(rank, at);
      own += destination[i] != expected;
    }
    // Below 2^24 a float counts exactly; beyond, «many» will do.
    float total = static_cast<float>(own);
    OPTRT_RETURN_IF_ERROR(
        mover.run({OPTRT_ALL_REDUCE, OPTRT_SUM, 0, 0, 1, 1, 1, 1, OPTRT_F32},
                  &total, &total));
    wrong = static_cast<int64_t>(total);
    return okStatus();
  }

  CollectiveMover &mover;
  const int n, index;
  const bool isFirst;
  double meetingSeconds = 0;
  std::vector<float> source, destination;
};

} // namespace

StatusOr<std::vector<CollectivePoint>>
measureCollectives(World &world, const Movers &movers, RankTeam &team,
                   int64_t minBytes, int64_t maxBytes, double timeoutSeconds) {
  const ControlPlane &control = *world.control;
  std::vector<CollectivePoint> points;
  std::vector<int64_t> sizes;
  for (const int32_t kind : kTimedCollectives)
    for (int64_t bytes = minBytes; bytes <= maxBytes; bytes *= 4) {
      points.push_back({kind});
      sizes.push_back(bytes);
    }
  std::vector<std::unique_ptr<CollectiveMover>> made(control.numLocalRanks());
  OPTRT_RETURN_IF_ERROR(team.run([&](int i) -> Status {
    const int64_t most =
        std::max(maxBytes, kMostRepeats * int64_t(sizeof(float)));
    OPTRT_ASSIGN_OR_RETURN(made[i],
                           movers.create(world, i, most, timeoutSeconds));
    RankBench bench(*made[i], control.size(), control.firstRank() + i,
                    /*isFirst=*/i == 0, maxBytes);
    OPTRT_RETURN_IF_ERROR(bench.measureMeetings());
    for (std::size_t number = 0; number != points.size(); ++number) {
      CollectivePoint measured{points[number].kind};
      OPTRT_RETURN_IF_ERROR(bench.measure(sizes[number], measured));
      // What is agreed is the same on all.
      if (i == 0)
        points[number] = measured;
    }
    return okStatus();
  }));
  OPTRT_RETURN_IF_ERROR(team.run([&](int i) {
    made[i].reset();
    return okStatus();
  }));
  return points;
}

int64_t countMachines(ControlPlane &control) {
  const std::vector<std::string> machines =
      control.allGather(optimus_support::machineIdentity());
  return int64_t(std::set(machines.begin(), machines.end()).size());
}

nlohmann::ordered_json machineEntries(std::span<const CollectivePoint> measured,
                                      std::string_view backend, int64_t ranks,
                                      int64_t machines) {
  auto list = nlohmann::ordered_json::array();
  for (const int32_t kind : kTimedCollectives) {
    std::vector<CostPoint> points;
    auto listed = nlohmann::ordered_json::array();
    for (const CollectivePoint &one : measured) {
      if (one.kind != kind)
        continue;
      double bytes = static_cast<double>(one.count) * 4;
      points.push_back({bytes, one.seconds});
      listed.push_back({{"bytes", one.count * 4},
                        {"seconds", one.seconds},
                        {"processor_s", one.processorSeconds}});
    }
    LinearCost cost = fitLinearCost(points);
    list.push_back({{"backend", backend},
                    {"ranks", ranks},
                    {"machines", machines},
                    {"collective", collectiveName(kind)},
                    {"alpha_s", cost.alphaSeconds},
                    {"beta_s_per_byte", cost.betaSecondsPerByte},
                    {"points", listed}});
  }
  return list;
}

} // namespace optrt
