//===- LayoutChoice.cpp - Chooses a layout by prediction --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A small model is compiled for every candidate. Of a deep one a few layers
// are: closed forms rule out what cannot win, the others get a price each, and
// the best by price are compiled whole until the best is one of those.
//
// None of that knows a cluster. There, the fastest layouts are compiled whole
// and simulated on each placement of their meshes, which decides.
//
//===----------------------------------------------------------------------===//

#include "optimus/Planning/LayoutChoice.h"

#include "BudgetSearch.h"
#include "Finalists.h"
#include "LayerPrices.h"
#include "LayoutBounds.h"
#include "Progress.h"

#include "optimus/Dialect/CCL/Transforms/RecomputePolicy.h"
#include "optimus/Planning/Quantities.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;
using llvm::formatv;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;

static constexpr StringLiteral kBudget = "budget";

/// Of a deep model, candidates that are compiled whole before the best of them
/// is taken.
static constexpr int kMostWhole = 4;
/// Layouts that are simulated on a cluster, of a deep model and of others.
static constexpr size_t kMostDeepFinalists = 4, kMostFinalists = 16;
/// Prices are right up to such a part.
static constexpr double kPriceError = 0.02;
/// Recomputation, memory and the links of a cluster do not make a step so many
/// times as long.
static constexpr double kHopeless = 2;

namespace {
class LayoutChoice {
public:
  LayoutChoice(ModuleOp module, const LayoutQuestion &question,
               const ProgressFn &progress)
      : module(module), question(question), phases(this->question.phases),
        listener(progress), progress(progress) {}

  LayoutAnswer run();

private:
  /// The layouts in question, each with these policies.
  std::vector<Candidate> list(ArrayRef<StringRef> policies) const;
  /// Compiles all, as far as they go.
  void predictAll(std::vector<Candidate> more);
  void chooseByLayers(ArrayRef<StringRef> policies, bool mayRecompute);
  void priceAll(ArrayRef<StringRef> policies);
  /// Why a candidate need not be priced, or "".
  std::string ruleOut(const Candidate &candidate) const;
  void price(Candidate &candidate);
  /// Weighs recomputation on layouts beyond the budget, as long as they may be
  /// faster than those within it.
  void priceRecomputing();
  /// Adds what fits best of one layout, value by value.
  void addBudget();
  /// Compiles what is best by price, or near it, until the best is known whole.
  void compileBest();
  Candidate *findNextToCompile();
  /// Where nothing fits: compiles the layout with the least bytes whole. One
  /// that was ruled out gets all policies, if they are in question.
  void compileLeast(bool mayRecompute);
  void predictWhole(Candidate &candidate);
  /// Where nothing fits: chooses values one by one for the layout with the
  /// least bytes, where its search was skipped as hopeless.
  void chooseLeast();
  /// Whether a candidate's layout is known to hold more than the budget before
  /// anything is computed. Then no choice of values helps.
  bool holdsTooMuch(const Candidate &candidate) const;

  bool fits(const Candidate &candidate) const {
    return candidate.isPredicted() &&
           (!question.memoryBudget ||
            candidate.rankBytes <= *question.memoryBudget);
  }
  /// The best in question, where asked for of those compiled whole, or null.
  Candidate *findBest(bool isWhole = false);
  /// Whether a candidate may be chosen.
  bool isEligible(const Candidate &candidate) const {
    return fits(candidate) && (!wantsBudget || candidate.recompute == kBudget);
  }
  /// The fastest of each mesh and strategy on the cluster, compiled whole. One
  /// may turn out to be none.
  Status simulateFinalists();
  Status explainFailure();
  /// Lets functions of generation have layouts of their own where they are
  /// faster so, and the step is not slower.
  void chooseEntries(LayoutAnswer &answer);
  LayoutAnswer finish();

  ModuleOp module;
  LayoutQuestion question;
  const PhaseOptions &phases;
  std::vector<Candidate> candidates;
  std::vector<Finalist> finalists;
  std::optional<LayerPrices> prices;
  std::optional<LayoutBounds> bounds;
  const ProgressFn &listener;
  Progress progress;
  /// Whether only values that are chosen one by one are in question.
  bool wantsBudget = false;
};
} // namespace

std::vector<Candidate> LayoutChoice::list(ArrayRef<StringRef> policies) const {
  std::vector<Candidate> inQuestion{{phases.mesh, phases.describeStrategies()}};
  if (question.isAuto())
    inQuestion = question.ranks > 0 ? listCandidates(question.ranks)
                                    : listCandidates(phases.mesh);
  // Of a library that trains, too, its step decides before its entries do.
  if (question.isAuto() && findEntry(module, EntryKind::Decode) &&
      !trains(module))
    inQuestion = withDecodes(inQuestion);
  return withPolicies(inQuestion, policies);
}

Candidate *LayoutChoice::findBest(bool isWhole) {
  Candidate *best = nullptr;
  for (Candidate &candidate : candidates)
    if (isEligible(candidate) && !(isWhole && candidate.isEstimated) &&
        (!best || candidate.stepMs < best->stepMs))
      best = &candidate;
  return best;
}

void LayoutChoice::predictAll(std::vector<Candidate> more) {
  for (auto [number, candidate] : llvm::enumerate(more)) {
    progress.say([&] {
      return formatv("compiles layout {0} of {1}", number + 1, more.size())
          .str();
    });
    predictWhole(candidate);
    candidates.push_back(candidate);
  }
}

bool LayoutChoice::holdsTooMuch(const Candidate &candidate) const {
  return phases.offloadBandwidth.empty() &&
         llvm::any_of(candidates, [&](const Candidate &other) {
           return other.isPredicted() && other.hasLayoutOf(candidate) &&
                  other.heldBytes > *question.memoryBudget;
         });
}

void LayoutChoice::predictWhole(Candidate &candidate) {
  if (candidate.recompute == kBudget && holdsTooMuch(candidate))
    candidate.problem = "parameters, state and inputs alone are beyond the "
                        "budget";
  else if (candidate.recompute == kBudget)
    predictWithin(module, question, candidates, listener, candidate);
  else
    predict(module, phases, candidate);
}

std::string LayoutChoice::ruleOut(const Candidate &candidate) const {
  // What is offloaded takes no memory, and time.
  const bool offloads =
      !phases.offload.empty() || !phases.offloadBandwidth.empty();
  const int64_t bytes = bounds->getRankBytes(candidate);
  if (question.memoryBudget && !offloads && bytes > *question.memoryBudget)
    return formatv("at least {0} of parameters and state: over the budget",
                   formatBytes(bytes))
        .str();
  double most = std::numeric_limits<double>::infinity();
  for (const Candidate &other : candidates)
    if (other.isPredicted())
      most = std::min(most, (fits(other) ? 1 : kHopeless) * other.stepMs);
  const double stepMs = bounds->getStepMs(candidate);
  if (stepMs > most)
    return formatv("at least {0} for communication: slower", formatMs(stepMs))
        .str();
  return "";
}

void LayoutChoice::price(Candidate &candidate) {
  prices->predict(phases, candidate);
  if (candidate.problem.empty())
    return;
  // Whether the whole model has it, too.
  candidate.problem.clear();
  candidate.isFault = false;
  predict(module, phases, candidate);
}

void LayoutChoice::priceAll(ArrayRef<StringRef> policies) {
  std::vector<Candidate> all = list(policies);
  // What is likely to be fast rules out more.
  llvm::stable_sort(all, [&](const Candidate &a, const Candidate &b) {
    return bounds->getStepMs(a) < bounds->getStepMs(b);
  });
  for (auto [number, candidate] : llvm::enumerate(all)) {
    progress.say([&] {
      const Candidate *best = findBest();
      std::string leader = "nothing fits yet";
      if (best)
        leader = formatv("--mesh {0} --strategy {1} leads with {2}",
                         best->mesh.toString(), best->strategy,
                         formatMs(best->stepMs));
      return formatv("--strategy auto: layout {0} of {1}; {2}", number + 1,
                     all.size(), leader)
          .str();
    });
    candidate.ruledOut = ruleOut(candidate);
    if (candidate.ruledOut.empty())
      price(candidate);
    candidates.push_back(candidate);
  }
}

void LayoutChoice::priceRecomputing() {
  std::vector<Candidate> layouts;
  for (const Candidate &candidate : candidates)
    if (candidate.isPredicted() && candidate.recompute == "none" &&
        !fits(candidate))
      layouts.push_back(candidate);
  llvm::stable_sort(layouts, [](const Candidate &a, const Candidate &b) {
    return a.stepMs < b.stepMs;
  });
  double least = std::numeric_limits<double>::infinity();
  if (const Candidate *best = findBest())
    least = best->stepMs;
  for (auto [number, layout] : llvm::enumerate(layouts)) {
    if (layout.stepMs >= least)
      break;
    // The next policy keeps less and takes longer.
    for (StringRef policy : ccl::getRecomputePolicies().drop_front()) {
      progress.say([&] {
        return formatv("--strategy auto: recomputation on layout {0} of {1}",
                       number + 1, layouts.size())
            .str();
      });
      Candidate candidate{layout.mesh, layout.strategy, policy.str()};
      // It may be known from before.
      auto known = llvm::find_if(candidates, [&](auto &other) {
        return other.hasLayoutOf(candidate) && other.recompute == policy;
      });
      if (known != candidates.end()) {
        candidate = *known;
      } else {
        price(candidate);
        candidates.push_back(candidate);
      }
      if (!fits(candidate))
        continue;
      least = std::min(least, candidate.stepMs);
      break;
    }
  }
}

void LayoutChoice::addBudget() {
  Candidate *best = nullptr;
  for (Candidate &candidate : candidates)
    if (candidate.isPredicted() &&
        (!best || std::pair(!fits(candidate), candidate.stepMs) <
                      std::pair(!fits(*best), best->stepMs)))
      best = &candidate;
  if (!best)
    return;
  Candidate candidate{best->mesh, best->strategy, kBudget.str()};
  predictWhole(candidate);
  candidates.push_back(candidate);
}

Candidate *LayoutChoice::findNextToCompile() {
  Candidate *best = findBest();
  if (!best || best->isEstimated)
    return best;
  for (Candidate &candidate : candidates)
    if (fits(candidate) && candidate.isEstimated &&
        candidate.stepMs <= (1 + kPriceError) * best->stepMs)
      return &candidate;
  return nullptr;
}

void LayoutChoice::compileBest() {
  for (int whole = 0; Candidate *next = findNextToCompile(); ++whole) {
    if (whole >= kMostWhole && findBest(/*isWhole=*/true))
      return;
    progress.say([&] {
      return formatv("--strategy auto: compiles --mesh {0} --strategy {1} "
                     "whole, for about {2}",
                     next->mesh.toString(), next->strategy,
                     formatMs(next->stepMs))
          .str();
    });
    predictWhole(*next);
  }
}

void LayoutChoice::compileLeast(bool mayRecompute) {
  auto getNeed = [&](const Candidate &candidate) {
    return std::pair(!candidate.isPredicted(),
                     candidate.isPredicted() ? candidate.rankBytes
                                             : bounds->getRankBytes(candidate));
  };
  Candidate *least = nullptr;
  for (Candidate &candidate : candidates)
    if (candidate.problem.empty() &&
        (!least || getNeed(candidate) < getNeed(*least)))
      least = &candidate;
  if (!least || (least->isPredicted() && !least->isEstimated))
    return;
  const bool wasRuledOut = !least->ruledOut.empty();
  least->ruledOut.clear();
  predictWhole(*least);
  if (!wasRuledOut || !mayRecompute)
    return;
  std::vector<Candidate> layout = {{least->mesh, least->strategy}};
  predictAll(withPolicies(layout, ccl::getRecomputePolicies().drop_front()));
}

void LayoutChoice::chooseLeast() {
  const Candidate *least = nullptr;
  for (const Candidate &candidate : candidates)
    if (candidate.isPredicted() &&
        (!least || candidate.rankBytes < least->rankBytes))
      least = &candidate;
  auto isChosen = [&](const Candidate &candidate) {
    return candidate.recompute == kBudget && candidate.hasLayoutOf(*least);
  };
  auto known = least ? llvm::find_if(candidates, isChosen) : candidates.end();
  if (known != candidates.end() && !known->isPredicted() &&
      holdsTooMuch(*known)) {
    known->problem.clear();
    predictWithin(module, question, candidates, listener, *known);
  }
}

void LayoutChoice::chooseByLayers(ArrayRef<StringRef> policies,
                                  bool mayRecompute) {
  bounds.emplace(module, question);
  const bool isBudget = question.recompute == kBudget;
  priceAll(policies);
  if (isBudget || question.recompute == "auto" || (mayRecompute && !findBest()))
    priceRecomputing();
  compileBest();
  // By price something did, but it does not.
  if (mayRecompute && !findBest()) {
    priceRecomputing();
    compileBest();
  }
  if (isBudget)
    addBudget();
  wantsBudget = isBudget;
  if (!findBest())
    compileLeast(mayRecompute || isBudget || question.recompute == "auto");
}

/// Why the choice is of no use: a fault counts even where another layout is
/// possible, as that one might be better.
static Status findFault(ArrayRef<Candidate> candidates) {
  for (const Candidate &candidate : candidates)
    if (candidate.isFault)
      return optimus_support::internal("--mesh " + candidate.mesh.toString() +
                                       " --strategy " + candidate.strategy +
                                       " --recompute " + candidate.recompute +
                                       ": " + candidate.problem);
  return okStatus();
}

Status LayoutChoice::explainFailure() {
  OPTRT_RETURN_IF_ERROR(findFault(candidates));
  if (findBest(/*isWhole=*/true))
    return okStatus();
  if (llvm::none_of(candidates, [](const Candidate &candidate) {
        return candidate.isPredicted();
      }))
    return invalidArgument(
        "no layout is possible" +
        (candidates.empty() ? "" : ": " + candidates.front().problem));
  // A deep model's would take longer than its choice may.
  if (!prices)
    chooseLeast();
  return invalidArgument(explainBudget(module, question, candidates, listener,
                                       [&](Candidate &candidate) {
                                         if (prices)
                                           price(candidate);
                                         else
                                           predict(module, phases, candidate);
                                       }));
}

void LayoutChoice::chooseEntries(LayoutAnswer &answer) {
  Candidate &chosen = *answer.chosen;
  StringRef program = StringRef(chosen.strategy).split(',').first;
  if (!question.isAuto() || !chosen.mayStay() ||
      !findEntry(module, EntryKind::Decode))
    return;
  Candidate moving = chosen, staying = chosen;
  staying.strategy = program.str();
  for (EntryKind kind : kGenerationKinds)
    staying.strategy += formatv(",{0}=stationary", stringifyEntryKind(kind));
  progress.say([&] {
    return std::string("--strategy auto: compiles functions of generation");
  });
  const std::vector<EntryNeeds> before = predictEntries(module, phases, moving);
  const std::vector<EntryNeeds> after = predictEntries(module, phases, staying);
  // Where one layout is impossible there is nothing to weigh.
  if (before.size() != after.size())
    return;
  Candidate mixed = chosen;
  mixed.strategy = program.str();
  for (auto [own, other] : llvm::zip_equal(before, after)) {
    const std::string name = stringifyEntryKind(own.entry).str();
    const std::string choice = "," + name + "=stationary";
    // Where the program has it so already, both are the same.
    const bool isKept = StringRef(chosen.strategy).contains(choice);
    if (isKept || other.ms < own.ms)
      mixed.strategy += choice;
    if (!isKept)
      answer.entries.push_back({own, program.str()});
    answer.entries.push_back({other, "stationary"});
  }
  if (mixed.strategy != chosen.strategy) {
    predictWhole(mixed);
    if (fits(mixed) && mixed.stepMs <= (1 + kPriceError) * chosen.stepMs) {
      candidates.push_back(mixed);
      chosen = mixed;
    }
  }
  for (EntryLayout &entry : answer.entries)
    entry.isChosen = (entry.strategy == "stationary") ==
                     StringRef(chosen.strategy)
                         .contains(stringifyEntryKind(entry.needs.entry));
}

Status LayoutChoice::simulateFinalists() {
  SmallVector<Candidate *> order;
  for (Candidate &candidate : candidates)
    if (isEligible(candidate))
      order.push_back(&candidate);
  llvm::stable_sort(order, [](const Candidate *a, const Candidate *b) {
    return a->stepMs < b->stepMs;
  });
  const size_t most =
      std::min(order.size(), prices ? kMostDeepFinalists : kMostFinalists);
  SmallVector<const Candidate *> taken;
  for (Candidate *candidate : order) {
    if (taken.size() == most ||
        candidate->stepMs > kHopeless * order.front()->stepMs)
      break;
    if (llvm::any_of(taken, [&](const Candidate *other) {
          return other->hasLayoutOf(*candidate);
        }))
      continue;
    progress.say([&] {
      return formatv("--cluster: simulates --mesh {0} --strategy {1}, finalist "
                     "{2} of at most {3}",
                     candidate->mesh.toString(), candidate->strategy,
                     taken.size() + 1, most)
          .str();
    });
    OwningOpRef<ModuleOp> compiled = predict(module, phases, *candidate);
    if (!compiled || !fits(*candidate))
      continue;
    taken.push_back(candidate);
    if (failed(addFinalists(*compiled, *candidate, question, finalists)))
      return optimus_support::internal("a layout has no tables to simulate");
  }
  sortFinalists(finalists);
  if (!finalists.empty() && !finalists.front().problem.empty())
    return invalidArgument("--cluster: no layout can be simulated: " +
                           finalists.front().problem);
  return okStatus();
}

LayoutAnswer LayoutChoice::finish() {
  LayoutAnswer answer;
  answer.memoryBudget = question.memoryBudget;
  answer.failure = explainFailure();
  if (question.cluster && answer.failure.ok())
    answer.failure = simulateFinalists();
  if (!finalists.empty())
    answer.chosen = finalists.front().layout;
  else if (const Candidate *best = findBest(/*isWhole=*/true))
    answer.chosen = *best;
  if (const auto &best = answer.chosen) {
    for (const Candidate &candidate : candidates)
      if (best->offload.empty() && candidate.isPredicted() &&
          candidate.recompute == "none" && candidate.hasLayoutOf(*best))
        answer.withoutRecompute = candidate.getNeeds();
    if (answer.failure.ok())
      chooseEntries(answer);
  }
  answer.finalists = std::move(finalists);
  answer.candidates = std::move(candidates);
  return answer;
}

LayoutAnswer LayoutChoice::run() {
  // What no GPU holds is no layout; what a machine's processors share, only its
  // user knows.
  if (const std::optional<GpuProfile> &gpu = question.machine.gpu;
      gpu && !question.memoryBudget)
    question.memoryBudget = gpu->getUsableBytes();
  StringRef given = question.recompute;
  SmallVector<StringRef> policies(ccl::getRecomputePolicies());
  if (given != "auto")
    policies.push_back(kBudget);
  ArrayRef<StringRef> all = policies;
  // It is slower, so where nobody asks for it, it is a way out.
  bool isWayOut = given.empty() && question.memoryBudget;
  if (question.isAuto())
    prices = LayerPrices::of(module, question);
  if (prices) {
    bool isOpen = given.empty() || given == "auto" || given == kBudget;
    chooseByLayers(isOpen ? all.take_front() : ArrayRef(given), isWayOut);
    return finish();
  }
  predictAll(list(given == "auto" || given == kBudget ? all
                  : given.empty()                     ? all.take_front()
                                                      : ArrayRef(given)));
  if (!findBest() && isWayOut)
    predictAll(list(all.drop_front()));
  return finish();
}

LayoutAnswer mlir::optimus::chooseLayout(ModuleOp module,
                                         const LayoutQuestion &question,
                                         const ProgressFn &progress) {
  return LayoutChoice(module, question, progress).run();
}
