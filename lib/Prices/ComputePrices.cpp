//===- ComputePrices.cpp - What computing takes -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/ComputePrices.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

using optimus_support::ElementType;

namespace optimus_prices {

//===----------------------------------------------------------------------===//
// From what was measured nearby
//===----------------------------------------------------------------------===//

static double square(double x) { return x * x; }

/// The reuse distance of what no cache has.
static constexpr double kFar = std::numeric_limits<double>::infinity();

/// How unlike two extents are, in squared octaves.
static double getDistance(int64_t a, int64_t b) {
  return square(std::log2(double(a)) - std::log2(double(b)));
}

/// How unlike two leading dimensions are in the powers of two that divide them:
/// rows that lie such powers apart compete for places in the cache.
static double getStrideDistance(int64_t a, int64_t b) {
  return 0.05 *
         square(std::countr_zero(uint64_t(a)) - std::countr_zero(uint64_t(b)));
}

/// How unlike two products are. A transposed A is another kernel of the
/// library, which walks along columns, and so is a matrix with gaps; a
/// transposed B and a bias count as half an octave each.
static double getDistance(const GemmPoint &point, const Work &product) {
  double distance =
      getDistance(point.m, product.m) + getDistance(point.n, product.n) +
      getDistance(point.k, product.k) +
      0.25 * ((point.transB != product.transB) + (point.bias != product.bias));
  if (point.gaps != product.gaps)
    distance += square(4);
  if (point.transA != product.transA)
    return distance + square(4);
  if (product.transA)
    distance += getStrideDistance(point.m, product.m) +
                getStrideDistance(point.n, product.n);
  return distance;
}

static double getDistance(const AttentionPoint &point, const Work &work) {
  return getDistance(point.seq, work.seq) +
         getDistance(point.headDim, work.headDim) +
         square(2) * (point.causal != work.causal) +
         square(4) * (point.gradient != work.gradient);
}

/// op(B) lies in memory as rows of `cols`, or with `trans` of `rows` elements.
static double getDistance(const PackPoint &point, const Work &packing) {
  return getDistance(point.rows, packing.k) +
         getDistance(point.cols, packing.n) +
         square(4) * (point.trans != packing.transB) +
         getStrideDistance(point.trans ? point.rows : point.cols,
                           packing.transB ? packing.k : packing.n);
}

/// How the nearest points compare to what a formula says of them: the mean of
/// their factors' logarithms, weighted by inverse distance.
template <typename Point>
static double getCorrection(const std::vector<Point> &points, const Work &work,
                            auto &&getFactor) {
  constexpr size_t kNeighbours = 4;
  std::vector<std::pair<double, const Point *>> neighbours;
  for (const Point &point : points)
    neighbours.push_back({getDistance(point, work), &point});
  size_t count = std::min(kNeighbours, neighbours.size());
  std::partial_sort(
      neighbours.begin(), neighbours.begin() + count, neighbours.end(),
      [](const auto &a, const auto &b) { return a.first < b.first; });
  // What was measured itself needs no others.
  if (count > 0 && neighbours.front().first == 0)
    count = 1;
  double weights = 0, correction = 0;
  for (const auto &[distance, point] : std::span(neighbours).first(count)) {
    double weight = 1 / (distance + 1e-3);
    weights += weight;
    correction += weight * std::log(getFactor(*point));
  }
  return weights > 0 ? std::exp(correction / weights) : 1;
}

//===----------------------------------------------------------------------===//
// Products and attention
//===----------------------------------------------------------------------===//

const ProductRates &ComputePrices::getRates(ElementType factors) const {
  // The others are priced as f32.
  if (factors == ElementType::BF16 || factors == ElementType::F16)
    return profile.getRates(optimus_support::toString(factors));
  return profile;
}

double ComputePrices::getGemmSeconds(const Work &given,
                                     ElementType factors) const {
  const ProductRates &rates = getRates(factors);
  Work product = given;
  // Where nothing was measured with gaps all points are as near as without.
  product.gaps &= std::ranges::any_of(rates.points, &GemmPoint::gaps);
  auto getRate = [&](int64_t m, int64_t n, int64_t k) {
    return rates.flopsPerSecond * (m / (m + rates.halfM)) *
           (n / (n + rates.halfN)) * (k / (k + rates.halfK));
  };
  double correction = getCorrection<GemmPoint>(
      rates.points, product, [&](const GemmPoint &point) {
        double busy =
            std::max(point.seconds - profile.gemmAlpha, 0.05 * point.seconds);
        double rate = 2.0 * point.m * point.n * point.k / busy;
        return rate / getRate(point.m, point.n, point.k);
      });
  double flops = 2.0 * product.m * product.n * product.k;
  return profile.gemmAlpha +
         flops / (correction * getRate(product.m, product.n, product.k));
}

double ComputePrices::getGemmSeconds(const Work &product, ElementType factors,
                                     double bytes) const {
  double seconds = getGemmSeconds(product, factors);
  if (!isGpu)
    return seconds;
  return std::max(seconds, profile.gemmAlpha + bytes / getBytesPerSecond(kFar));
}

double ComputePrices::getCopySeconds(double bytes) const {
  return profile.kernelAlpha + 2 * bytes / getBytesPerSecond(kFar);
}

double ComputePrices::getAttentionSeconds(const Work &work,
                                          const AttentionRates &rates) const {
  double correction = getCorrection<AttentionPoint>(
      rates.points, work, [&](const AttentionPoint &point) {
        double flops = (point.causal ? 1.0 : 2.0) * (point.gradient ? 5 : 2) *
                       point.seq * point.seq * point.headDim;
        return flops / point.seconds / rates.flopsPerSecond;
      });
  return profile.kernelAlpha + work.flops / (correction * rates.flopsPerSecond);
}

double ComputePrices::getPackSeconds(const Work &work,
                                     std::span<const Touch> touches) const {
  if (profile.packs.empty())
    return profile.kernelAlpha + getTrafficSeconds(touches);
  double elementsPerSecond =
      getCorrection<PackPoint>(profile.packs, work, [](const PackPoint &point) {
        return double(point.rows) * point.cols / point.seconds;
      });
  return double(work.k) * work.n / elementsPerSecond;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Between two sizes that were measured, by the logarithms.
static double interpolate(const std::vector<std::pair<double, double>> &points,
                          double reuseBytes) {
  if (reuseBytes <= points.front().first)
    return points.front().second;
  if (reuseBytes >= points.back().first)
    return points.back().second;
  const auto above = std::lower_bound(
      points.begin(), points.end(), reuseBytes,
      [](const auto &point, double bytes) { return point.first < bytes; });
  const auto below = above - 1;
  double fraction = std::log(reuseBytes / below->first) /
                    std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, fraction);
}

/// An operand that is there twice is fetched once.
static bool isFirst(const Touch &touch, std::span<const Touch> touches) {
  const auto isSame = [&](const Touch &other) {
    return other.buffer == touch.buffer;
  };
  return &*std::ranges::find_if(touches, isSame) == &touch;
}

double ComputePrices::getBytesPerSecond(double reuseBytes) const {
  return profile.streams.empty() ? profile.bytesPerSecond
                                 : interpolate(profile.streams, reuseBytes);
}

/// A processor's core waits for the lines it reads, and likewise for those it
/// writes; changed lines go back to memory at the same time. So the timed loop
/// fetches two of the three bytes it reads and writes.
double ComputePrices::getFetchSeconds(double bytes, double reuseBytes) const {
  constexpr double kFetched = 2.0 / 3;
  return bytes / (kFetched * getBytesPerSecond(reuseBytes));
}

double ComputePrices::getTrafficSeconds(std::span<const Touch> touches) const {
  bool fetches = !isGpu && !profile.streams.empty();
  double seconds = 0;
  for (const Touch &one : touches)
    if (!fetches)
      seconds += (one.reads + one.writes) * one.bytes /
                 getBytesPerSecond(one.reuseBytes);
    else if (isFirst(one, touches))
      seconds += getFetchSeconds(one.bytes, one.reuseBytes);
  return seconds;
}

/// Rows of a matrix lie too far apart for the processor to foresee which is
/// read next.
double
ComputePrices::getKernelTrafficSeconds(std::span<const Touch> touches) const {
  if (profile.columns.empty())
    return getTrafficSeconds(touches);
  std::vector<Touch> byRows;
  double seconds = 0;
  for (const Touch &one : touches)
    if (one.byColumns)
      seconds += one.bytes / interpolate(profile.columns, one.reuseBytes);
    else
      byRows.push_back(one);
  return seconds + getTrafficSeconds(byRows);
}

/// Products and attention were timed with operands in a cache. A byte of other
/// operands costs its measured time outside of caches, or the excess of its
/// memory's time over the fastest cache's. Of fewer bytes than that one's,
/// streams of several threads are slower by how these begin and end.
double ComputePrices::getColdSeconds(ElementType factors,
                                     std::span<const Touch> touches) const {
  const double cold = getRates(factors).coldSecondsPerByte.value_or(
      profile.coldSecondsPerByte.value_or(0));
  if (cold == 0 || profile.streams.empty())
    return 0;
  const auto &[fastestBytes, fastestRate] = *std::ranges::max_element(
      profile.streams, {}, [](const auto &stream) { return stream.second; });
  double nearest = 1 / fastestRate;
  double farthest = 1 / profile.streams.back().second;
  if (farthest <= nearest)
    return 0;
  double seconds = 0;
  for (const Touch &one : touches) {
    if (!isFirst(one, touches) || one.reuseBytes <= fastestBytes)
      continue;
    double here = 1 / getBytesPerSecond(one.reuseBytes);
    double share =
        std::clamp((here - nearest) / (farthest - nearest), 0.0, 1.0);
    seconds += share * one.bytes * cold;
  }
  return seconds;
}

double ComputePrices::getFarSeconds(std::span<const Touch> touches,
                                    double nearBytes) const {
  if (isGpu || profile.streams.empty())
    return 0;
  double seconds = 0;
  for (const Touch &one : touches)
    if (isFirst(one, touches) && one.reuseBytes > nearBytes)
      seconds += std::max(0.0, getFetchSeconds(one.bytes, one.reuseBytes) -
                                   getFetchSeconds(one.bytes, nearBytes));
  return seconds;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

/// What the device does to C after the product.
double ComputePrices::getEpilogueSeconds(const CommandWork &command) const {
  if (command.epilogue == Epilogue::None || profile.streams.empty())
    return 0;
  double bytes = 4.0 * command.work.m * command.work.n;
  const bool isFused = command.epilogue == Epilogue::Fused;
  return getFetchSeconds((isFused ? 1 : 2) * bytes, 2 * bytes);
}

/// Memory and arithmetic go on at the same time.
double ComputePrices::getKernelSeconds(const CommandWork &command,
                                       std::span<const Touch> touches) const {
  if (command.work.kind == Work::Attention)
    return std::max(
        getAttentionSeconds(command.work, getRates(command.factors).attention),
        profile.kernelAlpha + getTrafficSeconds(touches));
  double computing = 0;
  for (auto [ops, rate] :
       {std::pair(command.kernel.vectorOps, profile.vectorOpsPerSecond),
        std::pair(command.kernel.divisions, profile.divisionsPerSecond),
        std::pair(command.kernel.scalarOps, profile.scalarOpsPerSecond)})
    if (rate > 0)
      computing += ops / rate;
  if (ofOneThread && command.tasks <= 1)
    return ofOneThread->getKernelSeconds(command, touches);
  // What the rates of all threads are for, fewer may do.
  double idle =
      profile.streams.empty()
          ? 1
          : double(profile.threads) /
                std::clamp<int64_t>(command.tasks, 1, profile.threads);
  return profile.kernelAlpha +
         idle * std::max(computing, getKernelTrafficSeconds(touches));
}

bool ComputePrices::hasPoint(const CommandWork &command) const {
  const ProductRates &rates = getRates(command.factors);
  Work work = command.work;
  work.gaps &= std::ranges::any_of(rates.points, &GemmPoint::gaps);
  auto isOneOf = [&](const auto &points) {
    return std::ranges::any_of(points, [&](const auto &point) {
      return getDistance(point, work) == 0;
    });
  };
  switch (work.kind) {
  case Work::Product:
    return isOneOf(rates.points);
  case Work::Attention:
    return isOneOf((isGpu && !command.isKernel ? rates.getLibraryAttention()
                                               : rates.attention)
                       .points);
  case Work::Packing:
    return isOneOf(profile.packs);
  case Work::Traffic:
    break;
  }
  return false;
}

double ComputePrices::getSeconds(const CommandWork &command,
                                 std::span<const Touch> touches) const {
  if (command.isKernel)
    return getKernelSeconds(command, touches);
  switch (command.work.kind) {
  case Work::Product: {
    double product = getGemmSeconds(command.work, command.factors);
    if (isGpu)
      return std::max(product, profile.gemmAlpha + getTrafficSeconds(touches));
    return product + getColdSeconds(command.factors, touches) +
           getEpilogueSeconds(command);
  }
  case Work::Attention: {
    const ProductRates &rates = getRates(command.factors);
    // On GPUs a command is the library's.
    if (isGpu)
      return getAttentionSeconds(command.work, rates.getLibraryAttention());
    return getAttentionSeconds(command.work, rates.attention) +
           getColdSeconds(command.factors, touches);
  }
  case Work::Packing:
    return getPackSeconds(command.work, touches);
  case Work::Traffic:
    break;
  }
  return profile.kernelAlpha + getTrafficSeconds(touches);
}

} // namespace optimus_prices
