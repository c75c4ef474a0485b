//===- StepMeans.cpp - The mean of several steps ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Simulation/Simulator.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

using optimus_support::StatusOr;

namespace optimus_simulation {

namespace {
/// Adds the times of steps, and divides their sums.
class Means {
public:
  explicit Means(size_t steps) : steps(int64_t(steps)) {}

  /// Calls `visit` with each time of both, the sum first.
  template <typename Visit>
  static void forEach(RankTimes &sum, const RankTimes &one, Visit visit) {
    visit(sum.end, one.end);
    visit(sum.computing, one.computing);
    visit(sum.communicating, one.communicating);
    visit(sum.exposed, one.exposed);
    visit(sum.copying, one.copying);
    visit(sum.carried.all, one.carried.all);
    visit(sum.carried.after, one.carried.after);
    visit(sum.carried.exposed, one.carried.exposed);
  }
  template <typename Visit>
  static void forEach(Exposure &sum, const Exposure &one, Visit visit) {
    visit(sum.all, one.all);
    visit(sum.late, one.late);
    visit(sum.queued, one.queued);
    visit(sum.shared, one.shared);
    visit(sum.idle, one.idle);
  }
  template <typename Visit>
  static void forEach(Picoseconds &sum, const Picoseconds &one, Visit visit) {
    visit(sum, one);
  }

  template <typename Times>
  void add(Times &sum, const Times &one) const {
    forEach(sum, one, [](Picoseconds &all, Picoseconds time) { all += time; });
  }
  template <typename Times>
  void add(std::vector<Times> &sums, const std::vector<Times> &list) const {
    for (size_t i = 0; i != sums.size(); ++i)
      add(sums[i], list[i]);
  }
  /// Down, so that parts of a sum are at most the sum.
  template <typename Times>
  void divide(Times &sum) const {
    forEach(sum, Times(sum),
            [this](Picoseconds &all, Picoseconds) { all /= steps; });
  }
  template <typename Times>
  void divide(std::vector<Times> &sums) const {
    for (Times &one : sums)
      divide(one);
  }

private:
  const int64_t steps;
};
} // namespace

/// By path and reason, the longest first. Their line is that of the step where
/// they are longest.
static std::vector<CriticalPart>
meanOfPaths(const std::vector<Simulation> &steps) {
  struct Sum {
    CriticalPart longest;
    Picoseconds seconds = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const Simulation &step : steps)
    for (const CriticalPart &part : step.criticalPath) {
      Sum &sum = sums[{part.path, part.what}];
      sum.seconds += part.seconds;
      if (part.seconds > sum.longest.seconds)
        sum.longest = part;
    }
  std::vector<CriticalPart> parts;
  for (const auto &[name, sum] : sums) {
    CriticalPart &part = parts.emplace_back(sum.longest);
    std::tie(part.path, part.what) = name;
    part.seconds = sum.seconds / int64_t(steps.size());
  }
  std::ranges::stable_sort(parts, std::ranges::greater(),
                           &CriticalPart::seconds);
  return parts;
}

static std::vector<LinkUse> meanOfLinks(const std::vector<Simulation> &steps) {
  std::map<std::string, double> sums;
  for (const Simulation &step : steps)
    for (const LinkUse &link : step.links)
      sums[link.name] += link.share / double(steps.size());
  std::vector<LinkUse> links;
  for (const auto &[name, share] : sums)
    links.push_back({name, share});
  std::ranges::stable_sort(links, std::ranges::greater(), &LinkUse::share);
  return links;
}

/// The number of the step of median length.
static size_t findMedian(const std::vector<Simulation> &steps) {
  std::vector<size_t> order(steps.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, {},
                           [&](size_t one) { return steps[one].getStep(); });
  return order[order.size() / 2];
}

static Simulation getMean(std::vector<Simulation> steps) {
  // What is no time is as in the median step.
  Simulation mean = steps[findMedian(steps)];
  const Means means(steps.size());
  mean.ranks.assign(mean.ranks.size(), {});
  mean.parts.assign(mean.parts.size(), 0);
  mean.last = {.carried = {.count = mean.last.carried.count}};
  for (Exposure &one : mean.exposures)
    one = {.count = one.count};
  mean.cores = 0;
  mean.events = 0;
  for (const Simulation &step : steps) {
    means.add(mean.ranks, step.ranks);
    means.add(mean.parts, step.parts);
    means.add(mean.exposures, step.exposures);
    means.add(mean.last, step.last);
    mean.cores += step.cores / double(steps.size());
    mean.events += step.events;
  }
  means.divide(mean.ranks);
  means.divide(mean.parts);
  means.divide(mean.exposures);
  means.divide(mean.last);
  mean.slowest = std::ranges::max_element(mean.ranks, {}, &RankTimes::end) -
                 mean.ranks.begin();
  mean.criticalPath = meanOfPaths(steps);
  mean.links = meanOfLinks(steps);
  return mean;
}

StatusOr<Simulation> simulateSteps(TimedProgram &program,
                                   const std::vector<CallList> &calls,
                                   const WhatIf &whatIf,
                                   const SimulationOptions &options) {
  std::vector<Simulation> steps;
  for (size_t step = 0; step != program.countSteps(); ++step) {
    program.takeStep(step);
    OPTRT_ASSIGN_OR_RETURN(Simulation one,
                           simulateTables(program, calls, whatIf, options));
    steps.push_back(std::move(one));
  }
  return steps.size() == 1 ? std::move(steps.front())
                           : getMean(std::move(steps));
}

} // namespace optimus_simulation
