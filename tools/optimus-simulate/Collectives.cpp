//===- Collectives.cpp - What collectives would take ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Collectives.h"

#include "Format.h"

#include "optimus/Simulation/OneCollective.h"
#include "optimus/Simulation/Simulator.h"

#include <nlohmann/json.hpp>

using namespace optimus_simulate;
using namespace optimus_simulation;
using optimus_run::format;
using optimus_support::StatusOr;
using optimus_support::program::CollectiveKind;

/// What a link carries at least of each byte of the whole.
static double getLinkPart(CollectiveKind kind, int64_t ranks) {
  const double part = double(ranks - 1) / double(ranks);
  switch (kind) {
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
    return 1;
  case CollectiveKind::AllReduce:
    return 2 * part;
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
    break;
  }
  return part;
}

StatusOr<CollectiveTimes> CollectiveTimes::simulate(
    const Arguments &arguments, const optimus_prices::MachineProfile &machine,
    const std::string &machineName, const Cluster *cluster) {
  // The command line has checked it.
  const CollectiveKind kind =
      *optimus_prices::findCollective(arguments.collective);
  CollectiveTimes times;
  times.kind = arguments.collective;
  times.ranks = arguments.ranks;
  times.where = cluster               ? "cluster " + cluster->name
                : machineName.empty() ? "the built-in profile"
                                      : machineName;
  std::vector<int64_t> sizes{arguments.bytes};
  if (arguments.bytes == 0) {
    sizes.clear();
    for (int64_t bytes = 4096; bytes <= int64_t(1) << 30; bytes *= 4)
      sizes.push_back(bytes);
  }
  for (int64_t bytes : sizes) {
    const auto programs = makeOneCollective(kind, arguments.ranks, bytes);
    const TimedProgram timed(programs, *programs.targets.front(), machine, {});
    OPTRT_ASSIGN_OR_RETURN(
        const Simulation simulation,
        optimus_simulation::simulate(
            timed, {kOneCollective}, {},
            {.cluster = cluster,
             .everyMessage = arguments.messages == "every"}));
    const double seconds = double(simulation.getStep()) * 1e-12;
    const double rate = double(bytes) / seconds;
    times.rows.push_back(
        {bytes, seconds, rate, rate * getLinkPart(kind, arguments.ranks),
         simulation.protocols.empty() ? ""
                                      : simulation.protocols.front().name});
  }
  return times;
}

void CollectiveTimes::print(std::ostream &out) const {
  out << "simulated    " << kind << " among " << ranks << " ranks on " << where
      << "\n\n";
  const bool hasProtocols = !rows.empty() && !rows.front().protocol.empty();
  std::vector<std::string> header{"bytes", "time, us", "algbw, GB/s",
                                  "busbw, GB/s"};
  if (hasProtocols)
    header.emplace_back("protocol");
  optimus_run::Table table(header, {4});
  for (const Row &row : rows) {
    std::vector<std::string> cells{
        std::to_string(row.bytes), format("%.2f", row.seconds * 1e6),
        format("%.2f", row.rate * 1e-9), format("%.2f", row.linkRate * 1e-9)};
    if (hasProtocols)
      cells.push_back(row.protocol);
    table.addRow(cells);
  }
  table.print(out);
}

nlohmann::ordered_json CollectiveTimes::describe() const {
  auto list = nlohmann::ordered_json::array();
  for (const Row &row : rows)
    list.push_back({{"bytes", row.bytes},
                    {"us", row.seconds * 1e6},
                    {"algbw_gb_per_s", row.rate * 1e-9},
                    {"busbw_gb_per_s", row.linkRate * 1e-9},
                    {"protocol", row.protocol}});
  return {{"collective", kind},
          {"ranks", ranks},
          {"on", where},
          {"times", std::move(list)}};
}
