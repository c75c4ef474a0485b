//===- CollectivePrices.cpp - What collectives take -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/CollectivePrices.h"

#include <algorithm>
#include <cmath>

namespace optimus_prices {

/// What a collective costs on links of alpha + bytes·beta: broadcasts and
/// reductions go down a tree in pieces, the others around a ring.
static double getLinkSeconds(CollectiveKind kind, int64_t ranks, double bytes,
                             double alpha, double beta) {
  if (ranks <= 1)
    return 0;
  double part = double(ranks - 1) / ranks;
  switch (kind) {
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
    return std::ceil(std::log2(double(ranks))) * alpha + bytes * beta;
  case CollectiveKind::AllReduce:
    return 2 * (ranks - 1) * alpha + 2 * part * bytes * beta;
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
    return (ranks - 1) * alpha + part * bytes * beta;
  }
  return 0;
}

/// Between points, which are by size.
static double interpolate(std::span<const std::pair<double, double>> points,
                          double bytes) {
  if (bytes <= points.front().first)
    return points.front().second;
  const auto above = std::lower_bound(
      points.begin(), points.end(), bytes,
      [](const auto &point, double size) { return point.first < size; });
  const auto below = above - 1;
  double fraction = (bytes - below->first) / (above->first - below->first);
  return below->second + fraction * (above->second - below->second);
}

double getMeasuredSeconds(const CollectiveProfile &measured, double bytes) {
  const std::vector<std::pair<double, double>> &points = measured.points;
  if (points.size() < 2 || bytes > points.back().first)
    return measured.alpha + measured.beta * bytes;
  return interpolate(points, bytes);
}

/// How often all ranks send and receive one after the other, and what part of
/// the whole tensor each of them sends, in the best algorithms.
static std::pair<double, double> getStepsAndPart(CollectiveKind kind,
                                                 int64_t ranks) {
  double steps = std::ceil(std::log2(double(ranks)));
  double part = double(ranks - 1) / ranks;
  switch (kind) {
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
    return {steps, 1};
  case CollectiveKind::AllReduce:
    return {2 * steps, 2 * part};
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
    return {steps, part};
  case CollectiveKind::AllToAll:
    return {ranks - 1, part};
  }
  return {0, 0};
}

namespace {
/// Times of a link's collectives, and their least-squares fit of alpha and
/// beta.
struct LinkFit {
  /// Of all of them: products of the alphas, the betas and the seconds that
  /// each takes.
  double aa = 0, bb = 0, ab = 0, as = 0, bs = 0;

  void add(double alphas, double betas, double seconds) {
    aa += alphas * alphas;
    bb += betas * betas;
    ab += alphas * betas;
    as += alphas * seconds;
    bs += betas * seconds;
  }

  /// Where collectives are too alike to tell the two apart, multiples of what
  /// was expected; where one would be less than 0, the other alone.
  std::pair<double, double> solve(double alpha, double beta) const {
    constexpr double kLeastSpread = 1e-3;
    double determinant = aa * bb - ab * ab;
    if (determinant < kLeastSpread * aa * bb) {
      double expected =
          alpha * alpha * aa + 2 * alpha * beta * ab + beta * beta * bb;
      double scale = (alpha * as + beta * bs) / expected;
      return {scale * alpha, scale * beta};
    }
    double fittedAlpha = (as * bb - bs * ab) / determinant;
    double fittedBeta = (bs * aa - as * ab) / determinant;
    if (fittedAlpha < 0)
      return {0, bs / bb};
    if (fittedBeta < 0)
      return {as / aa, 0};
    return {fittedAlpha, fittedBeta};
  }
};
} // namespace

void CollectivePrices::learn(std::span<const MeasuredCollective> run,
                             bool hasHostForEachRank) {
  profile.axesShareLink |= hasHostForEachRank;
  std::vector<std::pair<RankGroup, LinkFit>> fits;
  for (const MeasuredCollective &one : run) {
    if (one.group.ranks <= 1)
      continue;
    auto entry = std::find_if(fits.begin(), fits.end(), [&](const auto &other) {
      return other.first == one.group;
    });
    if (entry == fits.end())
      entry = fits.insert(entry, {one.group, LinkFit()});
    auto price = [&](double alpha, double beta) {
      return getLinkSeconds(one.kind, one.group.ranks, one.bytes, alpha, beta);
    };
    entry->second.add(price(1, 0), price(0, 1), one.seconds);
  }
  for (const auto &[group, fit] : fits) {
    auto [alpha, beta] = fit.solve(profile.linkAlpha, profile.linkBeta);
    links.push_back({group, alpha, beta});
  }
}

const CollectiveProfile *CollectivePrices::findNearest(CollectiveKind kind,
                                                       int64_t ranks) const {
  const CollectiveProfile *best = nullptr;
  auto getOctaves = [&](int64_t other) {
    return std::abs(std::log2(double(other)) - std::log2(double(ranks)));
  };
  for (const CollectiveProfile &entry : profile.collectives)
    if (entry.backend == profile.backend &&
        entry.collective == toString(kind) &&
        (!best || getOctaves(entry.ranks) < getOctaves(best->ranks)))
      best = &entry;
  return best;
}

bool CollectivePrices::hasPoints(CollectiveKind kind, RankGroup group,
                                 double bytes) const {
  const CollectiveProfile *best = findNearest(kind, group.ranks);
  return best && best->ranks == group.ranks && best->points.size() > 1 &&
         bytes >= best->points.front().first &&
         bytes <= best->points.back().first;
}

/// Each of the ranks but one receives all, or its part from all others: what
/// they do together grows with the others' number.
double CollectivePrices::getProcessorSeconds(CollectiveKind kind,
                                             RankGroup group,
                                             double bytes) const {
  const CollectiveProfile *best = findNearest(kind, group.ranks);
  if (group.ranks <= 1 || !best || best->processors.empty())
    return 0;
  const auto &[most, spent] = best->processors.back();
  const double measured = bytes > most ? spent * bytes / most
                                       : interpolate(best->processors, bytes);
  return measured * double(group.ranks - 1) / double(best->ranks - 1);
}

double CollectivePrices::getNearSeconds(CollectiveKind kind, int64_t ranks,
                                        double bytes) const {
  auto getLink = [&](int64_t ranks) {
    if (profile.tiers.empty())
      return getLinkSeconds(kind, ranks, bytes, profile.linkAlpha,
                            profile.linkBeta);
    auto [steps, part] = getStepsAndPart(kind, ranks);
    const LinkTier &nearest = profile.tiers.front();
    return steps * nearest.alpha + part * bytes * nearest.beta;
  };
  // The measurement among the nearest number of ranks, scaled as links are.
  const CollectiveProfile *best = findNearest(kind, ranks);
  if (!best)
    return getLink(ranks);
  return getMeasuredSeconds(*best, bytes) * getLink(ranks) /
         getLink(best->ranks);
}

double CollectivePrices::getSeconds(CollectiveKind kind, RankGroup group,
                                    double bytes) const {
  if (group.ranks <= 1)
    return 0;
  for (const MeasuredLink &link : links)
    if (link.group == group)
      return getLinkSeconds(kind, group.ranks, bytes, link.alpha, link.beta);
  int64_t reach = group.ranks * group.stride;
  if (profile.tiers.empty() || reach <= profile.tiers.front().ranks)
    return getNearSeconds(kind, group.ranks, bytes);
  // Parts that ranks of a node share cross its links together, each over links
  // of its own; the slowest links decide how fast that is.
  double part = getStepsAndPart(kind, group.ranks).second;
  double latency = 0, beta = 0;
  int64_t joined = 1;
  for (const LinkTier &tier : profile.tiers) {
    bool isLast = reach <= tier.ranks || &tier == &profile.tiers.back();
    int64_t here = isLast ? group.ranks
                          : std::clamp<int64_t>(tier.ranks / group.stride,
                                                joined, group.ranks);
    if (here > joined) {
      latency += getStepsAndPart(kind, (here + joined - 1) / joined).first *
                 tier.alpha;
      beta = std::max(beta, tier.beta / joined);
    }
    joined = here;
    if (isLast)
      break;
  }
  return latency + part * bytes * beta;
}

} // namespace optimus_prices
