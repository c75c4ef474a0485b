//===- Budget.cpp - What to keep within a memory budget ---------*- C++ -*-===//
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

#include "Budget.h"

#include "RecomputeModel.h"

#include "optimus/Dialect/Exec/Transforms/Bandwidth.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <array>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::optimus;
using ccl::Recomputation;
using ccl::RecomputePolicy;

/// The window for fetches is such a part of a rank's bytes with all values
/// kept.
static constexpr int64_t kWindowPart = 128;
/// Plans are also made for smaller budgets: for the next few multiples of such
/// a part of what a rank holds with all kept.
static constexpr int kRungs = 16, kRungsBelow = 3;
/// No more is compiled for a budget, and for each of the smaller ones.
static constexpr int kMostCompiled = 20, kMostCompiledOfRung = 4;
/// Of one branch.
static constexpr int kRounds = 6;
/// What the model starts from.
static constexpr RecomputePolicy kStarts[] = {
    RecomputePolicy::None, RecomputePolicy::Attention, RecomputePolicy::Layer};
/// How fast a budget can be met where it cannot.
static constexpr double kNever = std::numeric_limits<double>::infinity();

namespace {
/// What is offloaded of arguments, and the step with it.
struct Setting {
  /// With all values kept.
  Candidate alone;
  RecomputeModel model;
  /// With measured times: the same with predicted ones, from which the choice
  /// takes other turns.
  std::optional<RecomputeProgram> predicted;
  /// What the policies recompute.
  std::vector<ValueChoice> starts;
  /// The model's peak beyond the rank's.
  int64_t excess = 0;
};

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

/// What is offloaded of arguments, as --offload is; what takes longer is later.
struct SettingList {
  std::vector<std::string> offloads;
  size_t next = 0;
  /// What any of the others takes at least.
  double leastMs = 0;
};

class BudgetSearch {
public:
  BudgetSearch(const PhaseOptions &options, int64_t budget,
               const Candidate &layout)
      : options(options), budget(budget), layout(layout) {}

  Candidate run(ModuleOp module);

private:
  /// Compiles as far as what is offloaded makes no difference.
  LogicalResult prepare(ModuleOp module);
  /// Of the optimizer's state, sizes that are offloaded: at most every 32nd
  /// part of it, the smallest tensors first.
  SmallVector<int64_t> getStateSizes();
  std::vector<SettingList> listSettings();
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
  /// The branch with the best promise, if it is better than the known results.
  Branch *findMostPromising();
  Setting lower(StringRef offload);
  /// Of the program without recomputation, with its memory placed.
  void buildModel(Setting &setting, func::FuncOp placed,
                  const Recomputation &recomputation);
  /// Of what the model finds for the target, the fastest.
  void plan(Branch &branch) const;
  /// Compiles a branch's promise, and moves its target by the error.
  void follow(Branch &branch);
  /// Where no setting promises to fit: what takes the least.
  void searchLeast();
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
  /// Whether it is known how fast, and the user leaves open what.
  bool mayOffload() const {
    return !options.offloadBandwidth.empty() && options.offload.empty();
  }
  /// Compiles with a choice; nothing where it was tried before.
  std::optional<Candidate> compile(const Setting &setting,
                                   const ValueChoice &choice);

  PhaseOptions options;
  int64_t budget;
  /// The mesh and the strategy, or the problem with them.
  Candidate layout;
  /// The program before --optimus-fuse, behind it, and as its device program
  /// before a schedule; the last two without recomputation.
  OwningOpRef<ModuleOp> tuned, fused, lowered;
  std::optional<Recomputation> recomputation;
  std::vector<SettingList> lists;
  std::vector<Setting> settings;
  std::vector<Branch> branches;
  /// By start, in milliseconds: the least by which a promise was too short.
  std::array<double, std::size(kStarts)> optimism = {};
  /// What is fetched ahead, where anything is offloaded.
  int64_t window = 0;
  llvm::StringSet<> tried;
  Candidate best;
};
} // namespace

Candidate BudgetSearch::run(ModuleOp module) {
  if (failed(prepare(module)))
    return layout;
  best = layout;
  best.rankBytes = std::numeric_limits<int64_t>::max();
  lists = listSettings();
  followAll(kMostCompiled);
  // What meets a smaller budget is not faster by the model, but may be in fact.
  // The smaller ones are the same for all budgets.
  const int64_t part = window * kWindowPart / kRungs;
  int64_t rung = part > 0 ? (budget - 1) / part : 0;
  for (int below = 0; below < kRungsBelow && rung > 0 && fits(best);
       ++below, --rung) {
    branches.clear();
    for (size_t setting = 0; setting < settings.size(); ++setting)
      addBranches(setting, rung * part, /*rounds=*/1);
    followAll(kMostCompiledOfRung);
  }
  if (!fits(best))
    searchLeast();
  return best;
}

LogicalResult BudgetSearch::prepare(ModuleOp module) {
  layout.values = "none";
  PhaseOptions phases = layout.getPhases(options);
  tuned = module.clone();
  if (failed(runPhases(*tuned, phases, "input", "tune", layout)))
    return failure();
  // What is chosen for a step holds for all functions.
  for (auto function :
       llvm::make_early_inc_range(tuned->getOps<func::FuncOp>()))
    if (function.getSymName() != "train_step")
      function.erase();
  fused = tuned->clone();
  if (failed(runPhases(*fused, phases, "tune", "fuse", layout)))
    return failure();
  lowered = fused->clone();
  if (failed(runPhases(*lowered, phases, "fuse", "exec", layout)))
    return failure();
  if (auto step = fused->lookupSymbol<func::FuncOp>("train_step"))
    recomputation = Recomputation::of(step);
  return success();
}

SmallVector<int64_t> BudgetSearch::getStateSizes() {
  auto step = lowered->lookupSymbol<func::FuncOp>("train_step");
  SmallVector<int64_t> tensors;
  for (BlockArgument argument : step.getArguments())
    if (BufferAttr buffer = getArgumentBuffer(step, argument.getArgNumber());
        buffer && buffer.getLifetime() == Lifetime::State && buffer.getOf())
      tensors.push_back(exec::getBufferBytes(argument));
  llvm::sort(tensors);
  const int64_t part =
      std::accumulate(tensors.begin(), tensors.end(), int64_t(0)) / 32;
  SmallVector<int64_t> sizes;
  int64_t sum = 0, next = part;
  for (int64_t bytes : tensors) {
    if (sum > 0 && sum + bytes > next) {
      sizes.push_back(sum);
      next = std::max(sum, next) + part;
    }
    sum += bytes;
  }
  return sizes;
}

std::vector<SettingList> BudgetSearch::listSettings() {
  if (!mayOffload() || !recomputation)
    return {{{""}}};
  std::vector<std::string> states = {""};
  for (int64_t bytes : getStateSizes())
    states.push_back("state=" + std::to_string(bytes));
  states.push_back("state");
  std::vector<SettingList> lists = {{states}};
  // These are copied so much longer that a few sizes of state will do.
  for (StringRef kinds : {"gradients", "parameters", "parameters,gradients"}) {
    std::vector<std::string> &list = lists.emplace_back().offloads;
    for (size_t part = 0; part <= 4; ++part) {
      const std::string &state = states[(states.size() - 1) * part / 4];
      list.push_back(state.empty() ? kinds.str() : state + "," + kinds.str());
    }
  }
  return lists;
}

void BudgetSearch::extend(SettingList &list) {
  Setting setting = lower(list.offloads[list.next++]);
  const Candidate &alone = setting.alone;
  list.leastMs = alone.stepMs;
  if (settings.empty())
    for (SettingList &other : lists)
      other.leastMs = alone.stepMs;
  if (!alone.problem.empty() || isBetter(alone, best))
    best = alone;
  settings.push_back(std::move(setting));
  addBranches(settings.size() - 1, budget, kRounds);
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

Setting BudgetSearch::lower(StringRef offload) {
  Setting setting;
  setting.alone = layout;
  setting.alone.offload = offload.str();
  OwningOpRef<ModuleOp> placed = lowered->clone();
  if (failed(runPhases(*placed, setting.alone.getPhases(options), "exec",
                       "place", setting.alone)))
    return setting;
  readPrediction(*placed, options, setting.alone);
  if (window == 0)
    window = setting.alone.rankBytes / kWindowPart;
  setting.alone.offloadWindow = window;
  if (recomputation && setting.alone.problem.empty())
    buildModel(setting, placed->lookupSymbol<func::FuncOp>("train_step"),
               *recomputation);
  return setting;
}

void BudgetSearch::buildModel(Setting &setting, func::FuncOp placed,
                              const Recomputation &recomputation) {
  // It was read before, for the schedule.
  MachineProfile profile =
      llvm::cantFail(MachineProfile::load(options.machineProfile));
  auto build = [&](std::shared_ptr<const MeasuredCosts> measured) {
    RecomputeModel built = buildRecomputeModel(
        recomputation, fused->lookupSymbol<func::FuncOp>("train_step"), placed,
        CostModel(profile, layout.mesh.getNumRanks(), std::move(measured)));
    if (mayOffload()) {
      auto rates = *exec::Bandwidth::parse(options.offloadBandwidth);
      built.program.fetchRate = rates.in;
      built.program.storeRate = rates.out;
      built.program.copySeconds = rates.alpha;
    }
    return built;
  };
  std::shared_ptr<const MeasuredCosts> measured =
      layout.getPhases(options).getMeasured();
  setting.model = build(measured);
  if (measured)
    setting.predicted = build(nullptr).program;
  for (RecomputePolicy policy : kStarts)
    setting.starts.push_back(
        {setting.model.getRepeated(recomputation, policy)});
  setting.excess =
      getCost(setting.model.program, setting.starts.front()).peakBytes -
      setting.alone.rankBytes;
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
  constexpr size_t kMost = 8;
  for (const Least &least : ArrayRef(all).take_front(kMost))
    if (std::optional<Candidate> found = compile(*least.setting, least.choice);
        found && isBetter(*found, best))
      best = *found;
}

std::optional<Candidate> BudgetSearch::compile(const Setting &setting,
                                               const ValueChoice &choice) {
  Candidate candidate = setting.alone;
  std::string values = setting.model.describe(choice.repeated),
              offloaded = setting.model.describe(choice.offloaded);
  candidate.values = values.empty() ? "none" : values;
  if (!offloaded.empty())
    candidate.offload += (candidate.offload.empty() ? "" : ",") + offloaded;
  if ((values.empty() && offloaded.empty()) ||
      !tried.insert(candidate.values + " " + candidate.offload).second)
    return std::nullopt;
  OwningOpRef<ModuleOp> copy = tuned->clone();
  if (succeeded(runPhases(*copy, candidate.getPhases(options), "tune", "place",
                          candidate)))
    readPrediction(*copy, options, candidate);
  return candidate;
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

void mlir::optimus::predictWithin(ModuleOp module, const PhaseOptions &options,
                                  int64_t budget, Candidate &candidate) {
  candidate = BudgetSearch(options, budget, candidate).run(module);
}
