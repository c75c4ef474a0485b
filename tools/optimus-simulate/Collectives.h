//===- Collectives.h - What collectives would take --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_COLLECTIVES_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_COLLECTIVES_H

#include "CommandLine.h"

#include "optimus/Prices/MachineProfile.h"
#include "optimus/Simulation/Cluster.h"

#include <nlohmann/json_fwd.hpp>

#include <ostream>
#include <vector>

namespace optimus_simulate {

/// One collective among all ranks in sizes that grow, with the columns of
/// nccl-tests.
class CollectiveTimes {
public:
  /// By `cluster`, or null: by the links of the machine, whose name is empty
  /// for the built-in one. InvalidArgument where the ranks cannot be placed.
  static optimus_support::StatusOr<CollectiveTimes>
  simulate(const Arguments &arguments,
           const optimus_prices::MachineProfile &machine,
           const std::string &machineName,
           const optimus_simulation::Cluster *cluster);

  void print(std::ostream &out) const;
  /// Times are microseconds, rates 10^9 bytes a second.
  nlohmann::ordered_json describe() const;

private:
  struct Row {
    int64_t bytes;
    double seconds;
    /// Of the whole tensor's bytes, and of those that a link must carry.
    double rate, linkRate;
    /// Empty where no protocols are known.
    std::string protocol;
  };

  std::string kind, where;
  int64_t ranks = 0;
  std::vector<Row> rows;
};

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_COLLECTIVES_H
