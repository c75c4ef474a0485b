//===- TuneProducts.cpp - How each distributed product moves ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TunableProduct.h"

#include "optimus/Analysis/Pricing.h"
#include "optimus/Dialect/CCL/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-tune-products"

namespace mlir::ccl {
#define GEN_PASS_DEF_TUNEPRODUCTSPASS
#include "optimus/Dialect/CCL/Transforms/Passes.h.inc"
} // namespace mlir::ccl

using namespace mlir;
using namespace mlir::ccl;
using optimus::MeshOp;
using optimus::OptimusDialect;

namespace {
/// Bytes that a rank has alive at each operation of a function: its arguments,
/// and values with a later use.
struct LiveBytes {
  llvm::DenseMap<Operation *, double> at;
  double most = 0;

  explicit LiveBytes(func::FuncOp function) {
    double alive = 0;
    for (BlockArgument argument : function.getArguments())
      alive += optimus::getBytes(argument.getType());
    llvm::DenseMap<Value, Operation *> lastUses;
    auto forEachValue = [](Operation &op, auto visit) {
      for (Value result : op.getResults())
        visit(result);
      for (Value operand : op.getOperands())
        if (operand.getDefiningOp())
          visit(operand);
    };
    for (Operation &op : function.front())
      forEachValue(op, [&](Value value) { lastUses[value] = &op; });
    for (Operation &op : function.front()) {
      for (Value result : op.getResults())
        alive += optimus::getBytes(result.getType());
      at[&op] = alive;
      most = std::max(most, alive);
      forEachValue(op, [&](Value value) {
        auto found = lastUses.find(value);
        if (found == lastUses.end() || found->second != &op)
          return;
        alive -= optimus::getBytes(value.getType());
        lastUses.erase(found);
      });
    }
  }
};

class TuneProductsPass
    : public ccl::impl::TuneProductsPassBase<TuneProductsPass> {
public:
  using TuneProductsPassBase::TuneProductsPassBase;
  TuneProductsPass() = default;
  TuneProductsPass(const TuneProductsPassOptions &options,
                   std::shared_ptr<const optimus::MeasuredCosts> measured)
      : TuneProductsPassBase(options), pricing(std::move(measured)) {}

  LogicalResult initialize(MLIRContext *context) override {
    if (!llvm::is_contained({"auto", "panels", "whole"}, move))
      return emitError(UnknownLoc::get(context))
             << "unknown movement '" << move
             << "'; known are auto, panels and whole";
    if (panels < 0 || panels > kMostPanels)
      return emitError(UnknownLoc::get(context))
             << "expected 0 panels, to choose by predicted times, or up to "
             << kMostPanels << "; found " << Twine(panels);
    if (llvm::Error error = pricing.load(machineProfile, profile))
      return emitError(UnknownLoc::get(context))
             << llvm::toString(std::move(error));
    return success();
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    MeshOp mesh = optimus::getMesh(function);
    if (!mesh)
      return;
    FailureOr<optimus::CostModel> costs = pricing.getCosts(function);
    if (failed(costs))
      return signalPassFailure();
    SmallVector<SmallVector<Operation *>> groups;
    for (MatmulOp op : function.getOps<MatmulOp>())
      if (groups.empty() || !llvm::is_contained(groups.back(), op))
        groups.push_back(getProductGroup(op));
    if (groups.empty())
      return;
    LiveBytes alive(function);
    // All are chosen before any is replaced, which would renumber the block.
    Operation *last = groups.back().back();
    for (MatmulOp op : function.getOps<MatmulOp>())
      last = op;
    std::vector<Choice> choices;
    for (ArrayRef<Operation *> group : groups)
      if (std::optional<Choice> choice = choose(group, last, *costs, alive))
        choices.push_back(std::move(*choice));
    sayFewer(choices);
    for (Choice &choice : choices)
      apply(choice);
    optimus::nameValues(function.front());
  }

private:
  /// How the products of a group move.
  struct Choice {
    ArrayRef<Operation *> group;
    std::vector<TunableProduct> products;
    int64_t panels = 0;
    bool movesWhole = false;
  };

  /// Products of a group have one number of panels, or all move whole.
  std::optional<Choice> choose(ArrayRef<Operation *> ops, Operation *last,
                               const optimus::CostModel &costs,
                               const LiveBytes &alive) {
    Choice choice;
    choice.group = ops;
    std::vector<TunableProduct> &products = choice.products;
    double aliveHere = 0;
    for (Operation *op : ops) {
      aliveHere = std::max(aliveHere, alive.at.lookup(op));
      auto product = dyn_cast<MatmulOp>(op);
      if (!product)
        continue;
      products.emplace_back(product, last, costs);
      // A user's choice stands; a product that nothing moves of has none.
      if (op->hasAttr(OptimusDialect::kMove) ||
          failed(products.back().describe(getSum(product, ops))))
        return std::nullopt;
    }
    numProducts += products.size();
    TunableGroup group(products, optimus::getMesh(ops.front()), costs);
    const int64_t given = products.front().getOp().getPanels();
    // The need of the given number is granted.
    double granted =
        std::max({group.getExtraBytes(given), double(maxWholeBytes),
                  (1 + maxShare) * alive.most - aliveHere});
    choice.panels =
        panels > 0 ? getNearest(group) : chooseMultiple(group, given);
    choice.movesWhole = move == "whole";
    if (panels == 0 && move != "whole")
      weighMemory(group, granted, choice);
    LDBG() << products.size() << " products, the first of "
           << optimus::describeLocation(products.front().getOp().getLoc())
           << ": panels " << given << " -> " << choice.panels << " in "
           << group.pricePanels(choice.panels) * 1e3 << " ms, whole in "
           << group.priceWhole() * 1e3 << " ms, " << group.getExtraBytes(1)
           << " of " << granted << " bytes; "
           << (choice.movesWhole ? "whole" : "panels");
    return choice;
  }

  /// The number that was asked for, or the nearest fewer possible.
  int64_t getNearest(const TunableGroup &group) const {
    int64_t number = panels;
    while (!group.canHave(number))
      --number;
    return number;
  }

  /// Of the multiples of the given number the fastest.
  int64_t chooseMultiple(const TunableGroup &group, int64_t given) const {
    int64_t best = given;
    double bestSeconds = group.pricePanels(given);
    for (int64_t number = 2 * given;
         number <= std::min<int64_t>(maxFactor * given, kMostPanels);
         number += given) {
      if (!group.canHave(number))
        continue;
      double seconds = group.pricePanels(number);
      if (seconds < (1 - kGain) * bestSeconds)
        std::tie(best, bestSeconds) = std::pair(number, seconds);
    }
    return best;
  }

  /// How a group moves: whole tensors are one panel.
  struct Way {
    int64_t panels;
    double bytes, seconds;

    bool gainsOn(const Way &other) const {
      return seconds < (1 - kGain) * other.seconds;
    }
  };

  /// Of the chosen panels, panels of slices and whole tensors within the
  /// granted bytes: the fewest bytes on which no other way gains.
  ///
  ///   8 panels        7.4 ms    132 MiB
  ///   4, of slices    6.0 ms    264 MiB    -> these
  ///   whole           5.9 ms    528 MiB
  ///
  /// Bytes that are always allowed are not weighed.
  void weighMemory(const TunableGroup &group, double granted,
                   Choice &choice) const {
    Way little{choice.panels, group.getExtraBytes(choice.panels),
               group.pricePanels(choice.panels)};
    const Way given = little;
    SmallVector<Way> ways;
    auto add = [&](int64_t number, double seconds) {
      Way way{number, group.getExtraBytes(number), seconds};
      if (way.bytes > granted)
        return;
      if (way.bytes > maxWholeBytes)
        ways.push_back(way);
      else if (way.gainsOn(given) && way.seconds < little.seconds)
        little = way;
    };
    for (int64_t number = kMostPanels; number > 1; number /= 2)
      if (group.canHave(number) && !group.haveOwners(number))
        add(number, group.pricePanels(number));
    if (move == "auto")
      add(1, group.priceWhole());
    ways.insert(ways.begin(), little);
    llvm::stable_sort(
        ways, [](const Way &a, const Way &b) { return a.bytes < b.bytes; });
    const Way *chosen = llvm::find_if(ways, [&](const Way &way) {
      return llvm::none_of(
          ways, [&](const Way &other) { return other.gainsOn(way); });
    });
    choice.movesWhole = chosen->panels == 1;
    if (!choice.movesWhole)
      choice.panels = chosen->panels;
  }

  /// Warns of products without the number of panels that was asked for.
  void sayFewer(ArrayRef<Choice> choices) {
    int64_t all = 0, fewer = 0;
    const Choice *first = nullptr;
    for (const Choice &choice : choices) {
      all += choice.products.size();
      if (panels == 0 || choice.movesWhole || choice.panels == panels)
        continue;
      fewer += choice.products.size();
      if (!first)
        first = &choice;
    }
    if (!first)
      return;
    MatmulOp product = first->products.front().getOp();
    getOperation().emitWarning()
        << "expected " << int64_t(panels) << " panels of each product of @"
        << getOperation().getSymName() << ", found " << fewer << " of " << all
        << " whose dimensions do not divide so; the first, "
        << optimus::describeLocation(product.getLoc()) << ", has "
        << first->panels << ": choose this number, or sizes that divide";
  }

  void apply(Choice &choice) {
    if (choice.movesWhole) {
      moveWhole(choice.group, choice.products);
      numWhole += choice.products.size();
      return;
    }
    for (TunableProduct &product : choice.products) {
      MatmulOp op = product.getOp();
      if (int64_t(op.getPanels()) == choice.panels)
        continue;
      op.setPanels(choice.panels);
      ++numOtherPanels;
    }
  }

  /// The sum in its group that a product is added to in the end; its result
  /// without one.
  static Value getSum(MatmulOp product, ArrayRef<Operation *> group) {
    Value sum = product.getResult();
    while (sum.hasOneUse() && isa<optimus::AddOp>(*sum.getUsers().begin()) &&
           llvm::is_contained(group, *sum.getUsers().begin()))
      sum = sum.getUsers().begin()->getResult(0);
    return sum;
  }

  /// Replaces the products of a group by local ones. What is only added up in
  /// the group is scattered as a sum.
  static void moveWhole(ArrayRef<Operation *> group,
                        MutableArrayRef<TunableProduct> products) {
    llvm::DenseMap<std::pair<Value, StringRef>, Value> gathered;
    llvm::DenseMap<Value, const Mover *> partial;
    SmallVector<optimus::AddOp> sums;
    for (Operation *op : group)
      if (auto add = dyn_cast<optimus::AddOp>(op))
        sums.push_back(add);
    auto isPartialSum = [&](Value value) {
      return value.hasOneUse() &&
             isa<optimus::AddOp>(*value.getUsers().begin()) &&
             llvm::is_contained(group, *value.getUsers().begin());
    };
    // Puts `whole` in the place of `part`, scattered unless it is a partial
    // sum.
    auto replace = [&](Operation *op, Value whole, const Mover *scatters) {
      Value part = op->getResult(0);
      if (scatters && isPartialSum(part)) {
        partial[whole] = scatters;
      } else if (scatters) {
        OpBuilder builder(op);
        whole = ReduceScatterOp::create(builder, op->getLoc(), part.getType(),
                                        whole, scatters->axis, scatters->dim);
      }
      part.replaceAllUsesWith(whole);
      op->erase();
    };
    for (TunableProduct &product : products) {
      auto [whole, scatters] = product.moveWhole(gathered);
      replace(product.getOp(), whole, scatters);
    }
    for (optimus::AddOp add : sums) {
      const Mover *scatters = partial.lookup(add.getLhs());
      OpBuilder builder(add);
      Location loc =
          scatters ? optimus::withPart(add.getLoc(), "partial") : add.getLoc();
      Value sum =
          optimus::AddOp::create(builder, loc, add.getLhs(), add.getRhs());
      replace(add, sum, scatters);
    }
  }

  /// What a change must gain at least: predictions are not better than that.
  static constexpr double kGain = 0.05;
  optimus::Pricing pricing;
};
} // namespace

std::unique_ptr<Pass> ccl::createTuneProductsPass(
    const TuneProductsPassOptions &options,
    std::shared_ptr<const optimus::MeasuredCosts> measured) {
  return std::make_unique<TuneProductsPass>(options, std::move(measured));
}
