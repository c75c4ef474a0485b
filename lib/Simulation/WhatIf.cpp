//===- WhatIf.cpp - What differs from the program as it is ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Simulation/WhatIf.h"

#include "NamedValues.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusOr;

namespace optimus_simulation {

//===----------------------------------------------------------------------===//
// From text
//===----------------------------------------------------------------------===//

/// Of times and rates.
static constexpr double kLeastFactor = 1e-6, kMostFactor = 1e6;

static StatusOr<double> parseFactor(std::string_view text) {
  double factor = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, factor);
  // The negation refuses what is no number, too.
  if (error != std::errc() || stop != end ||
      !(factor >= kLeastFactor && factor <= kMostFactor))
    return invalidArgument(
        concat("expected a factor from 1e-6 to 1e6, found '", text, "'"));
  return factor;
}

StatusOr<std::pair<std::string, std::string_view>>
splitAssignment(std::string_view text, const std::string &form) {
  const size_t at = text.rfind('=');
  if (at == std::string_view::npos || at == 0)
    return invalidArgument(concat("expected ", form, ", found '", text, "'"));
  return std::pair(std::string(text.substr(0, at)), text.substr(at + 1));
}

/// A name and its factor.
static StatusOr<std::pair<std::string, double>>
parseAssignment(std::string_view text, const char *form) {
  OPTRT_ASSIGN_OR_RETURN(auto assigned, splitAssignment(text, form));
  OPTRT_ASSIGN_OR_RETURN(double factor, parseFactor(assigned.second));
  return std::pair(assigned.first, factor);
}

StatusOr<Straggler> parseStraggler(const std::string &text, int64_t ranks) {
  OPTRT_ASSIGN_OR_RETURN(auto assigned, parseAssignment(text, "RANK=FACTOR"));
  const auto &[name, factor] = assigned;
  int64_t rank = -1;
  const char *end = name.data() + name.size();
  auto [stop, error] = std::from_chars(name.data(), end, rank);
  if (error != std::errc() || stop != end || rank < 0 || rank >= ranks)
    return invalidArgument(concat("expected a rank from 0 to ", ranks - 1,
                                  ", found '", name, "'"));
  return Straggler{rank, factor};
}

StatusOr<Scaling> parseScaling(const std::string &text) {
  OPTRT_ASSIGN_OR_RETURN(auto assigned, parseAssignment(text, "GLOB=FACTOR"));
  return Scaling{assigned.first, assigned.second};
}

StatusOr<NetworkChange> parseNetworkChange(const std::string &text) {
  OPTRT_ASSIGN_OR_RETURN(
      const auto values,
      parseNamedValues(text, {"bandwidth", "latency"}, "FACTOR", parseFactor));
  return NetworkChange{.bandwidth = values[0].value_or(1),
                       .latency = values[1].value_or(1)};
}

/// Of several that are multiplied.
static Status checkFactor(double factor) {
  if (factor >= kLeastFactor && factor <= kMostFactor)
    return okStatus();
  return invalidArgument(concat("expected factors whose product is from ",
                                kLeastFactor, " to ", kMostFactor, ", found ",
                                factor));
}

Status addChange(const std::string &name, const std::string &value,
                 int64_t ranks, const std::string &origin, WhatIf &whatIf) {
  if (name == "straggler") {
    OPTRT_ASSIGN_OR_RETURN(Straggler straggler, parseStraggler(value, ranks));
    double all = straggler.factor;
    for (const Straggler &one : whatIf.stragglers)
      all *= one.rank == straggler.rank ? one.factor : 1;
    OPTRT_RETURN_IF_ERROR(checkFactor(all));
    whatIf.stragglers.push_back(straggler);
  } else if (name == "scale") {
    OPTRT_ASSIGN_OR_RETURN(Scaling scaling, parseScaling(value));
    scaling.origin = origin;
    whatIf.scalings.push_back(std::move(scaling));
  } else if (name == "remove") {
    if (value.empty())
      return invalidArgument("expected GLOB, found ''");
    whatIf.scalings.push_back({value, 0, origin});
  } else if (name == "network") {
    OPTRT_ASSIGN_OR_RETURN(NetworkChange network, parseNetworkChange(value));
    whatIf.network.bandwidth *= network.bandwidth;
    whatIf.network.latency *= network.latency;
    OPTRT_RETURN_IF_ERROR(checkFactor(whatIf.network.bandwidth));
    OPTRT_RETURN_IF_ERROR(checkFactor(whatIf.network.latency));
  } else if (name == "overlap") {
    if (value != "scheduled" && value != "none" && value != "perfect")
      return invalidArgument(
          concat("expected scheduled, none or perfect, found '", value, "'"));
    whatIf.overlap = value == "none"      ? Overlap::None
                     : value == "perfect" ? Overlap::Perfect
                                          : Overlap::Scheduled;
  } else {
    const std::vector<std::string> names{"straggler", "scale", "remove",
                                         "network", "overlap"};
    return invalidArgument(
        concat("expected straggler, scale, remove, network or overlap, found '",
               name, "'", optimus_support::didYouMean(name, names)));
  }
  return okStatus();
}

static std::string trim(const std::string &text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

Status addChanges(std::string_view text, const std::string &path, int64_t ranks,
                  WhatIf &whatIf) {
  std::istringstream lines{std::string(text)};
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trim(line.substr(0, line.find('#')));
    if (line.empty())
      continue;
    const size_t end = line.find_first_of(" \t");
    const std::string name = line.substr(0, end);
    const std::string value =
        end == std::string::npos ? "" : trim(line.substr(end));
    const std::string origin = concat(path, ":", number);
    if (Status added = addChange(name, value, ranks, origin, whatIf);
        !added.ok())
      return added.withContext(origin);
  }
  return okStatus();
}

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

std::vector<std::string> WhatIf::describe() const {
  std::vector<std::string> changes;
  for (const Straggler &one : stragglers)
    changes.push_back(
        concat("rank ", one.rank, " computes ", one.factor, " times as long"));
  for (const Scaling &one : scalings)
    changes.push_back(one.factor == 0
                          ? concat("'", one.pattern, "' takes no time")
                          : concat("'", one.pattern, "' takes ", one.factor,
                                   " times as long"));
  if (network.bandwidth != 1)
    changes.push_back(
        concat("links have ", network.bandwidth, " times the bandwidth"));
  if (network.latency != 1)
    changes.push_back(
        concat("links have ", network.latency, " times the latency"));
  if (overlap == Overlap::None)
    changes.emplace_back("nothing overlaps");
  if (overlap == Overlap::Perfect)
    changes.emplace_back("all communication overlaps as far as links allow");
  return changes;
}

//===----------------------------------------------------------------------===//
// Of links
//===----------------------------------------------------------------------===//

void changeNetwork(optimus_prices::CommunicationProfile &profile,
                   const NetworkChange &change) {
  auto changeLine = [&](double &alpha, double &beta) {
    alpha *= change.latency;
    beta /= change.bandwidth;
  };
  changeLine(profile.linkAlpha, profile.linkBeta);
  for (optimus_prices::LinkTier &tier : profile.tiers)
    changeLine(tier.alpha, tier.beta);
  for (optimus_prices::CollectiveProfile &entry : profile.collectives) {
    // What is beyond the start-up is for the bytes.
    for (auto &[bytes, seconds] : entry.points) {
      const double startup = std::min(seconds, entry.alpha);
      seconds =
          startup * change.latency + (seconds - startup) / change.bandwidth;
    }
    changeLine(entry.alpha, entry.beta);
  }
}

} // namespace optimus_simulation
