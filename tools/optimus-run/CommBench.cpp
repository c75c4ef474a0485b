//===- CommBench.cpp - optimus-run bench --comm ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times every collective of CommandDescriptors.h over a range of sizes and
// checks its results, in the columns of nccl-tests: `size` is the whole
// tensor's (the gathered one, the scattered one), algbw is size / time, and
// busbw is the traffic of a link under the best algorithm.
//
//===----------------------------------------------------------------------===//

#include "CollectiveMover.h"
#include "Commands.h"
#include "Format.h"
#include "MachineProfile.h"
#include "optimus-runtime/RankTeam.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

using namespace optrt;

namespace optimus_run {
namespace {

struct Collective {
  const char *name;
  int32_t kind;
  bool reduces, hasRoot;
};

constexpr Collective kCollectives[] = {
    {"broadcast", OPTRT_BROADCAST, false, true},
    {"reduce", OPTRT_REDUCE, true, true},
    {"all_reduce", OPTRT_ALL_REDUCE, true, false},
    {"all_gather", OPTRT_ALL_GATHER, false, false},
    {"reduce_scatter", OPTRT_REDUCE_SCATTER, true, false},
};

/// Bytes over a rank's link in the best algorithm, by nccl-tests' definition.
double busFactor(int32_t kind, double n) {
  switch (kind) {
  case OPTRT_ALL_REDUCE:
    return 2 * (n - 1) / n;
  case OPTRT_ALL_GATHER:
  case OPTRT_REDUCE_SCATTER:
    return (n - 1) / n;
  default:
    return 1;
  }
}

/// A small whole number, so that sums over ranks are exact in any order.
float element(int rank, int64_t i) {
  return static_cast<float>((i * 7 + rank * 13) % 61);
}

/// Of one measurement; ranks agree on their times by a collective, too.
constexpr int kMostRepeats = 200;

struct Measurement {
  int64_t count = 0; ///< elements of the whole tensor
  double seconds = 0;
  int64_t wrong = 0; ///< elements, over all ranks
};

/// One rank's buffers and its way through the list of measurements. All ranks
/// go the same way; what decides is agreed through collectives.
class RankBench {
public:
  RankBench(CollectiveMover &mover, int n, int index, int64_t maxBytes)
      : mover(mover), n(n), index(index), source(maxBytes / 4 + n),
        destination(maxBytes / 4 + n) {}

  Status measure(const Collective &collective, int64_t bytes,
                 Measurement &result) {
    bool parts = collective.kind == OPTRT_ALL_GATHER ||
                 collective.kind == OPTRT_REDUCE_SCATTER;
    int64_t block = std::max<int64_t>(1, bytes / 4 / (parts ? n : 1));
    result.count = parts ? block * n : block;
    optrt_collective_desc desc{};
    desc.kind = collective.kind;
    desc.outer = 1;
    desc.inner = block;
    desc.src_ld = collective.kind == OPTRT_REDUCE_SCATTER ? block * n : block;
    desc.dst_ld = collective.kind == OPTRT_ALL_GATHER ? block * n : block;

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
    for (float &seconds : times) {
      OPTRT_ASSIGN_OR_RETURN(double own, time(desc));
      seconds = static_cast<float>(own);
    }
    // A collective takes as long as its slowest rank.
    OPTRT_RETURN_IF_ERROR(largest(times.data(), repeats));
    std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
    result.seconds = times[repeats / 2];
    return check(desc, result.wrong);
  }

private:
  /// values[i] becomes the largest of all ranks'.
  Status largest(float *values, int64_t count) {
    return mover.run(
        {OPTRT_ALL_REDUCE, OPTRT_MAX, 0, 0, 1, count, count, count, OPTRT_F32},
        values, values);
  }

  StatusOr<double> time(const optrt_collective_desc &desc) {
    // All begin together.
    float nothing = 0;
    OPTRT_RETURN_IF_ERROR(largest(&nothing, 1));
    return mover.time(desc, source.data(), destination.data());
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
  std::vector<float> source, destination;
};

struct Row {
  const Collective *collective;
  Measurement measured;
};

void print(const std::vector<Row> &rows, int n) {
  Table table({"collective", "size (B)", "count", "type", "redop", "root",
               "time (us)", "algbw (GB/s)", "busbw (GB/s)", "#wrong"},
              {3, 4});
  for (const Row &row : rows) {
    const Measurement &m = row.measured;
    double rate = static_cast<double>(m.count) * 4 / m.seconds / 1e9;
    table.addRow({row.collective->name, std::to_string(m.count * 4),
                  std::to_string(m.count), "float",
                  row.collective->reduces ? "sum" : "none",
                  row.collective->hasRoot ? "0" : "-1",
                  format("%.1f", m.seconds * 1e6), format("%.3f", rate),
                  format("%.3f", rate * busFactor(row.collective->kind, n)),
                  std::to_string(m.wrong)});
  }
  table.print(std::cout);
}

nlohmann::ordered_json toJson(const std::vector<Row> &rows, const World &world,
                              int n) {
  auto list = nlohmann::ordered_json::array();
  for (const Collective &collective : kCollectives) {
    std::vector<CostPoint> points;
    auto listed = nlohmann::ordered_json::array();
    for (const Row &row : rows) {
      if (row.collective != &collective)
        continue;
      double bytes = static_cast<double>(row.measured.count) * 4;
      points.push_back({bytes, row.measured.seconds});
      listed.push_back({{"bytes", row.measured.count * 4},
                        {"seconds", row.measured.seconds}});
    }
    LinearCost cost = fitLinearCost(points);
    list.push_back({{"backend", world.collectives->name()},
                    {"ranks", n},
                    {"collective", collective.name},
                    {"alpha_s", cost.alphaSeconds},
                    {"beta_s_per_byte", cost.betaSecondsPerByte},
                    {"points", listed}});
  }
  return list;
}

} // namespace

Status benchCollectives(const BenchOptions &options, World &world) {
  ControlPlane &control = *world.control;
  StatusOr<Movers> movers = Movers::open(options.ranks.device);
  OPTRT_RETURN_IF_ERROR(control.agree(movers.status()));
  const nlohmann::ordered_json gpu =
      movers->gpu().empty() ? nlohmann::ordered_json()
                            : nlohmann::ordered_json::parse(movers->gpu());
  auto checkOptions = [&]() -> Status {
    if (options.numRanks == 0 && control.numLocalRanks() == control.size())
      return invalidArgument("bench --comm needs --ranks N, the number of "
                             "threads that communicate");
    if (options.minBytes > options.maxBytes)
      return invalidArgument(concat("--min-bytes ", options.minBytes,
                                    " is above --max-bytes ",
                                    options.maxBytes));
    return !options.profile.empty() && control.isRoot()
               ? checkMachineProfile(options.profile, gpu)
               : okStatus();
  };
  OPTRT_RETURN_IF_ERROR(control.agree(checkOptions()));
  int64_t n = options.numRanks ? options.numRanks : control.size();
  OPTRT_RETURN_IF_ERROR(world.layOut(optimus_support::Mesh({{"ranks", n}})));

  OPTRT_RETURN_IF_ERROR(
      movers->chooseGpus(control, world.collectives->needsGpus()));

  std::vector<Row> rows;
  for (const Collective &collective : kCollectives)
    for (int64_t bytes = options.minBytes; bytes <= options.maxBytes;
         bytes *= 4)
      rows.push_back({&collective, {}});
  StatusOr<std::unique_ptr<RankTeam>> team =
      RankTeam::create(control.numLocalRanks(), [&](const Status &reason) {
        world.collectives->abort(reason);
      });
  OPTRT_RETURN_IF_ERROR(control.agree(team.status()));
  std::vector<std::unique_ptr<CollectiveMover>> made(control.numLocalRanks());
  Status status = (*team)->run([&](int i) -> Status {
    const int64_t most =
        std::max(options.maxBytes, kMostRepeats * int64_t(sizeof(float)));
    OPTRT_ASSIGN_OR_RETURN(
        made[i], movers->create(world, i, most, options.ranks.timeoutSeconds));
    RankBench bench(*made[i], static_cast<int>(n), control.firstRank() + i,
                    options.maxBytes);
    std::size_t row = 0;
    for (const Collective &collective : kCollectives)
      for (int64_t bytes = options.minBytes; bytes <= options.maxBytes;
           bytes *= 4, ++row) {
        Measurement measured;
        OPTRT_RETURN_IF_ERROR(bench.measure(collective, bytes, measured));
        // What is agreed is the same on all.
        if (i == 0)
          rows[row].measured = measured;
      }
    return okStatus();
  });
  if (!status.ok())
    return failJob(control, status);
  OPTRT_RETURN_IF_ERROR((*team)->run([&](int i) {
    made[i].reset();
    return okStatus();
  }));

  nlohmann::ordered_json entries = toJson(rows, world, static_cast<int>(n));
  auto report = [&]() -> Status {
    if (options.json)
      std::cout << entries.dump(2) << '\n';
    else
      print(rows, static_cast<int>(n));
    static constexpr const char *kKeys[] = {"backend", "ranks", "collective"};
    if (!options.profile.empty())
      OPTRT_RETURN_IF_ERROR(mergeIntoMachineProfile(options.profile, "comm",
                                                    entries, kKeys, gpu));
    for (const Row &row : rows)
      if (row.measured.wrong)
        return internal(concat(row.collective->name, " of ", row.measured.count,
                               " elements among ", n, " ranks has ",
                               row.measured.wrong, " wrong elements"));
    return okStatus();
  };
  return control.agree(control.isRoot() ? report() : okStatus());
}

} // namespace optimus_run
