//===- ComputeCosts.cpp - What computing takes ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/ComputeCosts.h"

#include "optimus/Analysis/KernelWork.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::optimus;

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
  return 0.05 * square(llvm::countr_zero(uint64_t(a)) -
                       llvm::countr_zero(uint64_t(b)));
}

/// How unlike two products are. A transposed A is another kernel of the
/// library, which walks along columns; a transposed B and a bias count as half
/// an octave each.
static double getDistance(const GemmPoint &point, const Work &product) {
  double distance =
      getDistance(point.m, product.m) + getDistance(point.n, product.n) +
      getDistance(point.k, product.k) +
      0.25 * ((point.transB != product.transB) + (point.bias != product.bias));
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
static double
getCorrection(ArrayRef<Point> points, const Work &work,
              llvm::function_ref<double(const Point &)> getFactor) {
  constexpr size_t kNeighbours = 4;
  SmallVector<std::pair<double, const Point *>> neighbours;
  for (const Point &point : points)
    neighbours.push_back({getDistance(point, work), &point});
  size_t count = std::min(kNeighbours, neighbours.size());
  std::partial_sort(neighbours.begin(), neighbours.begin() + count,
                    neighbours.end(), llvm::less_first());
  // What was measured itself needs no others.
  if (count > 0 && neighbours.front().first == 0)
    count = 1;
  double weights = 0, correction = 0;
  for (auto [distance, point] : ArrayRef(neighbours).take_front(count)) {
    double weight = 1 / (distance + 1e-3);
    weights += weight;
    correction += weight * std::log(getFactor(*point));
  }
  return weights > 0 ? std::exp(correction / weights) : 1;
}

//===----------------------------------------------------------------------===//
// Products and attention
//===----------------------------------------------------------------------===//

const ProductRates &ComputeCosts::getRates(Type factors) const {
  if (factors && factors.isBF16())
    return profile.getRates("bf16");
  if (factors && factors.isF16())
    return profile.getRates("f16");
  return profile;
}

double ComputeCosts::getGemmSeconds(const Work &product, Type factors) const {
  const ProductRates &rates = getRates(factors);
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

double ComputeCosts::getGemmSeconds(const Work &product, Type factors,
                                    double bytes) const {
  double seconds = getGemmSeconds(product, factors);
  if (!isGpu)
    return seconds;
  return std::max(seconds, profile.gemmAlpha + bytes / getBytesPerSecond(kFar));
}

double ComputeCosts::getCopySeconds(double bytes) const {
  return profile.kernelAlpha + 2 * bytes / getBytesPerSecond(kFar);
}

double ComputeCosts::getAttentionSeconds(const Work &work,
                                         const AttentionRates &rates) const {
  double correction = getCorrection<AttentionPoint>(
      rates.points, work, [&](const AttentionPoint &point) {
        double flops = (point.causal ? 1.0 : 2.0) * (point.gradient ? 5 : 2) *
                       point.seq * point.seq * point.headDim;
        return flops / point.seconds / rates.flopsPerSecond;
      });
  return profile.kernelAlpha + work.flops / (correction * rates.flopsPerSecond);
}

double ComputeCosts::getPackSeconds(const Work &work,
                                    ArrayRef<OperandTraffic> traffic) const {
  if (profile.packs.empty())
    return profile.kernelAlpha + getTrafficSeconds(traffic);
  double elementsPerSecond =
      getCorrection<PackPoint>(profile.packs, work, [](const PackPoint &point) {
        return double(point.rows) * point.cols / point.seconds;
      });
  return double(work.k) * work.n / elementsPerSecond;
}

/// What the device does to C after the product.
double ComputeCosts::getEpilogueSeconds(exec::GemmOp gemm) const {
  if (gemm.getEpilogue() == exec::Epilogue::None || profile.streams.empty())
    return 0;
  double bytes = 4.0 * gemm.getM() * gemm.getN();
  // A dense residual is added by the product itself: C is not read again.
  bool isFused = gemm.getEpilogue() == exec::Epilogue::Add &&
                 gemm.getLdc() == gemm.getN() &&
                 gemm.getLdExtra() == gemm.getN();
  return getFetchSeconds((isFused ? 1 : 2) * bytes, 2 * bytes);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Between two sizes that were measured, by the logarithms.
static double interpolate(ArrayRef<std::pair<double, double>> points,
                          double reuseBytes) {
  if (reuseBytes <= points.front().first)
    return points.front().second;
  if (reuseBytes >= points.back().first)
    return points.back().second;
  const auto *above =
      llvm::lower_bound(points, reuseBytes, [](auto &point, double bytes) {
        return point.first < bytes;
      });
  const auto *below = above - 1;
  double fraction = std::log(reuseBytes / below->first) /
                    std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, fraction);
}

double ComputeCosts::getBytesPerSecond(double reuseBytes) const {
  return profile.streams.empty() ? profile.bytesPerSecond
                                 : interpolate(profile.streams, reuseBytes);
}

/// A processor's core waits for the lines it reads, and likewise for those it
/// writes; changed lines go back to memory at the same time. So the timed loop
/// fetches two of the three bytes it reads and writes.
double ComputeCosts::getFetchSeconds(double bytes, double reuseBytes) const {
  constexpr double kFetched = 2.0 / 3;
  return bytes / (kFetched * getBytesPerSecond(reuseBytes));
}

double ComputeCosts::getTrafficSeconds(ArrayRef<OperandTraffic> traffic) const {
  bool fetches = !isGpu && !profile.streams.empty();
  double seconds = 0;
  llvm::SmallDenseSet<Value, 8> fetched;
  for (const OperandTraffic &one : traffic)
    if (!fetches)
      seconds += (one.reads + one.writes) * one.bytes /
                 getBytesPerSecond(one.reuseBytes);
    else if (fetched.insert(one.operand->get()).second)
      seconds += getFetchSeconds(one.bytes, one.reuseBytes);
  return seconds;
}

/// Rows of a matrix lie too far apart for the processor to foresee which is
/// read next.
double ComputeCosts::getTrafficSeconds(exec::LaunchOp launch,
                                       ArrayRef<OperandTraffic> traffic) const {
  if (profile.columns.empty())
    return getTrafficSeconds(traffic);
  llvm::SmallBitVector byColumns = getBuffersByColumns(launch);
  SmallVector<OperandTraffic> byRows;
  double seconds = 0;
  for (auto [number, one] : llvm::enumerate(traffic))
    if (byColumns.test(number))
      seconds += one.bytes / interpolate(profile.columns, one.reuseBytes);
    else
      byRows.push_back(one);
  return seconds + getTrafficSeconds(byRows);
}

/// Products were timed with operands in a cache. A byte of other operands costs
/// its measured time outside of caches, or the excess of its memory's time over
/// the nearest cache's.
double ComputeCosts::getColdSeconds(ArrayRef<OperandTraffic> traffic) const {
  if (profile.coldSecondsPerByte == 0 || profile.streams.empty())
    return 0;
  double nearest = 1 / profile.streams.front().second;
  double farthest = 1 / profile.streams.back().second;
  if (farthest <= nearest)
    return 0;
  double seconds = 0;
  for (const OperandTraffic &one : traffic) {
    double here = 1 / getBytesPerSecond(one.reuseBytes);
    double share =
        std::clamp((here - nearest) / (farthest - nearest), 0.0, 1.0);
    seconds += share * one.bytes * profile.coldSecondsPerByte;
  }
  return seconds;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

/// What factors of products a command has: its first operand.
static Type getFactors(exec::CommandOpInterface command) {
  return cast<MemRefType>(command->getOperand(0).getType()).getElementType();
}

/// Memory and arithmetic go on at the same time.
double ComputeCosts::getLaunchSeconds(exec::LaunchOp launch,
                                      ArrayRef<OperandTraffic> traffic) const {
  if (std::optional<Work> attention = getAttentionWork(launch))
    return std::max(
        getAttentionSeconds(*attention, getRates(getFactors(launch)).attention),
        profile.kernelAlpha + getTrafficSeconds(traffic));
  KernelWork work = getKernelWork(launch);
  double computing = 0;
  for (auto [ops, rate] :
       {std::pair(work.vectorOps, profile.vectorOpsPerSecond),
        std::pair(work.divisions, profile.divisionsPerSecond),
        std::pair(work.scalarOps, profile.scalarOpsPerSecond)})
    if (rate > 0)
      computing += ops / rate;
  // What the rates of all threads are for, fewer may do.
  int64_t tasks =
      launch.getExtent().value_or(1) / launch.getGrain().value_or(1);
  double idle = profile.streams.empty()
                    ? 1
                    : double(profile.threads) /
                          std::clamp<int64_t>(tasks, 1, profile.threads);
  return profile.kernelAlpha +
         idle * std::max(computing, getTrafficSeconds(launch, traffic));
}

double ComputeCosts::getSeconds(exec::CommandOpInterface command,
                                ArrayRef<OperandTraffic> traffic) const {
  if (auto launch = dyn_cast<exec::LaunchOp>(*command))
    return getLaunchSeconds(launch, traffic);
  Work work;
  if (auto working = dyn_cast<WorkOpInterface>(*command))
    work = working.getWork();
  switch (work.kind) {
  case Work::Product: {
    double product = getGemmSeconds(work, getFactors(command));
    if (isGpu)
      return std::max(product, profile.gemmAlpha + getTrafficSeconds(traffic));
    double seconds = product + getColdSeconds(traffic);
    if (auto gemm = dyn_cast<exec::GemmOp>(*command))
      seconds += getEpilogueSeconds(gemm);
    return seconds;
  }
  case Work::Attention: {
    // On GPUs a command is the library's.
    const ProductRates &rates = getRates(getFactors(command));
    return getAttentionSeconds(work, isGpu ? rates.getLibraryAttention()
                                           : rates.attention);
  }
  case Work::Packing:
    return getPackSeconds(work, traffic);
  case Work::Traffic:
    return profile.kernelAlpha + getTrafficSeconds(traffic);
  }
  llvm_unreachable("unknown kind of work");
}
