//===- LayerPrices.cpp - Predictions from one layer of a kind ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayerPrices.h"

#include "optimus/Dialect/Exec/Transforms/ExtraWorkspace.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Planning/RankMemory.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::optimus;

/// Layers of a kind in the first model and in that with more. The first and the
/// last layer have neighbours of another kind.
static constexpr size_t kFew = 3, kMore = 6;
/// Beyond so many layers of a kind not all of them are compiled.
static constexpr size_t kLeast = 8;

std::optional<LayerPrices> LayerPrices::of(ModuleOp module,
                                           const LayoutQuestion &question) {
  const PhaseOptions &phases = question.phases;
  if (question.recompute.find(':') != std::string::npos ||
      !phases.offload.empty() || !phases.profile.empty())
    return std::nullopt;
  auto loss = module.lookupSymbol<func::FuncOp>("loss");
  // What others share with it would have to become as short. Entries are not
  // part of a step of training.
  auto isOther = [&](func::FuncOp function) {
    return function != loss && !getEntry(function);
  };
  if (!loss || llvm::any_of(module.getOps<func::FuncOp>(), isOther) ||
      !loss.getBody().hasOneBlock())
    return std::nullopt;
  SmallVector<RepeatedBlocks> kinds = findRepeatedBlocks(loss, kLeast);
  if (kinds.empty())
    return std::nullopt;
  LayerPrices prices;
  for (size_t longer = 0; longer <= kinds.size(); ++longer) {
    SmallVector<size_t> kept(kinds.size(), kFew);
    if (longer > 0)
      kept[longer - 1] = kMore;
    OwningOpRef<ModuleOp> model = module.clone();
    keepTrainStep(*model);
    keepBlocks(model->lookupSymbol<func::FuncOp>("loss"), kinds, kept);
    prices.models.push_back(std::move(model));
  }
  for (const RepeatedBlocks &kind : kinds)
    prices.missing.push_back(double(kind.count - kFew) / (kMore - kFew));
  return prices;
}

namespace {
/// The most bytes alive, at once and while commands of a location run.
struct AliveBytes {
  int64_t most = 0;
  llvm::DenseMap<Location, int64_t> at;

  explicit AliveBytes(func::FuncOp step) {
    SmallVector<int64_t> alive =
        exec::computeAliveBytes(step, [](Value buffer) {
          return buffer.getDefiningOp<exec::AllocOp>() &&
                 exec::getMemorySpace(buffer) == exec::MemorySpace::Device;
        });
    size_t position = 0;
    step.walk([&](exec::CommandOpInterface command) {
      int64_t &here = at[command->getLoc()];
      here = std::max(here, alive[position]);
      most = std::max(most, alive[position++]);
    });
  }
};
} // namespace

double LayerPrices::addUp(llvm::function_ref<double(size_t)> get) const {
  double sum = get(0);
  for (auto [kind, count] : llvm::enumerate(missing))
    sum += count * (get(kind + 1) - get(0));
  return sum;
}

/// With few layers most may be alive elsewhere than with many: whatever has
/// grown most decides then.
static double addUpAlive(const LayerPrices &prices,
                         ArrayRef<AliveBytes> alive) {
  double most =
      prices.addUp([&](size_t model) { return double(alive[model].most); });
  for (auto [location, bytes] : alive.front().at)
    if (llvm::all_of(alive, [&](const AliveBytes &model) {
          return model.at.contains(location);
        }))
      most = std::max(most, prices.addUp([&](size_t model) {
        return double(alive[model].at.lookup(location));
      }));
  return most;
}

void LayerPrices::predict(const PhaseOptions &options,
                          Candidate &candidate) const {
  PhaseOptions phases = candidate.getPhases(options);
  std::vector<OwningOpRef<ModuleOp>> lowered;
  // Without overlap; and a rank's bytes beside the arena.
  std::vector<AliveBytes> alive;
  std::vector<int64_t> beside;
  for (const OwningOpRef<ModuleOp> &model : models) {
    OwningOpRef<ModuleOp> copy = (*model).clone();
    if (failed(lowerTrainStep(*copy, phases, candidate)))
      return;
    auto step = findEntry(*copy, EntryKind::Train);
    alive.emplace_back(step);
    beside.push_back(getRankMemory(step, options.isForGpu()).getTotal() -
                     exec::computePeakBytes(step));
    lowered.push_back(std::move(copy));
  }
  const double aliveOfAll = addUpAlive(*this, alive);
  // Overlap may take a share of the whole model's memory.
  if (auto workspace = exec::ExtraWorkspace::parse(phases.extraWorkspace))
    phases.extraWorkspace =
        std::to_string(workspace->getBytes(int64_t(aliveOfAll)));
  else // As the phase will say.
    llvm::consumeError(workspace.takeError());
  std::vector<Candidate> predicted(models.size(), candidate);
  for (auto [model, copy] : llvm::enumerate(lowered)) {
    if (failed(runPhases(*copy, phases, "exec", "schedule", candidate)))
      return;
    readPrediction(*copy, options, predicted[model]);
  }
  auto addAll = [&](auto Candidate::*member) {
    return addUp(
        [&](size_t model) { return double(predicted[model].*member); });
  };
  candidate.stepMs = addAll(&Candidate::stepMs);
  candidate.exposedMs = addAll(&Candidate::exposedMs);
  candidate.commBytes = std::llround(addAll(&Candidate::commBytes));
  candidate.heldBytes = std::llround(addAll(&Candidate::heldBytes));
  // Overlap takes what it finds, whether there are many layers or few.
  int64_t overlap = 0;
  for (auto [own, before] : llvm::zip_equal(predicted, alive))
    overlap = std::max(overlap, own.peakBytes - before.most);
  candidate.peakBytes = std::llround(aliveOfAll) + overlap;
  candidate.rankBytes =
      candidate.peakBytes +
      std::llround(addUp([&](size_t model) { return double(beside[model]); }));
  candidate.isEstimated = true;
}
