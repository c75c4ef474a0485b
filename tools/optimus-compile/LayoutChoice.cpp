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
//===----------------------------------------------------------------------===//

#include "LayoutChoice.h"

#include "Budget.h"
#include "CandidateTable.h"
#include "LayerPrices.h"
#include "LayoutBounds.h"
#include "Progress.h"
#include "Report.h"

#include "optimus/Dialect/CCL/Transforms/RecomputePolicy.h"
#include "optimus/Tool/Tool.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;
using llvm::formatv;

static constexpr StringLiteral kBudget = "budget";

/// Of a deep model, candidates that are compiled whole before the best of them
/// is taken.
static constexpr int kMostWhole = 4;
/// Prices are right up to such a part.
static constexpr double kPriceError = 0.02;
/// Recomputation and memory do not make a step so many times as long.
static constexpr double kHopeless = 2;

namespace {
class LayoutChoice {
public:
  LayoutChoice(ModuleOp module, CompileOptions &options)
      : module(module), options(options), phases(options.phases) {}

  int run();

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
  /// Whether a candidate's layout is known to hold more than the budget before
  /// anything is computed. Then no choice of values helps.
  bool holdsTooMuch(const Candidate &candidate) const;

  bool fits(const Candidate &candidate) const {
    return candidate.isPredicted() &&
           (!options.memoryBudget ||
            candidate.rankBytes <= *options.memoryBudget);
  }
  /// The best in question, where asked for of those compiled whole, or null.
  Candidate *findBest(bool isWhole = false);
  int finish();

  ModuleOp module;
  CompileOptions &options;
  const PhaseOptions &phases;
  std::vector<Candidate> candidates;
  std::optional<LayerPrices> prices;
  std::optional<LayoutBounds> bounds;
  Progress progress;
  /// Whether only values that are chosen one by one are in question.
  bool wantsBudget = false;
};
} // namespace

std::vector<Candidate> LayoutChoice::list(ArrayRef<StringRef> policies) const {
  std::vector<Candidate> inQuestion{{phases.mesh, phases.strategy}};
  if (options.isAuto())
    inQuestion = options.ranks > 0 ? listCandidates(options.ranks)
                                   : listCandidates(phases.mesh);
  return withPolicies(inQuestion, policies);
}

Candidate *LayoutChoice::findBest(bool isWhole) {
  Candidate *best = nullptr;
  for (Candidate &candidate : candidates)
    if (fits(candidate) && !(isWhole && candidate.isEstimated) &&
        (!wantsBudget || candidate.recompute == kBudget) &&
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
                  other.heldBytes > *options.memoryBudget;
         });
}

void LayoutChoice::predictWhole(Candidate &candidate) {
  if (candidate.recompute == kBudget && holdsTooMuch(candidate))
    candidate.problem = "parameters, state and inputs alone are beyond the "
                        "budget";
  else if (candidate.recompute == kBudget)
    predictWithin(module, phases, *options.memoryBudget, candidate);
  else
    predict(module, phases, candidate);
}

std::string LayoutChoice::ruleOut(const Candidate &candidate) const {
  // What is offloaded takes no memory, and time.
  const bool offloads =
      !phases.offload.empty() || !phases.offloadBandwidth.empty();
  const int64_t bytes = bounds->getRankBytes(candidate);
  if (options.memoryBudget && !offloads && bytes > *options.memoryBudget)
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

void LayoutChoice::chooseByLayers(ArrayRef<StringRef> policies,
                                  bool mayRecompute) {
  bounds.emplace(module, phases);
  const bool isBudget = options.recompute == kBudget;
  priceAll(policies);
  if (isBudget || options.recompute == "auto" || (mayRecompute && !findBest()))
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
    compileLeast(mayRecompute || isBudget || options.recompute == "auto");
}

int LayoutChoice::finish() {
  std::optional<Candidate> chosen;
  if (const Candidate *best = findBest(/*isWhole=*/true))
    chosen = *best;
  printCandidates(candidates, chosen, options.memoryBudget,
                  options.getReportStream());
  // Even where another layout is possible: this one might be the better one.
  for (const Candidate &candidate : candidates)
    if (candidate.isFault)
      return fail("--mesh " + candidate.mesh.toString() + " --strategy " +
                      candidate.strategy + " --recompute " +
                      candidate.recompute + ": " + candidate.problem,
                  kOurFault);
  if (!chosen && llvm::none_of(candidates, [](const Candidate &candidate) {
        return candidate.isPredicted();
      }))
    return fail("no layout is possible" +
                (candidates.empty() ? "" : ": " + candidates.front().problem));
  if (!chosen)
    return fail(
        explainBudget(module, options, candidates, [&](Candidate &candidate) {
          if (prices)
            price(candidate);
          else
            predict(module, phases, candidate);
        }));
  // The report compares with it, where recomputation is all that differs.
  for (const Candidate &candidate : candidates)
    if (chosen->offload.empty() && candidate.isPredicted() &&
        candidate.recompute == "none" && candidate.hasLayoutOf(*chosen))
      options.withoutRecompute = candidate.getNeeds();
  options.phases = chosen->getPhases(options.phases);
  return kDone;
}

int LayoutChoice::run() {
  // What no GPU holds is no layout; what a machine's processors share, only its
  // user knows.
  if (std::optional<GpuProfile> gpu = options.getGpu();
      gpu && !options.memoryBudget)
    options.memoryBudget = gpu->getUsableBytes();
  StringRef given = options.recompute;
  SmallVector<StringRef> policies(ccl::getRecomputePolicies());
  if (given != "auto")
    policies.push_back(kBudget);
  ArrayRef<StringRef> all = policies;
  // It is slower, so where nobody asks for it, it is a way out.
  bool isWayOut = given.empty() && options.memoryBudget;
  if (options.isAuto())
    prices = LayerPrices::of(module, options);
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

int mlir::optimus::chooseLayout(ModuleOp module, CompileOptions &options) {
  return LayoutChoice(module, options).run();
}
