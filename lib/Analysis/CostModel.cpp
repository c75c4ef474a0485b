//===- CostModel.cpp - What a device program costs --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/CostModel.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::optimus;
using exec::CollectiveKind;

CostModel::CostModel(MachineProfile machine, int64_t numRanks,
                     std::shared_ptr<const MeasuredCosts> measured)
    : profile(std::move(machine)), measured(std::move(measured)) {
  // Only ranks that are threads are known to share a machine. They get as many
  // threads as were measured and there are cores for.
  bool areTogether = profile.backend == "local";
  auto getShare = [&](const ComputeProfile &entry) {
    bool isLimited = areTogether && entry.cores > 0;
    return isLimited ? double(numRanks * entry.threads) / entry.cores : 1.0;
  };
  bool isFirst = true;
  for (const ComputeProfile &entry : profile.computes) {
    double now = getShare(compute), then = getShare(entry);
    bool isBetter =
        then <= 1 ? now > 1 || entry.threads > compute.threads : then < now;
    if (isFirst || isBetter)
      compute = entry;
    isFirst = false;
  }
  slowdown = std::max(1.0, getShare(compute));
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

/// How unlike two products are: the squared distance of their extents in
/// octaves. Transposition counts for little, since libraries pack.
static double getDistance(const GemmPoint &point, int64_t m, int64_t n,
                          int64_t k, bool transA, bool transB) {
  auto square = [](double x) { return x * x; };
  auto octaves = [&](int64_t a, int64_t b) {
    return square(std::log2(double(a)) - std::log2(double(b)));
  };
  return octaves(point.m, m) + octaves(point.n, n) + octaves(point.k, k) +
         0.25 * ((point.transA != transA) + (point.transB != transB));
}

double CostModel::getGemmSeconds(int64_t m, int64_t n, int64_t k, bool transA,
                                 bool transB) const {
  double flops = 2.0 * m * n * k;
  auto getRate = [&](int64_t m, int64_t n, int64_t k) {
    return compute.flopsPerSecond * (m / (m + compute.halfM)) *
           (n / (n + compute.halfN)) * (k / (k + compute.halfK));
  };
  // How the nearest measured products compare to the formula, weighted by
  // their inverse distance, corrects the formula.
  constexpr size_t kNeighbours = 4;
  SmallVector<std::pair<double, double>> neighbours;
  for (const GemmPoint &point : compute.points) {
    double busy =
        std::max(point.seconds - compute.gemmAlpha, 0.05 * point.seconds);
    double rate = 2.0 * point.m * point.n * point.k / busy;
    neighbours.push_back({getDistance(point, m, n, k, transA, transB),
                          std::log(rate / getRate(point.m, point.n, point.k))});
  }
  size_t count = std::min(kNeighbours, neighbours.size());
  std::partial_sort(neighbours.begin(), neighbours.begin() + count,
                    neighbours.end());
  double weights = 0, correction = 0;
  for (auto [distance, logarithm] : ArrayRef(neighbours).take_front(count)) {
    double weight = 1 / (distance + 1e-3);
    weights += weight;
    correction += weight * logarithm;
  }
  double rate = getRate(m, n, k);
  if (weights > 0)
    rate *= std::exp(correction / weights);
  return slowdown * (compute.gemmAlpha + flops / rate);
}

double CostModel::getComputeSeconds(exec::CommandOpInterface command) const {
  if (std::optional<double> seconds = getMeasured(command))
    return *seconds;
  Work work;
  if (auto working = dyn_cast<WorkOpInterface>(*command))
    work = working.getWork();
  switch (work.kind) {
  case Work::Product:
    return getGemmSeconds(work.m, work.n, work.k, work.transA, work.transB);
  case Work::Attention:
    return slowdown *
           (compute.kernelAlpha + work.flops / compute.attentionFlopsPerSecond);
  case Work::Traffic: {
    double bytes = 0;
    for (const exec::Access &access : command.getAccesses()) {
      auto type = cast<MemRefType>(access.operand->get().getType());
      int64_t elements =
          access.cols ? access.rows * access.cols : type.getNumElements();
      bytes += double(elements) * getElementBytes(type) *
               (access.reads + access.writes);
    }
    return slowdown * (compute.kernelAlpha + bytes / compute.bytesPerSecond);
  }
  }
  llvm_unreachable("unknown kind of work");
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

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
    return (ranks - 1) * alpha + part * bytes * beta;
  }
  llvm_unreachable("unknown collective");
}

/// A measured collective: between points by interpolation, else by its line.
static double getMeasuredSeconds(const CollectiveProfile &measured,
                                 double bytes) {
  ArrayRef<std::pair<double, double>> points = measured.points;
  double line = measured.alpha + measured.beta * bytes;
  if (points.size() < 2 || bytes > points.back().first)
    return line;
  if (bytes <= points.front().first)
    return points.front().second;
  const auto *above =
      llvm::lower_bound(points, bytes, [](auto &point, double size) {
        return point.first < size;
      });
  const auto *below = above - 1;
  double fraction = (bytes - below->first) / (above->first - below->first);
  return below->second + fraction * (above->second - below->second);
}

double CostModel::getCollectiveSeconds(CollectiveKind kind, int64_t ranks,
                                       double bytes) const {
  if (ranks <= 1)
    return 0;
  auto getLink = [&](int64_t ranks) {
    return getLinkSeconds(kind, ranks, bytes, profile.linkAlpha,
                          profile.linkBeta);
  };
  // The measurement among the nearest number of ranks, scaled as links are.
  const CollectiveProfile *best = nullptr;
  auto getOctaves = [&](int64_t other) {
    return std::abs(std::log2(double(other)) - std::log2(double(ranks)));
  };
  for (const CollectiveProfile &entry : profile.collectives)
    if (entry.backend == profile.backend &&
        entry.collective == exec::stringifyCollectiveKind(kind) &&
        (!best || getOctaves(entry.ranks) < getOctaves(best->ranks)))
      best = &entry;
  if (!best)
    return getLink(ranks);
  return getMeasuredSeconds(*best, bytes) * getLink(ranks) /
         getLink(best->ranks);
}

double CostModel::getSeconds(exec::CollectiveStartOp start) const {
  if (std::optional<double> seconds = getMeasured(start))
    return *seconds;
  MeshOp mesh = getMesh(start);
  int64_t ranks = mesh ? mesh.getAxisSize(start.getAxis()).value_or(1) : 1;
  double bytes = 1.0 * getElementBytes(start.getSrc().getType()) *
                 start.getOuter() * start.getInner();
  // The ABI's inner extent is one rank's block of these.
  if (start.getKind() == CollectiveKind::AllGather ||
      start.getKind() == CollectiveKind::ReduceScatter)
    bytes *= ranks;
  return getCollectiveSeconds(start.getKind(), ranks, bytes);
}

/// The entry of a collective's axis and kind.
static ExposedCollectives &getEntry(StepPrediction &prediction,
                                    exec::CollectiveStartOp start) {
  for (ExposedCollectives &entry : prediction.exposed)
    if (entry.axis == start.getAxis() && entry.kind == start.getKind())
      return entry;
  return prediction.exposed.emplace_back(
      ExposedCollectives{start.getAxis(), start.getKind()});
}

StepPrediction CostModel::predictStep(func::FuncOp function) const {
  /// A collective under way.
  struct Transfer {
    double queued, finish;
    /// What had been computed when it was started.
    double computed;
  };
  StepPrediction result;
  double now = 0;
  llvm::StringMap<double> linkFree;
  llvm::DenseMap<Operation *, Transfer> transfers;
  function.walk([&](exec::CommandOpInterface command) {
    if (auto start = dyn_cast<exec::CollectiveStartOp>(*command)) {
      double seconds = getSeconds(start);
      double &free = linkFree[getLink(start.getAxis())];
      double begin = std::max(free, now);
      free = begin + seconds;
      transfers[start] = {begin - now, free, result.computeSeconds};
      result.commSeconds += seconds;
    } else if (auto wait = dyn_cast<exec::WaitOp>(*command)) {
      const Transfer &transfer = transfers.lookup(wait.getStart());
      double exposed = std::max(0.0, transfer.finish - now);
      result.exposedSeconds += exposed;
      now += exposed;
      if (exposed == 0)
        return;
      ExposedCollectives &entry = getEntry(result, wait.getStart());
      double queued = std::min(exposed, transfer.queued);
      ++entry.count;
      entry.seconds += exposed;
      entry.queuedSeconds += queued;
      if (transfer.computed == result.computeSeconds)
        entry.idleSeconds += exposed - queued;
    } else {
      double seconds = getComputeSeconds(command);
      result.computeSeconds += seconds;
      now += seconds;
    }
  });
  llvm::stable_sort(result.exposed, [](const auto &a, const auto &b) {
    return a.seconds > b.seconds;
  });
  return result;
}
