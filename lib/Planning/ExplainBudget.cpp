//===- ExplainBudget.cpp - Why nothing fits a memory budget -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BudgetSearch.h"

#include "Progress.h"

#include "optimus/Dialect/CCL/Transforms/RecomputePolicy.h"
#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Planning/Peak.h"
#include "optimus/Planning/Quantities.h"
#include "optimus/Planning/RankMemory.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;
using exec::ExecDialect;
using llvm::formatv;

static constexpr size_t kMostListed = 8;
/// Of other layouts, only a few are compiled where each has many commands.
static constexpr size_t kMostWayCommands = 60'000;

static std::string describe(const Candidate &candidate) {
  return formatv(
      "--mesh {0} --strategy {1} --recompute {2}{3}{4}",
      candidate.mesh.toString(), candidate.strategy, candidate.recompute,
      candidate.offload.empty() ? "" : " --offload " + candidate.offload,
      candidate.extraWorkspace.empty() ? "" : ", no workspace for overlap");
}

static void printParts(func::FuncOp step, bool isForGpu,
                       llvm::raw_ostream &out) {
  RankMemory memory = getRankMemory(step, isForGpu);
  out << formatv("  it holds {0} of parameters, {1} of the optimizer's state, "
                 "{2} of gradients, {3} of inputs, an arena of {4} and {5} of "
                 "{6}\n",
                 formatBytes(memory.parameters), formatBytes(memory.state),
                 formatBytes(memory.gradients), formatBytes(memory.inputs),
                 formatBytes(memory.arena), formatBytes(memory.scratch),
                 isForGpu ? "workspace" : "scratch");
}

static void printPeak(func::FuncOp step, llvm::raw_ostream &out) {
  Peak peak = findPeak(step);
  if (!peak.command)
    return;
  out << "  most of the arena is alive at "
      << describeLocation(peak.command->getLoc()) << ":";
  SmallVector<std::string> categories;
  if (auto bytes = step->getAttrOfType<DictionaryAttr>(ExecDialect::kPeakBytes))
    for (NamedAttribute category : bytes)
      if (int64_t size = cast<IntegerAttr>(category.getValue()).getInt())
        categories.push_back(formatv("{0} of {1}", formatBytes(size),
                                     category.getName().getValue()));
  out << " " << llvm::join(categories, ", ") << "; the largest are\n";
  for (exec::ArenaSlotOp slot : ArrayRef(peak.slots).take_front(kMostListed))
    out << formatv("  {0,12} {1,-10} {2}\n",
                   formatBytes(exec::getPlacedBytes(slot)), slot.getCategory(),
                   describeSlot(slot));
}

/// Layouts of as many ranks and of twice as many, which recompute most.
static std::vector<Candidate> listWaysOut(const Candidate &least) {
  int64_t ranks = least.mesh.getNumRanks();
  std::vector<Candidate> ways;
  for (int64_t count : {ranks, 2 * ranks})
    for (Candidate &way : withPolicies(listCandidates(count), {"layer"}))
      if (way.mesh.axes != least.mesh.axes || way.strategy != least.strategy)
        ways.push_back(std::move(way));
  return ways;
}

/// Predicts no more than `most` layouts.
static void printWaysOut(llvm::function_ref<void(Candidate &)> predictOther,
                         Progress progress, int64_t budget,
                         const Candidate &least, size_t most,
                         llvm::raw_ostream &out) {
  std::vector<Candidate> ways = listWaysOut(least);
  // Of many meshes the first ones are as unlike as any.
  if (ways.size() > most)
    ways.resize(most);
  for (auto [number, way] : llvm::enumerate(ways)) {
    progress.say([&] {
      return formatv("--memory-budget: compiles other layout {0} of {1}",
                     number + 1, ways.size())
          .str();
    });
    predictOther(way);
  }
  llvm::erase_if(ways,
                 [](const Candidate &way) { return !way.problem.empty(); });
  llvm::stable_sort(ways, [](const Candidate &a, const Candidate &b) {
    return a.rankBytes < b.rankBytes;
  });
  constexpr size_t kMostWays = 4;
  for (const Candidate &way : ArrayRef(ways).take_front(kMostWays))
    out << formatv("  {0}: {1} a rank{2}, {3} a step\n", describe(way),
                   formatBytes(way.rankBytes),
                   way.rankBytes <= budget ? ", which fits" : "",
                   formatMs(way.stepMs));
}

std::string mlir::optimus::explainBudget(
    ModuleOp module, const LayoutQuestion &question,
    ArrayRef<Candidate> candidates, const ProgressFn &progress,
    llvm::function_ref<void(Candidate &)> predictOther) {
  const PhaseOptions &phases = question.phases;
  const Candidate *least = nullptr;
  for (const Candidate &candidate : candidates)
    if (candidate.isPredicted() &&
        (!least || candidate.rankBytes < least->rankBytes))
      least = &candidate;
  int64_t budget = *question.memoryBudget;
  std::string text;
  llvm::raw_string_ostream out(text);
  std::string allowed = formatBytes(budget);
  // To the byte: as a budget, what is rounded may be too little.
  std::string needed = formatv("{0} bytes", least->rankBytes);
  // So close that only the last digits differ.
  if (formatBytes(least->rankBytes) == allowed)
    allowed = formatv("{0} bytes", budget);
  else
    needed = formatv("{0} ({1})", formatBytes(least->rankBytes), needed);
  const bool isBelowHeld = least->heldBytes > budget;
  out << formatv("no layout fits the memory budget of {0}{1}; the least that "
                 "was found is {2} a rank, with {3}\n",
                 allowed,
                 isBelowHeld ? ": parameters, the optimizer's state and inputs "
                               "alone take " +
                                   formatBytes(least->heldBytes)
                             : std::string(),
                 needed, describe(*least));
  Candidate again = *least;
  OwningOpRef<ModuleOp> placed = predict(module, phases, again);
  size_t commands = 1;
  if (auto step =
          placed ? findEntry(*placed, EntryKind::Train) : func::FuncOp()) {
    printParts(step, phases.isForGpu(), out);
    // No value that is computed makes the difference.
    if (!isBelowHeld)
      printPeak(step, out);
    commands += exec::getCommands(step).size();
  }
  const bool offloads =
      !phases.offload.empty() || !phases.offloadBandwidth.empty();
  out << formatv("give more memory{0}{1} or another layout, of which these "
                 "were compiled:\n",
                 isBelowHeld ? "" : ", a smaller batch",
                 offloads ? ""
                          : ", --offload-bandwidth to keep values elsewhere "
                            "between uses");
  printWaysOut(predictOther, Progress(progress), budget, *least,
               std::clamp<size_t>(kMostWayCommands / commands, 4, 12), out);
  return StringRef(text).rtrim().str();
}
