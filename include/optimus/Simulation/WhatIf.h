//===- WhatIf.h - What differs from the program as it is --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SIMULATION_WHATIF_H
#define OPTIMUS_SIMULATION_WHATIF_H

#include "optimus/Prices/MachineProfile.h"

#include "optimus-support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace optimus_simulation {

/// A rank that computes `factor` times as long.
struct Straggler {
  int64_t rank = 0;
  double factor = 1;
};

/// Commands whose path, kind, kernel or collective matches `pattern`, as a
/// shell matches file names, take `factor` times as long; with 0, no time.
struct Scaling {
  std::string pattern;
  double factor = 1;
  /// Where it was asked for, in messages: "--scale", "changes:3".
  std::string origin = {};
};

/// Links with so many times the bandwidth, and so many times the latency.
struct NetworkChange {
  double bandwidth = 1;
  double latency = 1;
};

enum class Overlap {
  /// As the program has it.
  Scheduled,
  /// Every collective is waited for where it starts.
  None,
  /// None is waited for: a rank takes as long as its computing, or its busiest
  /// link.
  Perfect,
};

struct WhatIf {
  std::vector<Straggler> stragglers = {};
  std::vector<Scaling> scalings = {};
  NetworkChange network = {};
  Overlap overlap = Overlap::Scheduled;

  /// One text for each change: "rank 3 computes 1.5 times as long".
  std::vector<std::string> describe() const;
};

/// "RANK=FACTOR" with a rank below `ranks`.
optimus_support::StatusOr<Straggler> parseStraggler(const std::string &text,
                                                    int64_t ranks);
/// "GLOB=FACTOR".
optimus_support::StatusOr<Scaling> parseScaling(const std::string &text);
/// "bandwidth=FACTOR", "latency=FACTOR" or both with a comma between.
optimus_support::StatusOr<NetworkChange>
parseNetworkChange(const std::string &text);

/// Adds a change by its name, "scale", and its value, for so many ranks.
/// `origin` is where it stands. InvalidArgument says what was expected.
optimus_support::Status addChange(const std::string &name,
                                  const std::string &value, int64_t ranks,
                                  const std::string &origin, WhatIf &whatIf);

/// Adds a change for each line of a file, "scale gemm=0.5"; what follows # is a
/// comment. InvalidArgument names the line.
optimus_support::Status addChanges(std::string_view text,
                                   const std::string &path, int64_t ranks,
                                   WhatIf &whatIf);

/// A profile's links, changed.
void changeNetwork(optimus_prices::CommunicationProfile &profile,
                   const NetworkChange &change);

} // namespace optimus_simulation

#endif // OPTIMUS_SIMULATION_WHATIF_H
