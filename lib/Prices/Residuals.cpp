//===- Residuals.cpp - How far prices are from measurements -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/Residuals.h"

#include "optimus/Prices/MachinePrices.h"

#include <algorithm>
#include <cmath>
#include <utility>

using optimus_support::ElementType;

namespace optimus_prices {

namespace {
/// Compares prices of a whole profile with those of profiles that lack a point.
class LeaveOneOut {
public:
  LeaveOneOut(const MachineProfile &machine, int64_t numRanks)
      : machine(machine), numRanks(numRanks), whole(machine, numRanks) {}

  /// Leaves out each of the points in a list, which `getList` finds in a
  /// profile, from `first` on and up to the last `rest`; `price` has the price
  /// of such a point.
  template <typename GetList, typename Price>
  void add(GetList getList, Price price, size_t first = 0, size_t rest = 0) {
    const auto points = getList(machine);
    // Neighbours in a list are neighbours in size.
    bool isFirst = true;
    for (size_t i = first; i + rest < points.size(); ++i) {
      MachineProfile fewer = machine;
      auto &list = getList(fewer);
      list.erase(list.begin() + int64_t(i));
      const double seconds = price(whole, points[i]);
      const double ratio =
          price(MachinePrices(fewer, numRanks), points[i]) / seconds;
      // Those of ranks with other threads change nothing.
      if (ratio == 1 || !(ratio > 0) || std::isinf(ratio))
        continue;
      errors.push_back({std::log(ratio), seconds, !isFirst});
      isFirst = false;
    }
  }

  /// Of all so far, and begins anew.
  std::optional<Residual> take() {
    const double most = findMost();
    double squares = 0, weights = 0, alike = 0, both = 0;
    for (size_t i = 0; i != errors.size(); ++i) {
      Error &one = errors[i];
      one.value = std::clamp(one.value, -most, most);
      squares += one.weight * one.value * one.value;
      weights += one.weight;
      if (!one.hasNeighbour)
        continue;
      const Error &before = errors[i - 1];
      const double weight = std::sqrt(before.weight * one.weight);
      alike += weight * before.value * one.value;
      both += weight * (std::pow(before.value, 2) + std::pow(one.value, 2)) / 2;
    }
    const Residual found{.size = std::sqrt(squares / weights),
                         .correlation =
                             both > 0 ? std::clamp(alike / both, 0.0, 1.0) : 0};
    return std::exchange(errors, {}).size() < 2 ? std::nullopt
                                                : std::optional(found);
  }

private:
  struct Error {
    double value, weight;
    /// Whether the error before it is of the point before it.
    bool hasNeighbour;
  };

  /// Three deviations, as the median of errors by size has them. Larger errors
  /// are of slow moments of the machine, not of the formula, and count as this.
  double findMost() const {
    std::vector<std::pair<double, double>> sizes;
    double half = 0;
    for (const Error &one : errors) {
      sizes.emplace_back(std::abs(one.value), one.weight);
      half += one.weight / 2;
    }
    std::ranges::sort(sizes);
    // Of a normal distribution.
    constexpr double kDeviationsOfMedian = 0.6745;
    for (const auto &[size, weight] : sizes)
      if ((half -= weight) <= 0)
        return 3 / kDeviationsOfMedian * size;
    return 0;
  }

  const MachineProfile &machine;
  const int64_t numRanks;
  const MachinePrices whole;
  std::vector<Error> errors;
};
} // namespace

double Residual::ofSum(std::span<const double> shapes) const {
  double sum = 0, squares = 0;
  for (const double one : shapes) {
    sum += one;
    squares += one * one;
  }
  const double apart = sum > 0 ? squares / (sum * sum) : 1;
  return size * std::sqrt(correlation + (1 - correlation) * apart);
}

static double priceProduct(const MachinePrices &prices, const GemmPoint &point,
                           ElementType factors) {
  return prices.getGemmSeconds({.kind = Work::Product,
                                .m = point.m,
                                .n = point.n,
                                .k = point.k,
                                .transA = point.transA,
                                .transB = point.transB,
                                .bias = point.bias,
                                .gaps = point.gaps},
                               factors, /*bytes=*/0);
}

static double priceAttention(const MachinePrices &prices,
                             const AttentionPoint &point, ElementType factors) {
  const double flops = (point.causal ? 1.0 : 2.0) * (point.gradient ? 5 : 2) *
                       double(point.seq) * double(point.seq) *
                       double(point.headDim);
  CommandWork command;
  command.factors = factors;
  command.work = {.kind = Work::Attention,
                  .flops = flops,
                  .seq = point.seq,
                  .headDim = point.headDim,
                  .causal = point.causal,
                  .gradient = point.gradient};
  return prices.getSeconds(command, {});
}

static double pricePacking(const MachinePrices &prices,
                           const PackPoint &point) {
  CommandWork command;
  command.work = {.kind = Work::Packing,
                  .n = point.cols,
                  .k = point.rows,
                  .transB = point.trans};
  return prices.getSeconds(command, {});
}

/// So many bytes that the start of a kernel does not count.
static double priceTraffic(const MachinePrices &prices, double reuseBytes) {
  const Touch touch{.reads = true, .bytes = 1e12, .reuseBytes = reuseBytes};
  return prices.getSeconds({}, std::span(&touch, 1));
}

/// Calls `visit` with each type's products of an entry: its factors, and where
/// they stand in a profile.
template <typename Visit>
static void forEachType(const MachineProfile &machine, size_t entry,
                        Visit visit) {
  visit(
      ElementType::F32, [=](auto &profile) -> auto & {
        return profile.computes[entry];
      });
  const auto &others = machine.computes[entry].otherTypes;
  for (size_t i = 0; i != others.size(); ++i)
    for (ElementType type : {ElementType::BF16, ElementType::F16})
      if (others[i].first == toString(type))
        visit(
            type, [=](auto &profile) -> auto & {
              return profile.computes[entry].otherTypes[i].second;
            });
}

Residuals findResiduals(const MachineProfile &machine, int64_t numRanks) {
  Residuals result;
  LeaveOneOut out(machine, numRanks);
  const size_t entries = machine.computes.size();
  for (size_t entry = 0; entry != entries; ++entry)
    forEachType(machine, entry, [&](ElementType type, auto getRates) {
      out.add(
          [&](auto &profile) -> auto & { return getRates(profile).points; },
          [&](const MachinePrices &prices, const GemmPoint &point) {
            return priceProduct(prices, point, type);
          });
    });
  result.products = out.take();
  for (size_t entry = 0; entry != entries; ++entry)
    forEachType(machine, entry, [&](ElementType type, auto getRates) {
      out.add(
          [&](auto &profile) -> auto & {
            return getRates(profile).attention.points;
          },
          [&](const MachinePrices &prices, const AttentionPoint &point) {
            return priceAttention(prices, point, type);
          });
    });
  result.attention = out.take();
  for (size_t entry = 0; entry != entries; ++entry)
    out.add(
        [&](auto &profile) -> auto & { return profile.computes[entry].packs; },
        pricePacking);
  result.packing = out.take();
  // Between sizes; at the ends there is nothing to interpolate.
  for (size_t entry = 0; entry != entries; ++entry)
    out.add(
        [&](auto &profile) -> auto & {
          return profile.computes[entry].streams;
        },
        [](const MachinePrices &prices, const auto &point) {
          return priceTraffic(prices, point.first);
        },
        /*first=*/1, /*rest=*/1);
  result.traffic = out.take();
  for (CollectiveKind kind :
       optimus_support::program::EnumValuesCollectiveKind()) {
    const std::string name(toString(kind));
    for (size_t entry = 0; entry != machine.collectives.size(); ++entry)
      if (const CollectiveProfile &one = machine.collectives[entry];
          one.collective == name && one.backend == machine.backend)
        out.add(
            [&](auto &profile) -> auto & {
              return profile.collectives[entry].points;
            },
            [&](const MachinePrices &prices, const auto &point) {
              return prices.getSeconds(kind, {.ranks = one.ranks}, point.first);
            },
            /*first=*/1, /*rest=*/1);
    if (const auto residual = out.take())
      result.collectives[name] = *residual;
  }
  return result;
}

std::optional<Residual> Residuals::get(std::string_view kind) const {
  if (kind == "gemm")
    return products;
  if (kind == "pack")
    return packing;
  if (kind == "attention" || kind == "attention_grad")
    return attention;
  if (kind == "launch" || kind == "copy")
    return traffic;
  // A message is priced as a broadcast to one.
  const auto found = collectives.find(
      kind == "send" || kind == "receive" ? "broadcast" : kind);
  return found == collectives.end() ? std::nullopt
                                    : std::optional(found->second);
}

} // namespace optimus_prices
