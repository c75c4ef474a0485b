//===- BudgetSearch.cpp - What to keep within a memory budget ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The offloaded part of arguments is one of a few settings, which do not depend
// on the budget. For each of them a model of the step says what to recompute
// and to offload of values, and so how fast the budget can be met. Compiling
// the most promising shows its real needs; the errors of the model move its
// next target. It ends where no other setting promises more.
//
//===----------------------------------------------------------------------===//

#include "BudgetSearch.h"

#include "BudgetSettings.h"
#include "Progress.h"

#include "optimus/Dialect/Exec/Transforms/ExtraWorkspace.h"
#include "optimus/Planning/Quantities.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <array>
#include <limits>

using namespace mlir;
using namespace mlir::optimus;

/// Plans are also made for smaller budgets: for the next few multiples of such
/// a part of what a rank holds with all kept.
static constexpr int kRungs = 16, kRungsBelow = 3;
/// No more is compiled for a budget, and for each of the smaller ones.
static constexpr int kMostCompiled = 20, kMostCompiledOfRung = 4;
/// Nor more than such a number of commands in all, but a few times at least.
static constexpr int kMostCommands = 60'000, kLeastCompiled = 6;
/// Of one branch.
static constexpr int kRounds = 6;
/// Parts of what overlap may have. A schedule that is near its limit finds room
/// in coarse steps.
static constexpr double kLessOverlap[] = {0.85, 0.7, 0.5, 0};
/// A start is not compiled as it is where the model has it above the budget by
/// more than such a part.
static constexpr int kModelError = 8;
/// How fast a budget can be met where it cannot.
static constexpr double kNever = std::numeric_limits<double>::infinity();

namespace {
/// A setting and a policy, from which the model finds the branch to the budget.
struct Branch {
  size_t setting, start;
  /// The model's target, and the bounds of the next one.
  int64_t target;
  /// How often it may be compiled.
  int rounds;
  int64_t over = 0, under = 0;
  std::optional<ValueChoice> choice = {};
  /// A step with that, by the model.
  double promisedMs = kNever;
};

class BudgetSearch {
public:
  BudgetSearch(const LayoutQuestion &question, ArrayRef<Candidate> compiled,
               const ProgressFn &progress, const Candidate &layout)
      : options(question.phases), compiled(compiled),
        budget(*question.memoryBudget), choices(question, layout),
        progress(progress) {}

  Candidate run(ModuleOp module);

private:
  /// Compiles what promises most until nothing promises more than is known.
  void followAll(int most);
  /// Adds the next setting of a list.
  void extend(SettingList &list);
  /// A step by the model, corrected by its least error from that start.
  double getPromise(const Branch &branch) const {
    return branch.promisedMs + optimism[branch.start];
  }
  /// Adds what leads from a setting to a budget.
  void addBranches(size_t setting, int64_t aim, int rounds);
  /// Adds the starts themselves, those of policies without a choice by value.
  void addStarts(size_t setting);
  /// The branch with the best promise, if it is better than the known results.
  Branch *findMostPromising();
  /// Of what the model finds for the target, the fastest.
  void plan(Branch &branch) const;
  /// Compiles a branch's promise, and moves its target by the error.
  void follow(Branch &branch);
  /// Where no setting promises to fit: what takes the least. The choices are
  /// the same for all budgets.
  void searchLeast();
  /// How many choices are compiled for the least, and with less overlap.
  size_t countTries() const {
    return std::max(2, 8 * mostCompiled / kMostCompiled);
  }
  /// Compiles a choice, if it was not before, for what takes the least.
  void tryAsLeast(const Setting &setting, const ValueChoice &choice);
  /// Of the choices that take the least, some without workspace for overlap.
  void searchLeastAlone();
  /// The bytes that overlap may add to a candidate's peak.
  int64_t getOverlapAllowance(const Candidate &candidate) const;
  /// Where all choices miss the budget, some by less than overlap may add:
  /// these with less overlap.
  void searchLessOverlap();
  bool fits(const Candidate &candidate) const {
    return candidate.problem.empty() && candidate.rankBytes <= budget;
  }
  /// Whether it fits and another one does not, or is slower, or neither fits
  /// and it takes less.
  bool isBetter(const Candidate &candidate, const Candidate &other) const {
    if (fits(candidate))
      return !fits(other) || candidate.stepMs < other.stepMs;
    return candidate.problem.empty() && !fits(other) &&
           candidate.rankBytes < other.rankBytes;
  }
  /// The same step by the name of a policy, where it was compiled before.
  const Candidate *findCompiled(const Setting &setting,
                                const RepeatedValues &repeated) const;
  /// A setting with a choice; nothing where the choice is to keep all.
  std::optional<Candidate> describe(const Setting &setting,
                                    const ValueChoice &choice) const;
  /// By which it is known again.
  static std::string getKey(const Candidate &candidate) {
    return candidate.values + " " + candidate.offload;
  }
  /// Compiles with a choice; nothing where it was tried before.
  std::optional<Candidate> compile(const Setting &setting,
                                   const ValueChoice &choice);
  /// Compiles it as it is.
  void predict(Candidate &candidate);
  /// Keeps what misses the budget by little.
  void noteMiss(const Candidate &candidate);

  const PhaseOptions &options;
  /// By the names of policies, some of them of this layout.
  ArrayRef<Candidate> compiled;
  int64_t budget;
  BudgetSettings choices;
  std::vector<SettingList> lists;
  std::vector<Setting> settings;
  std::vector<Branch> branches;
  /// By start, in milliseconds: the least by which a promise was too short.
  std::array<double, BudgetSettings::kMostStarts> optimism = {};
  llvm::StringMap<Candidate> tried;
  Candidate best;
  /// What was compiled for the least. It is named where nothing fits: since a
  /// larger budget finds it again, that much is enough.
  std::vector<Candidate> leasts;
  /// What misses the budget by less than overlap may add.
  std::vector<Candidate> nearMisses;
  int numCompiled = 0, mostCompiled = 0;
  Progress progress;
};
} // namespace

Candidate BudgetSearch::run(ModuleOp module) {
  if (failed(choices.prepare(module)))
    return choices.getLayout();
  best = choices.getLayout();
  best.rankBytes = std::numeric_limits<int64_t>::max();
  mostCompiled = std::clamp<int>(kMostCommands / (1 + choices.countCommands()),
                                 kLeastCompiled, kMostCompiled);
  lists = choices.list();
  followAll(mostCompiled);
  // What meets a smaller budget is not faster by the model, but may be in fact.
  // The smaller ones are the same for all budgets.
  const int64_t part =
      choices.getFetchWindow() * BudgetSettings::kWindowPart / kRungs;
  int64_t rung = part > 0 ? (budget - 1) / part : 0;
  for (int below = 0; below < kRungsBelow && rung > 0 && fits(best);
       ++below, --rung) {
    branches.clear();
    for (size_t setting = 0; setting < settings.size(); ++setting)
      addBranches(setting, rung * part, /*rounds=*/1);
    followAll(kMostCompiledOfRung * mostCompiled / kMostCompiled);
  }
  if (!fits(best))
    searchLeast();
  if (!fits(best))
    searchLessOverlap();
  if (!fits(best))
    searchLeastAlone();
  if (fits(best) || !best.problem.empty() || leasts.empty())
    return best;
  return *llvm::min_element(leasts, [](const Candidate &a, const Candidate &b) {
    return a.rankBytes < b.rankBytes;
  });
}

void BudgetSearch::extend(SettingList &list) {
  Setting setting = choices.lower(list.offloads[list.next++]);
  const Candidate &alone = setting.alone;
  list.leastMs = alone.stepMs;
  if (settings.empty())
    for (SettingList &other : lists)
      other.leastMs = alone.stepMs;
  if (!alone.problem.empty() || isBetter(alone, best))
    best = alone;
  settings.push_back(std::move(setting));
  addBranches(settings.size() - 1, budget, kRounds);
  addStarts(settings.size() - 1);
}

void BudgetSearch::addBranches(size_t setting, int64_t aim, int rounds) {
  if (fits(settings[setting].alone))
    return;
  for (size_t start = 0; start < settings[setting].starts.size(); ++start) {
    Branch &branch = branches.emplace_back(
        Branch{setting, start, aim + settings[setting].excess, rounds});
    plan(branch);
  }
}

void BudgetSearch::addStarts(size_t setting) {
  const Setting &from = settings[setting];
  if (fits(from.alone))
    return;
  const int64_t aim = budget + from.excess;
  for (auto [number, start] : llvm::enumerate(from.starts)) {
    RecomputeCost cost = getCost(from.model.program, start);
    if (number == 0 || cost.peakBytes > aim + aim / kModelError)
      continue;
    Branch &branch =
        branches.emplace_back(Branch{setting, number, aim, /*rounds=*/1});
    branch.choice = start;
    branch.promisedMs = from.alone.stepMs + 1e3 * cost.seconds;
  }
}

Branch *BudgetSearch::findMostPromising() {
  double limit = fits(best) ? best.stepMs : kNever;
  Branch *found = nullptr;
  for (Branch &branch : branches)
    if (getPromise(branch) < limit) {
      limit = getPromise(branch);
      found = &branch;
    }
  return found;
}

void BudgetSearch::followAll(int most) {
  while (best.problem.empty() && most > 0) {
    Branch *branch = findMostPromising();
    double limit = branch       ? getPromise(*branch)
                   : fits(best) ? best.stepMs
                                : kNever;
    // What follows of a list takes no less.
    auto open = llvm::find_if(lists, [&](const SettingList &list) {
      return list.next < list.offloads.size() && list.leastMs < limit;
    });
    if (open != lists.end()) {
      extend(*open);
    } else if (branch) {
      follow(*branch);
      --most;
    } else {
      return;
    }
  }
}

void BudgetSearch::plan(Branch &branch) const {
  const Setting &setting = settings[branch.setting];
  branch.choice.reset();
  branch.promisedMs = kNever;
  auto consider = [&](const RecomputeProgram &program) {
    std::optional<ValueChoice> found =
        chooseValues(program, branch.target, setting.starts[branch.start]);
    if (!found)
      return;
    double stepMs = setting.alone.stepMs +
                    1e3 * getCost(setting.model.program, *found).seconds;
    if (stepMs >= branch.promisedMs)
      return;
    branch.promisedMs = stepMs;
    branch.choice = std::move(found);
  };
  consider(setting.model.program);
  if (setting.predicted)
    consider(*setting.predicted);
}

void BudgetSearch::searchLeast() {
  // Where much was compiled, not every setting was considered.
  for (SettingList &list : lists)
    while (best.problem.empty() && list.next < list.offloads.size())
      extend(list);
  for (const Setting &setting : settings)
    if (setting.alone.problem.empty())
      leasts.push_back(setting.alone);
  // The model may have ruled out a start that fits.
  if (!settings.empty())
    for (const ValueChoice &start : settings.front().starts)
      tryAsLeast(settings.front(), start);
  if (fits(best))
    return;
  struct Least {
    const Setting *setting;
    ValueChoice choice;
    int64_t bytes;
  };
  std::vector<Least> all;
  for (const Setting &setting : settings)
    for (const ValueChoice &start : setting.starts) {
      ValueChoice choice = chooseLeast(setting.model.program, start);
      int64_t peak = getCost(setting.model.program, choice).peakBytes;
      all.push_back({&setting, std::move(choice), peak - setting.excess});
    }
  llvm::stable_sort(
      all, [](const Least &a, const Least &b) { return a.bytes < b.bytes; });
  for (const Least &least : ArrayRef(all).take_front(countTries()))
    tryAsLeast(*least.setting, least.choice);
}

void BudgetSearch::tryAsLeast(const Setting &setting,
                              const ValueChoice &choice) {
  std::optional<Candidate> found = describe(setting, choice);
  if (!found)
    return;
  if (auto known = tried.find(getKey(*found)); known != tried.end())
    found = known->second;
  else
    found = compile(setting, choice);
  if (isBetter(*found, best))
    best = *found;
  const bool isKnown = llvm::any_of(leasts, [&](const Candidate &other) {
    return getKey(other) == getKey(*found);
  });
  if (found->problem.empty() && !isKnown)
    leasts.push_back(*found);
}

void BudgetSearch::searchLeastAlone() {
  auto getLeast = [](const Candidate &candidate) {
    return candidate.rankBytes - candidate.overlapBytes;
  };
  llvm::stable_sort(leasts, [&](const Candidate &a, const Candidate &b) {
    return getLeast(a) < getLeast(b);
  });
  constexpr size_t kMost = 2;
  for (Candidate alone : std::vector(
           leasts.begin(), leasts.begin() + std::min(leasts.size(), kMost))) {
    if (alone.overlapBytes == 0)
      continue;
    alone.extraWorkspace = "0";
    predict(alone);
    if (isBetter(alone, best))
      best = alone;
    if (alone.problem.empty())
      leasts.push_back(alone);
  }
}

int64_t BudgetSearch::getOverlapAllowance(const Candidate &candidate) const {
  auto allowed = exec::ExtraWorkspace::parse(options.extraWorkspace);
  return llvm::cantFail(std::move(allowed))
      .getBytes(candidate.peakBytes - candidate.overlapBytes);
}

void BudgetSearch::searchLessOverlap() {
  llvm::stable_sort(nearMisses, [](const Candidate &a, const Candidate &b) {
    return a.rankBytes < b.rankBytes;
  });
  // With a little less each, else the nearest with less and less.
  size_t most = countTries();
  for (double part : kLessOverlap) {
    for (const Candidate &near : ArrayRef(nearMisses).take_front(most)) {
      Candidate now = near;
      now.extraWorkspace = std::to_string(static_cast<int64_t>(
          part * static_cast<double>(getOverlapAllowance(near))));
      predict(now);
      if (isBetter(now, best))
        best = now;
    }
    if (fits(best))
      return;
    most = 1;
  }
}

const Candidate *
BudgetSearch::findCompiled(const Setting &setting,
                           const RepeatedValues &repeated) const {
  for (auto [start, policy] :
       llvm::zip_equal(setting.starts, setting.policies)) {
    if (start.repeated != repeated)
      continue;
    for (const Candidate &other : compiled)
      if (other.recompute == policy && other.isPredicted() &&
          !other.isEstimated && other.hasLayoutOf(setting.alone))
        return &other;
  }
  return nullptr;
}

std::optional<Candidate>
BudgetSearch::describe(const Setting &setting,
                       const ValueChoice &choice) const {
  Candidate candidate = setting.alone;
  std::string values = setting.model.describe(choice.repeated),
              offloaded = setting.model.describe(choice.offloaded);
  candidate.values = values.empty() ? "none" : values;
  if (!offloaded.empty())
    candidate.offload += (candidate.offload.empty() ? "" : ",") + offloaded;
  if (values.empty() && offloaded.empty())
    return std::nullopt;
  return candidate;
}

std::optional<Candidate> BudgetSearch::compile(const Setting &setting,
                                               const ValueChoice &choice) {
  std::optional<Candidate> candidate = describe(setting, choice);
  if (!candidate || tried.contains(getKey(*candidate)))
    return std::nullopt;
  const Candidate *same = candidate->offload.empty()
                              ? findCompiled(setting, choice.repeated)
                              : nullptr;
  if (same)
    candidate->takePrediction(*same);
  else
    predict(*candidate);
  noteMiss(*candidate);
  tried.try_emplace(getKey(*candidate), *candidate);
  return candidate;
}

void BudgetSearch::noteMiss(const Candidate &candidate) {
  if (candidate.problem.empty() && !fits(candidate) &&
      candidate.overlapBytes > 0 &&
      candidate.rankBytes - budget <= getOverlapAllowance(candidate))
    nearMisses.push_back(candidate);
}

void BudgetSearch::predict(Candidate &candidate) {
  ++numCompiled;
  progress.say([&] {
    std::string known = "nothing fits yet";
    if (fits(best))
      known = llvm::formatv("the best so far holds {0} a rank and takes {1}",
                            formatBytes(best.rankBytes), formatMs(best.stepMs));
    return llvm::formatv("--memory-budget {0}: compiles choice {1} of what to "
                         "recompute; {2}",
                         budget, numCompiled, known)
        .str();
  });
  OwningOpRef<ModuleOp> copy = choices.cloneTuned();
  if (succeeded(runPhases(*copy, candidate.getPhases(options), "tune", "place",
                          candidate)))
    readPrediction(*copy, options, candidate);
}

void BudgetSearch::follow(Branch &branch) {
  std::optional<Candidate> now =
      compile(settings[branch.setting], *branch.choice);
  double promisedMs = std::exchange(branch.promisedMs, kNever);
  if (!now)
    return;
  if (!now->problem.empty() || isBetter(*now, best))
    best = *now;
  double &least = optimism[branch.start];
  double wrong = std::max(0.0, now->stepMs - promisedMs);
  least = least == 0 ? wrong : std::min(least, wrong);
  int64_t slack = budget - now->rankBytes;
  if ((slack >= 0 && slack < budget / 200) || --branch.rounds == 0)
    return;
  (slack >= 0 ? branch.under : branch.over) = branch.target;
  branch.target = branch.under > 0 && branch.over > 0
                      ? branch.under + (branch.over - branch.under) / 2
                      : branch.target + slack - budget / 1000;
  plan(branch);
}

void mlir::optimus::predictWithin(ModuleOp module,
                                  const LayoutQuestion &question,
                                  ArrayRef<Candidate> known,
                                  const ProgressFn &progress,
                                  Candidate &candidate) {
  candidate = BudgetSearch(question, known, progress, candidate).run(module);
}
