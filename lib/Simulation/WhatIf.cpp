//===- WhatIf.cpp - What differs from the program as it is ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Simulation/WhatIf.h"

#include "NamedValues.h"

#include "optimus-support/Philox.h"
#include "optimus-support/Trim.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusOr;
using optimus_support::trim;

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

StatusOr<double> parseQuantity(std::string_view text,
                               const QuantityRange &range) {
  double value = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(stop, end - stop);
  for (auto [name, seconds] : range.units)
    // What is no number is refused, too.
    if (error == std::errc() && unit == name &&
        value * seconds >= range.least && value * seconds <= range.most)
      return value * seconds;
  return invalidArgument(
      concat("expected ", range.expected, ", found '", text, "'"));
}

/// A name and its factor.
static StatusOr<std::pair<std::string, double>>
parseAssignment(std::string_view text, const char *form) {
  OPTRT_ASSIGN_OR_RETURN(auto assigned, splitAssignment(text, form));
  OPTRT_ASSIGN_OR_RETURN(double factor, parseFactor(assigned.second));
  return std::pair(assigned.first, factor);
}

static StatusOr<int64_t> parseRank(std::string_view text, int64_t ranks) {
  int64_t rank = -1;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, rank);
  if (error != std::errc() || stop != end || rank < 0 || rank >= ranks)
    return invalidArgument(concat("expected a rank from 0 to ", ranks - 1,
                                  ", found '", text, "'"));
  return rank;
}

StatusOr<Straggler> parseStraggler(const std::string &text, int64_t ranks) {
  OPTRT_ASSIGN_OR_RETURN(auto assigned, parseAssignment(text, "RANK=FACTOR"));
  OPTRT_ASSIGN_OR_RETURN(int64_t rank, parseRank(assigned.first, ranks));
  return Straggler{rank, assigned.second};
}

StatusOr<Spread> parseSpread(const std::string &text) {
  auto parse = [](std::string_view number) -> StatusOr<double> {
    double value = -1;
    const char *end = number.data() + number.size();
    const auto [stop, error] = std::from_chars(number.data(), end, value);
    if (error != std::errc() || stop != end || !(value >= 0))
      return invalidArgument(
          concat("expected a number from 0, found '", number, "'"));
    return value;
  };
  OPTRT_ASSIGN_OR_RETURN(
      const auto values,
      parseNamedValues(text, {"spread", "seed"}, "NUMBER", parse));
  const double deviation = values[0].value_or(0), seed = values[1].value_or(0);
  constexpr double kLeast = 1e-6, kMost = 2, kMostSeed = 1e15;
  if (!(deviation >= kLeast && deviation <= kMost))
    return invalidArgument(concat("expected a spread from ", kLeast, " to ",
                                  kMost, ", found '", text, "'"));
  if (seed > kMostSeed || seed != std::floor(seed))
    return invalidArgument(
        concat("expected a whole number for a seed, found '", text, "'"));
  return Spread{deviation, int64_t(seed)};
}

double Spread::getFactor(int64_t rank) const {
  return std::exp(deviation * optimus_support::normal(uint64_t(seed),
                                                      /*stream=*/0, /*step=*/0,
                                                      uint64_t(rank)));
}

double WhatIf::getFactor(int64_t rank) const {
  double factor = 1;
  for (const Straggler &one : stragglers)
    factor *= one.rank == rank ? one.factor : 1;
  for (const Spread &one : spreads)
    factor *= one.getFactor(rank);
  return factor;
}

/// "GLOB", or "rank=3/GLOB" for one of the ranks.
template <typename Change>
static Status select(std::string_view text, int64_t ranks, Change &change) {
  constexpr std::string_view kRank = "rank=";
  if (const size_t slash = text.find('/');
      text.starts_with(kRank) && slash != std::string_view::npos) {
    OPTRT_ASSIGN_OR_RETURN(
        change.rank,
        parseRank(text.substr(kRank.size(), slash - kRank.size()), ranks));
    text.remove_prefix(slash + 1);
  }
  if (text.empty())
    return invalidArgument("expected GLOB, found ''");
  change.pattern = text;
  return okStatus();
}

StatusOr<Scaling> parseScaling(const std::string &text, int64_t ranks) {
  OPTRT_ASSIGN_OR_RETURN(auto assigned, parseAssignment(text, "GLOB=FACTOR"));
  Scaling scaling{.pattern = "", .factor = assigned.second};
  OPTRT_RETURN_IF_ERROR(select(assigned.first, ranks, scaling));
  return scaling;
}

StatusOr<Insertion> parseInsertion(const std::string &text, int64_t ranks) {
  OPTRT_ASSIGN_OR_RETURN(auto assigned, splitAssignment(text, "GLOB=TIME"));
  Insertion insertion;
  OPTRT_ASSIGN_OR_RETURN(
      insertion.seconds,
      parseQuantity(
          assigned.second,
          {.units = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}},
           .least = 1e-9,
           .most = 3600,
           .expected = "a time from 1ns to 3600s in ns, us, ms or s, as "
                       "20us"}));
  OPTRT_RETURN_IF_ERROR(select(assigned.first, ranks, insertion));
  return insertion;
}

StatusOr<Bucket> parseBucket(const std::string &text) {
  OPTRT_ASSIGN_OR_RETURN(auto assigned, splitAssignment(text, "GLOB=SIZE"));
  Bucket bucket{.pattern = assigned.first};
  OPTRT_ASSIGN_OR_RETURN(
      bucket.bytes,
      parseQuantity(assigned.second,
                    {.units = {{"B", 1},
                               {"KiB", 1024},
                               {"MiB", 1024 * 1024},
                               {"GiB", 1024.0 * 1024 * 1024}},
                     .least = 1,
                     .most = 1024.0 * 1024 * 1024 * 1024,
                     .expected =
                         "a size from 1B to 1024GiB in B, KiB, MiB or GiB, "
                         "as 25MiB"}));
  return bucket;
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

static Status addStraggler(const std::string &value, int64_t ranks,
                           const std::string &, WhatIf &whatIf) {
  if (value.starts_with("spread=") || value.starts_with("seed=")) {
    OPTRT_ASSIGN_OR_RETURN(const Spread spread, parseSpread(value));
    if (!whatIf.spreads.empty())
      return invalidArgument("expected one spread, found two");
    whatIf.spreads.push_back(spread);
    return okStatus();
  }
  OPTRT_ASSIGN_OR_RETURN(Straggler straggler, parseStraggler(value, ranks));
  double all = straggler.factor;
  for (const Straggler &one : whatIf.stragglers)
    all *= one.rank == straggler.rank ? one.factor : 1;
  OPTRT_RETURN_IF_ERROR(checkFactor(all));
  whatIf.stragglers.push_back(straggler);
  return okStatus();
}

static Status addScaling(const std::string &value, int64_t ranks,
                         const std::string &origin, WhatIf &whatIf) {
  OPTRT_ASSIGN_OR_RETURN(Scaling scaling, parseScaling(value, ranks));
  scaling.origin = origin;
  whatIf.scalings.push_back(std::move(scaling));
  return okStatus();
}

static Status addRemoval(const std::string &value, int64_t ranks,
                         const std::string &origin, WhatIf &whatIf) {
  Scaling none{.pattern = "", .factor = 0, .origin = origin};
  OPTRT_RETURN_IF_ERROR(select(value, ranks, none));
  whatIf.scalings.push_back(std::move(none));
  return okStatus();
}

static Status addInsertion(const std::string &value, int64_t ranks,
                           const std::string &origin, WhatIf &whatIf) {
  OPTRT_ASSIGN_OR_RETURN(Insertion insertion, parseInsertion(value, ranks));
  insertion.origin = origin;
  whatIf.insertions.push_back(std::move(insertion));
  return okStatus();
}

static Status addFusion(const std::string &value, int64_t ranks,
                        const std::string &origin, WhatIf &whatIf) {
  Fusion fusion{.pattern = "", .origin = origin};
  OPTRT_RETURN_IF_ERROR(select(value, ranks, fusion));
  whatIf.fusions.push_back(std::move(fusion));
  return okStatus();
}

static Status addBucket(const std::string &value, int64_t,
                        const std::string &origin, WhatIf &whatIf) {
  OPTRT_ASSIGN_OR_RETURN(Bucket bucket, parseBucket(value));
  bucket.origin = origin;
  whatIf.buckets.push_back(std::move(bucket));
  return okStatus();
}

static Status addPriority(const std::string &value, int64_t,
                          const std::string &origin, WhatIf &whatIf) {
  if (value.empty())
    return invalidArgument("expected GLOB, found ''");
  whatIf.priorities.push_back({.pattern = value, .origin = origin});
  return okStatus();
}

static Status addNetwork(const std::string &value, int64_t, const std::string &,
                         WhatIf &whatIf) {
  OPTRT_ASSIGN_OR_RETURN(NetworkChange network, parseNetworkChange(value));
  whatIf.network.bandwidth *= network.bandwidth;
  whatIf.network.latency *= network.latency;
  OPTRT_RETURN_IF_ERROR(checkFactor(whatIf.network.bandwidth));
  return checkFactor(whatIf.network.latency);
}

static Status setDevice(const std::string &value, int64_t,
                        const std::string &origin, WhatIf &whatIf) {
  if (value.empty())
    return invalidArgument("expected a machine profile, found ''");
  whatIf.device = value;
  whatIf.deviceOrigin = origin;
  return okStatus();
}

/// What the compiler can do is compiled, and not imitated.
static Status adviseCompilation(const std::string &value, int64_t,
                                const std::string &, WhatIf &) {
  return invalidArgument(concat("a precision is compiled: --try '--precision ",
                                value,
                                "' beside the --try that it is compared with"));
}

static Status setOverlap(const std::string &value, int64_t, const std::string &,
                         WhatIf &whatIf) {
  constexpr std::pair<std::string_view, Overlap> kKnown[] = {
      {"scheduled", Overlap::Scheduled},
      {"none", Overlap::None},
      {"perfect", Overlap::Perfect}};
  for (const auto &[name, overlap] : kKnown)
    if (name == value) {
      whatIf.overlap = overlap;
      return okStatus();
    }
  return invalidArgument(
      concat("expected scheduled, none or perfect, found '", value, "'"));
}

Status addChange(const std::string &name, const std::string &value,
                 int64_t ranks, const std::string &origin, WhatIf &whatIf) {
  using Add =
      Status (*)(const std::string &, int64_t, const std::string &, WhatIf &);
  constexpr std::pair<const char *, Add> kKinds[] = {
      {"straggler", addStraggler},
      {"scale", addScaling},
      {"remove", addRemoval},
      {"insert", addInsertion},
      {"fuse", addFusion},
      {"bucket", addBucket},
      {"priority", addPriority},
      {"network", addNetwork},
      {"device", setDevice},
      {"overlap", setOverlap},
      {"precision", adviseCompilation}};
  std::vector<std::string> names;
  std::string list;
  for (const auto &[known, add] : kKinds) {
    if (name == known)
      return add(value, ranks, origin, whatIf);
    const bool isLast = names.size() + 1 == std::size(kKinds);
    list += concat(names.empty() ? "" : isLast ? " or " : ", ", known);
    names.emplace_back(known);
  }
  return invalidArgument(concat("expected ", list, ", found '", name, "'",
                                optimus_support::didYouMean(name, names)));
}

Status addChanges(std::string_view text, const std::string &path, int64_t ranks,
                  WhatIf &whatIf) {
  std::istringstream lines{std::string(text)};
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string_view change =
        trim(std::string_view(line).substr(0, line.find('#')));
    if (change.empty())
      continue;
    const size_t end = std::min(change.find_first_of(" \t"), change.size());
    const std::string name(change.substr(0, end)),
        value(trim(change.substr(end)));
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

/// "'gemm'", "'gemm' of rank 3"
template <typename Change>
static std::string describeSelected(const Change &change) {
  return concat("'", change.pattern, "'",
                change.rank == kAllRanks ? ""
                                         : concat(" of rank ", change.rank));
}

std::vector<std::string> WhatIf::describe() const {
  std::vector<std::string> changes;
  for (const Straggler &one : stragglers)
    changes.push_back(
        concat("rank ", one.rank, " computes ", one.factor, " times as long"));
  for (const Spread &one : spreads)
    changes.push_back(concat("ranks compute e^(", one.deviation,
                             " z) times as long, with z drawn by seed ",
                             one.seed));
  for (const Scaling &one : scalings)
    changes.push_back(one.factor == 0
                          ? concat(describeSelected(one), " takes no time")
                          : concat(describeSelected(one), " takes ", one.factor,
                                   " times as long"));
  for (const Insertion &one : insertions)
    changes.push_back(concat(one.seconds * 1e3, " ms are computed before ",
                             describeSelected(one)));
  for (const Fusion &one : fusions)
    changes.push_back(
        concat("neighbours among ", describeSelected(one), " are one kernel"));
  for (const Bucket &one : buckets)
    changes.push_back(concat("neighbours among ", describeSelected(one),
                             " move together up to ", one.bytes, " bytes"));
  for (const Priority &one : priorities)
    changes.push_back(
        concat("of ", describeSelected(one),
               " that wait for links the first layer's go first"));
  if (network.bandwidth != 1)
    changes.push_back(
        concat("links have ", network.bandwidth, " times the bandwidth"));
  if (network.latency != 1)
    changes.push_back(
        concat("links have ", network.latency, " times the latency"));
  if (!device.empty())
    changes.push_back(concat("devices are those of ", device));
  if (overlap == Overlap::None)
    changes.emplace_back("nothing overlaps");
  if (overlap == Overlap::Perfect)
    changes.emplace_back("all communication overlaps as far as links allow");
  return changes;
}

//===----------------------------------------------------------------------===//
// Of links
//===----------------------------------------------------------------------===//

static void changeLine(double &alpha, double &beta,
                       const NetworkChange &change) {
  alpha *= change.latency;
  beta /= change.bandwidth;
}

void changeNetwork(optimus_prices::CollectiveProfile &measured,
                   const NetworkChange &change) {
  // What is beyond the start-up is for the bytes.
  for (auto &[bytes, seconds] : measured.points) {
    const double startup = std::min(seconds, measured.alpha);
    seconds = startup * change.latency + (seconds - startup) / change.bandwidth;
  }
  changeLine(measured.alpha, measured.beta, change);
}

void changeNetwork(optimus_prices::CommunicationProfile &profile,
                   const NetworkChange &change) {
  changeLine(profile.linkAlpha, profile.linkBeta, change);
  for (optimus_prices::LinkTier &tier : profile.tiers)
    changeLine(tier.alpha, tier.beta, change);
  for (optimus_prices::CollectiveProfile &entry : profile.collectives)
    changeNetwork(entry, change);
}

} // namespace optimus_simulation
