//===- TuneProducts.cpp - How each distributed product moves ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/Pricing.h"
#include "optimus/Dialect/CCL/IR/CCL.h"
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
using exec::CollectiveKind;
using optimus::MeshOp;
using optimus::OptimusDialect;

namespace {
/// A moving tensor, and the cost of its movement.
struct Mover {
  int tensor;
  int64_t dim;
  StringRef axis;
  int64_t ranks;
  /// An operand, or the sum in its group that a result is added to.
  Value moved;
  /// All of the tensor that one group of ranks along the axis has, in bytes.
  double bytes;
  /// Of the streamed dimension, each on one rank in either tensor.
  int64_t blocks;
  /// It is there before the product is due: a parameter, or one narrowed.
  bool isEarly;
  /// Nothing waits for it before all products are done: a parameter's gradient.
  bool isLate;
  /// A rank's part of a panel is one stretch of memory.
  bool isContiguous;

  bool isResult() const { return tensor == ProductForm::C; }
  bool hasOwners(int64_t panels) const { return panels % blocks == 0; }
  CollectiveKind getKind(int64_t panels) const {
    if (hasOwners(panels))
      return isResult() ? CollectiveKind::Reduce : CollectiveKind::Broadcast;
    return isResult() ? CollectiveKind::ReduceScatter
                      : CollectiveKind::AllGather;
  }
};

/// Bytes of an element of a sum.
constexpr int64_t kSumBytes = 4;

/// A distributed product, and the time that it multiplies for.
class TunableProduct {
public:
  TunableProduct(MatmulOp op, const optimus::CostModel &costs)
      : op(op), mesh(optimus::getMesh(op)), costs(costs) {}

  /// Reads the form; the result is added to `sum`, or is it.
  LogicalResult describe(Value sum) {
    FailureOr<ProductSharding> found = getProductSharding(op);
    FailureOr<ProductForm> form = getProductForm(op);
    if (failed(found) || failed(form))
      return failure();
    sharding = *found;
    stationary = form->stationary;
    blocks = form->blocks;
    constexpr int streamedOf[3] = {2, 0, 1};
    streamed = streamedOf[stationary];
    for (int tensor = 0; tensor < 3; ++tensor) {
      StringRef axis = sharding.axes[tensor][streamed];
      if (tensor == stationary || axis.empty())
        continue;
      int64_t ranks = *mesh.getAxisSize(axis);
      auto type = getType(tensor);
      int64_t dim = sharding.dims[tensor][streamed];
      bool isFirst = llvm::all_of(type.getShape().take_front(dim),
                                  [](int64_t size) { return size == 1; });
      Value moved = tensor == ProductForm::C ? sum : getValue(tensor);
      movers.push_back({.tensor = tensor,
                        .dim = dim,
                        .axis = axis,
                        .ranks = ranks,
                        .moved = moved,
                        .bytes = 1.0 * optimus::getBytes(type) * ranks,
                        .blocks = blocks,
                        .isEarly = isEarly(moved),
                        .isLate = tensor == ProductForm::C && isLate(moved),
                        .isContiguous = isFirst});
    }
    countExtents();
    return success(!movers.empty());
  }

  /// Whether the streamed dimension divides into so many panels.
  bool canHave(int64_t panels) const {
    const Mover &mover = movers.front();
    return canDivideIntoPanels(getType(mover.tensor).getDimSize(mover.dim) *
                                   mover.ranks,
                               blocks, panels);
  }

  ArrayRef<Mover> getMovers() const { return movers; }

  /// Bytes of the sum in f32 that a narrow result has beside it.
  double getSumBytes(int64_t panels) const {
    bool hasSum = panels > 1 && stationary == ProductForm::C &&
                  optimus::getElementBytes(getType(ProductForm::C)) < kSumBytes;
    return hasSum ? 1.0 * kSumBytes * extents[0] * extents[2] : 0;
  }

  /// The local product of a panel. One that is added to the others reads and
  /// writes their sum.
  double price(int64_t panels) const {
    int64_t extent[3] = {extents[0], extents[1], extents[2]};
    extent[streamed] = std::max<int64_t>(1, extent[streamed] / panels);
    MatmulOp product = op;
    double bytes = 1.0 * optimus::getElementBytes(getType(0)) *
                   (extent[0] * extent[1] + extent[1] * extent[2]);
    if (panels > 1 && stationary == ProductForm::C)
      bytes += 2.0 * kSumBytes * extent[0] * extent[2];
    return costs.getGemmSeconds(
        extent[0], extent[2], extent[1], product.getTransposeA(),
        product.getTransposeB(), getType(0).getElementType(), bytes);
  }

  /// Replaces the product by a local one of gathered operands. Operands that a
  /// product of its group gathered before are in `gathered`. Returns the
  /// product, and how its partial sums are reduced if they are.
  std::pair<Value, const Mover *>
  moveWhole(llvm::DenseMap<std::pair<Value, StringRef>, Value> &gathered) {
    OpBuilder builder(op);
    Value operands[2] = {op.getA(), op.getB()};
    RankedTensorType resultType = getType(ProductForm::C);
    const Mover *scatters = nullptr;
    for (const Mover &mover : movers) {
      RankedTensorType whole = getWholeType(mover);
      if (mover.tensor == ProductForm::C) {
        resultType = whole;
        scatters = &mover;
        continue;
      }
      Value &operand = operands[mover.tensor];
      Value &known = gathered[{operand, mover.axis}];
      if (!known || known.getType() != whole)
        known = AllGatherOp::create(
            builder, optimus::withPart(op.getLoc(), "all_gather"), whole,
            operand, mover.axis, mover.dim);
      operand = known;
    }
    // The partial sums are values of their own, their sum is the product.
    Location loc =
        scatters ? optimus::withPart(op.getLoc(), "partial") : op.getLoc();
    Value product = optimus::MatmulOp::create(
        builder, loc, resultType, operands[0], operands[1], op.getContracting(),
        op.getTransposeA(), op.getTransposeB());
    return {product, scatters};
  }

  MatmulOp getOp() const { return op; }

private:
  Value getValue(int tensor) const {
    MatmulOp product = op;
    return tensor == 0   ? product.getA()
           : tensor == 1 ? product.getB()
                         : product.getResult();
  }
  RankedTensorType getType(int tensor) const {
    return cast<RankedTensorType>(getValue(tensor).getType());
  }

  /// Whether a value is there from the beginning, or as soon as it is narrowed.
  static bool isEarly(Value value) {
    Operation *op = value.getDefiningOp();
    return !op ||
           (isa<optimus::CastOp>(op) && isa<BlockArgument>(op->getOperand(0)));
  }

  /// Whether all uses come after the last product.
  static bool isLate(Value value) {
    Block *block = value.getParentBlock();
    auto products = block->getOps<MatmulOp>();
    Operation *last = nullptr;
    for (MatmulOp product : products) last = product;
    for (Operation *user : value.getUsers()) {
      if (isa<ReduceScatterOp, AllReduceOp>(user)) {
        if (!isLate(user->getResult(0))) return false;
      } else if (user->isBeforeInBlock(last)) return false;
    }
    return true;
  }

  /// What one rank multiplies when the streamed group is whole.
  void countExtents() {
    MatmulOp product = op;
    int64_t k = product.getContracting();
    auto multiply = [](ArrayRef<int64_t> shape) {
      int64_t extent = 1;
      for (int64_t size : shape)
        extent *= size;
      return extent;
    };
    ArrayRef<int64_t> a = getType(0).getShape(), b = getType(1).getShape();
    bool transA = product.getTransposeA(), transB = product.getTransposeB();
    extents[0] = multiply(transA ? a.drop_front(k) : a.drop_back(k));
    extents[1] = multiply(transA ? a.take_front(k) : a.take_back(k));
    extents[2] = multiply(transB ? b.drop_back(k) : b.drop_front(k));
    // One rank's part of a group that moves is its shard.
    for (const Mover &mover : movers)
      if (mover.tensor == (streamed == 2 ? 1 : 0))
        extents[streamed] *= mover.ranks;
  }

  /// The type of a tensor when what its axis shards is whole; of the result,
  /// with partial sums over that axis.
  RankedTensorType getWholeType(const Mover &mover) const {
    RankedTensorType type = getType(mover.tensor);
    optimus::ShardingAttr sharding = getLocal(type).getSharding();
    SmallVector<int64_t> padded;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      padded.push_back(type.getDimSize(dim) *
                       MeshOp(mesh).getProduct(getDimAxes(type, dim)));
    SmallVector<StringRef> axes = getDimAxes(type, mover.dim);
    llvm::erase(axes, mover.axis);
    sharding = sharding.withDimAxes(mover.dim, axes);
    if (mover.tensor == ProductForm::C) {
      SmallVector<StringRef> unreduced = sharding.getUnreducedAxes();
      unreduced.push_back(mover.axis);
      sharding = sharding.withUnreduced(unreduced);
    }
    return getLocalType(getGlobalShape(type), padded, type.getElementType(),
                        sharding, mesh);
  }

  MatmulOp op;
  MeshOp mesh;
  const optimus::CostModel &costs;
  ProductSharding sharding;
  int stationary = 0, streamed = 0;
  /// Of the streamed dimension, each on one rank in either tensor.
  int64_t blocks = 1;
  SmallVector<Mover, 2> movers;
  /// M, K and N of the local product with the streamed group whole.
  int64_t extents[3];
};

/// Products with one number of panels, or whole tensors for all of them. A
/// tensor of several products moves once.
class TunableGroup {
public:
  TunableGroup(ArrayRef<TunableProduct> products, MeshOp mesh,
               const optimus::CostModel &costs)
      : products(products), mesh(mesh), costs(costs) {
    for (const TunableProduct &product : products)
      for (const Mover &mover : product.getMovers())
        if (llvm::none_of(movers, [&](const Mover &other) {
              return other.moved == mover.moved && other.axis == mover.axis;
            }))
          movers.push_back(mover);
  }

  /// Whether the streamed dimensions divide into so many panels.
  bool canHave(int64_t panels) const {
    return llvm::all_of(products, [&](const TunableProduct &product) {
      return product.canHave(panels);
    });
  }

  /// Whether so many panels have an owner each.
  bool haveOwners(int64_t panels) const {
    return llvm::all_of(
        movers, [&](const Mover &mover) { return mover.hasOwners(panels); });
  }

  /// Bytes that a rank has beside its own parts: two panels of each tensor that
  /// moves, or all of it. Of results that move whole, one at a time.
  double getExtraBytes(int64_t panels) const {
    double bytes = 0, result = 0;
    for (const Mover &mover : movers) {
      if (panels > 1)
        bytes += 2 * mover.bytes / panels;
      else if (mover.isResult())
        result = std::max(result, mover.bytes);
      else
        bytes += mover.bytes;
    }
    for (const TunableProduct &product : products)
      bytes += product.getSumBytes(panels);
    return bytes + result;
  }

  /// Panels, one after another: the next one moves while one is multiplied. The
  /// first of what was not there early, and the last of a result, are waited
  /// for.
  double pricePanels(int64_t panels) const {
    double first = 0, last = 0, slowest = 0;
    llvm::StringMap<double> busy;
    for (const Mover &mover : movers) {
      double seconds = priceMove(mover, panels);
      slowest = std::max(slowest, busy[costs.getLink(mover.axis)] += seconds);
      if (mover.isLate) continue;
      if (mover.isResult())
        last += seconds;
      else if (!mover.isEarly)
        first = std::max(first, seconds);
    }
    double product = priceProducts(panels);
    double busiest = std::max(product, slowest);
    return getMean(std::max(panels * slowest, first + (panels - 1) * busiest + product + last),
                   panels * busiest);
  }

  /// All of it at once, on both axes together. An early tensor keeps its link
  /// as busy as the others do.
  double priceWhole() const {
    double operands = 0, results = 0, slowest = 0;
    llvm::StringMap<double> busy, due;
    for (const Mover &mover : movers) {
      double seconds = priceMove(mover, 1);
      StringRef link = costs.getLink(mover.axis);
      slowest = std::max(slowest, busy[link] += seconds);
      if (mover.isLate) continue;
      if (mover.isResult())
        results += seconds;
      else if (!mover.isEarly)
        operands = std::max(operands, due[link] += seconds);
    }
    double product = priceProducts(1);
    return getMean(std::max(slowest, operands + product + results),
                   std::max(slowest, product));
  }

private:
  /// Of the time with nothing else to do meanwhile, and of that in a program
  /// whose other commands fill all gaps: a group alone does not know which.
  static double getMean(double alone, double filled) {
    static const double w = getenv("TUNEW") ? atof(getenv("TUNEW")) : 0.5; return w * alone + (1 - w) * filled;
  }

  double priceMove(const Mover &mover, int64_t panels) const {
    return costs.getCollectiveSeconds(mover.getKind(panels),
                                      optimus::getRankGroup(mesh, mover.axis),
                                      mover.bytes / panels);
  }

  /// One panel of all products.
  double priceProducts(int64_t panels) const {
    double seconds = 0;
    for (const TunableProduct &product : products)
      seconds += product.price(panels);
    for (const Mover &mover : movers)
      seconds += pricePacking(mover, panels);
    return seconds;
  }

  /// Copies that pack and unpack columns for collectives of stretches: an
  /// owner's panel, or a rank's part of one and the blocks of all ranks.
  double pricePacking(const Mover &mover, int64_t panels) const {
    if (mover.isContiguous || !costs.packsColumns())
      return 0;
    double bytes = mover.bytes / panels;
    if (mover.hasOwners(panels))
      return costs.getCopySeconds(bytes);
    int64_t copies = mover.ranks + (panels > 1 ? 1 : 0);
    return copies * costs.getCopySeconds(bytes / mover.ranks);
  }

  ArrayRef<TunableProduct> products;
  MeshOp mesh;
  const optimus::CostModel &costs;
  SmallVector<Mover> movers;
};

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
    for (ArrayRef<Operation *> group : groups)
      tune(group, *costs, alive);
    optimus::nameValues(function.front());
  }

private:
  /// Products of a group have one number of panels, or all move whole.
  void tune(ArrayRef<Operation *> ops, const optimus::CostModel &costs,
            const LiveBytes &alive) {
    StringRef function_name = ops.front()->getParentOfType<func::FuncOp>().getName();
    std::vector<TunableProduct> products;
    double aliveHere = 0;
    for (Operation *op : ops) {
      aliveHere = std::max(aliveHere, alive.at.lookup(op));
      auto product = dyn_cast<MatmulOp>(op);
      if (!product)
        continue;
      products.emplace_back(product, costs);
      // A user's choice stands; a product that nothing moves of has none.
      if (op->hasAttr(OptimusDialect::kMove) ||
          failed(products.back().describe(getSum(product, ops))))
        return;
    }
    numProducts += products.size();
    TunableGroup group(products, optimus::getMesh(ops.front()), costs);
    const int64_t given = products.front().getOp().getPanels();
    // The need of the given number is granted.
    double granted =
        std::max({group.getExtraBytes(given), double(maxWholeBytes),
                  (1 + (getenv("TUNES") ? atof(getenv("TUNES")) : maxShare)) * alive.most - aliveHere});
    int64_t best = given;
    double bestSeconds = group.pricePanels(given);
    if (panels > 0) {
      for (best = panels; !group.canHave(best);)
        --best;
      bestSeconds = group.pricePanels(best);
    } else {
      for (int64_t number = 2 * given;
           number <= std::min(maxFactor * given, kMostPanels); number += given)
        if (group.canHave(number))
          if (double seconds = group.pricePanels(number);
              seconds < (1 - kGain) * bestSeconds)
            std::tie(best, bestSeconds) = std::pair(number, seconds);
    }
    double whole = group.priceWhole();
    bool movesWhole = move == "whole" ||
                      (move == "auto" && group.getExtraBytes(1) <= granted &&
                       whole < (1 - kGain) * bestSeconds);
    if (panels == 0 && move != "whole") {
      double most = (1 - kGain) * (movesWhole ? whole : bestSeconds);
      for (int64_t number = 2; number <= kMostPanels; number *= 2)
        if (group.canHave(number) && !group.haveOwners(number) &&
            group.getExtraBytes(number) <= granted)
          if (double seconds = group.pricePanels(number); seconds < most) {
            std::tie(best, most) = std::pair(number, seconds);
            movesWhole = false;
          }
    }
    if (getenv("TUNEDBG")) { llvm::errs() << function_name << " alive " << aliveHere/1e6 << " of " << alive.most/1e6 << " MB; prices"; for (int64_t n = 1; n <= 64; n *= 2) if (group.canHave(n)) llvm::errs() << ' ' << n << ':' << group.pricePanels(n)*1e3; llvm::errs() << ' '; }
    (getenv("TUNEDBG") ? llvm::errs() : llvm::nulls()) << products.size() << " products, the first of "
           << optimus::describeLocation(products.front().getOp().getLoc())
           << ": panels " << given << " -> " << best << " in "
           << bestSeconds * 1e3 << " ms, whole in " << whole * 1e3 << " ms, "
           << group.getExtraBytes(1) << " of " << granted << " bytes; "
           << (movesWhole ? "whole" : "panels") << "\n";
    if (movesWhole) {
      moveWhole(ops, products);
      numWhole += products.size();
    } else if (best != given) {
      for (TunableProduct &product : products)
        product.getOp().setPanels(best);
      numMorePanels += products.size();
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
  static inline double kGain = getenv("TUNEG") ? atof(getenv("TUNEG")) : 0.05;
  optimus::Pricing pricing;
};
} // namespace

std::unique_ptr<Pass> ccl::createTuneProductsPass(
    const TuneProductsPassOptions &options,
    std::shared_ptr<const optimus::MeasuredCosts> measured) {
  return std::make_unique<TuneProductsPass>(options, std::move(measured));
}
