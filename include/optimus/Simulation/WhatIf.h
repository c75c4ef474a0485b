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

/// Every rank computes e^(deviation · z) times as long, with a z that is drawn
/// from the standard normal distribution by the seed and the rank.
struct Spread {
  double deviation = 0;
  int64_t seed = 0;

  double getFactor(int64_t rank) const;
};

/// Every rank.
inline constexpr int64_t kAllRanks = -1;

/// Commands whose path, kind, kernel or collective matches `pattern`, as a
/// shell matches file names, take `factor` times as long; with 0, no time. Of a
/// collective the rank for which it takes longest counts.
struct Scaling {
  std::string pattern;
  double factor = 1;
  int64_t rank = kAllRanks;
  /// Where it was asked for, in messages: "--scale", "changes:3".
  std::string origin = {};
};

/// A rank computes for so long before each such command.
struct Insertion {
  std::string pattern;
  double seconds = 0;
  int64_t rank = kAllRanks;
  std::string origin = {};
};

/// Such kernels, where they follow each other at once, are one: it starts once,
/// computes everything, and reads nothing that one of them has written.
struct Fusion {
  std::string pattern;
  int64_t rank = kAllRanks;
  std::string origin = {};
};

/// Such collectives of one kind among the same ranks, as they follow each
/// other, move together up to so many bytes: with the last of them, and before
/// any of them is waited for.
struct Bucket {
  std::string pattern;
  double bytes = 0;
  int64_t rank = kAllRanks;
  std::string origin = {};
};

/// Such collectives go by layers, as forward has them: where several wait for
/// links, that of the first layer begins next, and none is interrupted
/// (Jayarajan et al., "Priority-based Parameter Propagation"). All of its ranks
/// have started the one that begins; others keep their order.
struct Priority {
  std::string pattern;
  int64_t rank = kAllRanks;
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
  std::vector<Spread> spreads = {};
  std::vector<Scaling> scalings = {};
  std::vector<Insertion> insertions = {};
  std::vector<Fusion> fusions = {};
  std::vector<Bucket> buckets = {};
  std::vector<Priority> priorities = {};
  NetworkChange network = {};
  /// The machine profile of other devices, and where it was asked for; empty
  /// for those that there are.
  std::string device = {}, deviceOrigin = {};
  Overlap overlap = Overlap::Scheduled;

  /// How many times as long a rank computes.
  double getFactor(int64_t rank) const;

  /// One text for each change: "rank 3 computes 1.5 times as long".
  std::vector<std::string> describe() const;
};

/// "RANK=FACTOR" with a rank below `ranks`.
optimus_support::StatusOr<Straggler> parseStraggler(const std::string &text,
                                                    int64_t ranks);
/// "spread=DEVIATION" with a seed or 0, "spread=0.1,seed=7".
optimus_support::StatusOr<Spread> parseSpread(const std::string &text);
/// "GLOB=FACTOR", or of one rank "rank=3/GLOB=FACTOR".
optimus_support::StatusOr<Scaling> parseScaling(const std::string &text,
                                                int64_t ranks);
/// "GLOB=TIME", with a time as "20us".
optimus_support::StatusOr<Insertion> parseInsertion(const std::string &text,
                                                    int64_t ranks);
/// "GLOB=SIZE", with a size as "25MiB".
optimus_support::StatusOr<Bucket> parseBucket(const std::string &text);
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

/// A measured collective, changed.
void changeNetwork(optimus_prices::CollectiveProfile &measured,
                   const NetworkChange &change);

/// A profile's links, changed.
void changeNetwork(optimus_prices::CommunicationProfile &profile,
                   const NetworkChange &change);

} // namespace optimus_simulation

#endif // OPTIMUS_SIMULATION_WHATIF_H
