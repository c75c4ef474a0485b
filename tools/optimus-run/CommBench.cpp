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

#include "Commands.h"
#include "Format.h"

#include "measure/CollectiveCosts.h"
#include "measure/MachineProfile.h"

#include <iostream>

using namespace optrt;

namespace optimus_run {
namespace {

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

bool hasRoot(int32_t kind) {
  return kind == OPTRT_BROADCAST || kind == OPTRT_REDUCE;
}

void print(const std::vector<CollectivePoint> &points, int64_t n) {
  Table table({"collective", "size (B)", "count", "type", "redop", "root",
               "time (us)", "algbw (GB/s)", "busbw (GB/s)", "#wrong"},
              {3, 4});
  for (const CollectivePoint &m : points) {
    double rate = static_cast<double>(m.count) * 4 / m.seconds / 1e9;
    table.addRow({std::string(collectiveName(m.kind)),
                  std::to_string(m.count * 4), std::to_string(m.count), "float",
                  addsUp(m.kind) ? "sum" : "none", hasRoot(m.kind) ? "0" : "-1",
                  format("%.1f", m.seconds * 1e6), format("%.3f", rate),
                  format("%.3f", rate * busFactor(m.kind, n)),
                  std::to_string(m.wrong)});
  }
  table.print(std::cout);
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

  StatusOr<std::unique_ptr<RankTeam>> team =
      RankTeam::create(control.numLocalRanks(), [&](const Status &reason) {
        world.collectives->abort(reason);
      });
  OPTRT_RETURN_IF_ERROR(control.agree(team.status()));
  StatusOr<std::vector<CollectivePoint>> points =
      measureCollectives(world, *movers, **team, options.minBytes,
                         options.maxBytes, options.ranks.timeoutSeconds);
  if (!points.ok())
    return failJob(control, points.status());

  const nlohmann::ordered_json entries = machineEntries(
      *points, world.collectives->name(), n, countMachines(control));
  auto report = [&]() -> Status {
    if (options.json)
      std::cout << entries.dump(2) << '\n';
    else
      print(*points, n);
    static constexpr const char *kKeys[] = {"backend", "ranks", "collective"};
    if (!options.profile.empty())
      OPTRT_RETURN_IF_ERROR(mergeIntoMachineProfile(options.profile, "comm",
                                                    entries, kKeys, gpu));
    for (const CollectivePoint &m : *points)
      if (m.wrong)
        return internal(concat(collectiveName(m.kind), " of ", m.count,
                               " elements among ", n, " ranks has ", m.wrong,
                               " wrong elements"));
    return okStatus();
  };
  return control.agree(control.isRoot() ? report() : okStatus());
}

} // namespace optimus_run
