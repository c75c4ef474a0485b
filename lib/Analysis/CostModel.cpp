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

/// The entry for the work of so many ranks on one machine: they get as many
/// threads as were measured and there are cores for, beside as many others as
/// come nearest.
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

/// Products that were not measured one by one have the rate of those of the
/// run.
static ComputeProfile learnRate(ComputeProfile compute,
                                const MeasuredCosts *measured) {
  double rate = measured ? measured->getProfile().getFlopsPerSecond() : 0;
  if (rate > 0 && compute.points.empty())
    compute.flopsPerSecond = rate;
  return compute;
}

CostModel::CostModel(MachineProfile profile, int64_t numRanks,
                     std::shared_ptr<const MeasuredCosts> known)
    : measured(std::move(known)), communication(profile),
      compute(learnRate(chooseProfile(profile.computes,
                                      getNeighbours(profile, numRanks)),
                        measured.get()),
              /*isGpu=*/profile.gpu.has_value()) {
  const ComputeProfile &chosen = compute.getProfile();
  int64_t ranks = getNeighbours(profile, numRanks);
  // If more were measured than there are cores for, they shared them then.
  slowdown = std::max(1.0, getShare(chosen, ranks)) /
             std::max(1.0, getShare(chosen, std::min(ranks, chosen.ranks)));
  if (measured)
    communication.learn(measured->getProfile());
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

double CostModel::getGemmSeconds(int64_t m, int64_t n, int64_t k, bool transA,
                                 bool transB, Type factors,
                                 double bytes) const {
  return slowdown * compute.getGemmSeconds({.kind = Work::Product,
                                            .m = m,
                                            .n = n,
                                            .k = k,
                                            .transA = transA,
                                            .transB = transB},
                                           factors, bytes);
}

double CostModel::getComputeSeconds(exec::CommandOpInterface command) const {
  if (std::optional<double> seconds = getMeasured(command))
    return *seconds;
  return slowdown * compute.getSeconds(command, getTraffic(command));
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

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
