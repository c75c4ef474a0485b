//===- CostModel.cpp - What a device program costs --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/CostModel.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::optimus;
using exec::CollectiveKind;

/// How many threads each core of the machine has while `ranks` compute.
static double getShare(const ComputeProfile &entry, int64_t ranks) {
  return entry.cores > 0 ? double(ranks * entry.threads) / entry.cores : 1.0;
}

/// The entry for what ranks do of which so many share a machine: they get as
/// many threads as were measured and there are cores for, beside as many others
/// as come nearest.
static ComputeProfile chooseProfile(ArrayRef<ComputeProfile> entries,
                                    int64_t ranks) {
  if (entries.empty())
    return ComputeProfile();
  auto isBetter = [&](const ComputeProfile &a, const ComputeProfile &b) {
    double shareOfA = getShare(a, ranks), shareOfB = getShare(b, ranks);
    if (a.threads != b.threads)
      return shareOfA <= 1 ? shareOfB > 1 || a.threads > b.threads
                           : shareOfA < shareOfB;
    // Those that compute at the same time; the others wait for a core.
    auto getOctaves = [&](const ComputeProfile &entry) {
      double busy =
          entry.cores > 0
              ? std::min<double>(ranks, double(entry.cores) / entry.threads)
              : double(ranks);
      return std::abs(std::log2(busy) - std::log2(double(entry.ranks)));
    };
    return getOctaves(a) < getOctaves(b);
  };
  const ComputeProfile *best = &entries.front();
  for (const ComputeProfile &entry : entries.drop_front())
    if (isBetter(entry, *best))
      best = &entry;
  return *best;
}

/// Only ranks that are threads are known to share a machine.
static int64_t getNeighbours(const MachineProfile &profile, int64_t numRanks) {
  return profile.backend == "local" ? numRanks : 1;
}

CostModel::CostModel(MachineProfile machine, int64_t numRanks,
                     std::shared_ptr<const MeasuredCosts> measured)
    : profile(std::move(machine)), measured(std::move(measured)),
      compute(chooseProfile(profile.computes, getNeighbours(profile, numRanks)),
              /*isGpu=*/profile.gpu.has_value()) {
  const ComputeProfile &chosen = compute.getProfile();
  int64_t ranks = getNeighbours(profile, numRanks);
  // If more were measured than there are cores for, they shared them then.
  slowdown = std::max(1.0, getShare(chosen, ranks)) /
             std::max(1.0, getShare(chosen, std::min(ranks, chosen.ranks)));
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

double CostModel::getGemmSeconds(int64_t m, int64_t n, int64_t k, bool transA,
                                 bool transB, Type factors) const {
  return slowdown * compute.getGemmSeconds({.kind = Work::Product,
                                            .m = m,
                                            .n = n,
                                            .k = k,
                                            .transA = transA,
                                            .transB = transB},
                                           factors);
}

double CostModel::getComputeSeconds(exec::CommandOpInterface command) const {
  if (std::optional<double> seconds = getMeasured(command))
    return *seconds;
  return slowdown * compute.getSeconds(command, getTraffic(command));
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
  }
  llvm_unreachable("unknown collective");
}

double CostModel::getNearSeconds(CollectiveKind kind, int64_t ranks,
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

double CostModel::getCollectiveSeconds(CollectiveKind kind, RankGroup group,
                                       double bytes) const {
  if (group.ranks <= 1)
    return 0;
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
      latency +=
          getStepsAndPart(kind, llvm::divideCeil(here, joined)).first *
          tier.alpha;
      beta = std::max(beta, tier.beta / joined);
    }
    joined = here;
    if (isLast)
      break;
  }
  return latency + part * bytes * beta;
}

RankGroup mlir::optimus::getRankGroup(MeshOp mesh, StringRef axis) {
  RankGroup group;
  if (!mesh)
    return group;
  // The last axis is the one along which ranks are numbered.
  bool isFound = false;
  for (MeshAxisAttr one : mesh.getAxisList())
    if (one.getName() == axis) {
      group.ranks = one.getSize();
      isFound = true;
    } else if (isFound) {
      group.stride *= one.getSize();
    }
  return group;
}

double CostModel::getSeconds(exec::CollectiveStartOp start) const {
  if (std::optional<double> seconds = getMeasured(start))
    return *seconds;
  RankGroup group = getRankGroup(getMesh(start), start.getAxis());
  double bytes = 1.0 * getElementBytes(start.getSrc().getType()) *
                 start.getOuter() * start.getInner();
  // The ABI's inner extent is one rank's block of these.
  if (start.getKind() == CollectiveKind::AllGather ||
      start.getKind() == CollectiveKind::ReduceScatter)
    bytes *= group.ranks;
  return getCollectiveSeconds(start.getKind(), group, bytes);
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
  llvm::MapVector<StringRef, double> parts;
  OperandReuse reuse;
  function.walk([&](exec::CommandOpInterface command) {
    SmallVector<OperandTraffic> traffic = reuse.advance(command);
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
      double seconds = getMeasured(command).value_or(
          slowdown * compute.getSeconds(command, traffic));
      parts[command->getName().stripDialect()] += seconds;
      result.computeSeconds += seconds;
      now += seconds;
    }
  });
  llvm::stable_sort(result.exposed, [](const auto &a, const auto &b) {
    return a.seconds > b.seconds;
  });
  result.parts = parts.takeVector();
  llvm::stable_sort(result.parts, [](const auto &a, const auto &b) {
    return a.second > b.second;
  });
  return result;
}
