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
  /// All of the tensor that one group of ranks along the axis has, in bytes.
  double bytes;
  /// It is there before the product is due: a parameter.
  bool isEarly;
};

/// A distributed product, the ways in which it can run and their prices.
class TunableProduct {
public:
  TunableProduct(MatmulOp op, const optimus::CostModel &costs)
      : op(op), mesh(optimus::getMesh(op)), costs(costs) {}

  LogicalResult describe() {
    FailureOr<ProductSharding> found = getProductSharding(op);
    FailureOr<ProductForm> form = getProductForm(op);
    if (failed(found) || failed(form))
      return failure();
    sharding = *found;
    stationary = form->stationary;
    constexpr int streamedOf[3] = {2, 0, 1};
    streamed = streamedOf[stationary];
    for (int tensor = 0; tensor < 3; ++tensor) {
      StringRef axis = sharding.axes[tensor][streamed];
      if (tensor == stationary || axis.empty())
        continue;
      int64_t ranks = *mesh.getAxisSize(axis);
      auto type = getType(tensor);
      movers.push_back({tensor, sharding.dims[tensor][streamed], axis, ranks,
                        1.0 * optimus::getBytes(type) * ranks,
                        isa<BlockArgument>(getValue(tensor))});
    }
    countExtents();
    return success(!movers.empty());
  }

  /// The streamed dimension where it is whole on a rank's axis: what panels
  /// divide.
  int64_t getStreamedExtent() const {
    const Mover &mover = movers.front();
    return getType(mover.tensor).getDimSize(mover.dim) * mover.ranks;
  }

  /// Bytes that a rank has beside its own parts when tensors move whole.
  double getWholeBytes() const {
    double bytes = 0;
    for (const Mover &mover : movers)
      bytes += mover.bytes;
    return bytes;
  }

  /// Panels, one after another: the next one moves while one is multiplied. The
  /// first of what was not there early, and the last of a result, are waited
  /// for.
  double pricePanels(int64_t panels) const {
    double first = 0, last = 0, slowest = 0;
    llvm::StringMap<double> busy;
    for (const Mover &mover : movers) {
      bool isResult = mover.tensor == ProductForm::C;
      double seconds = costs.getCollectiveSeconds(
          isResult ? CollectiveKind::Reduce : CollectiveKind::Broadcast,
          getGroup(mover), mover.bytes / panels);
      slowest = std::max(slowest, busy[costs.getLink(mover.axis)] += seconds);
      if (isResult)
        last += seconds;
      else if (!mover.isEarly)
        first = std::max(first, seconds);
    }
    double product = priceProduct(panels);
    return first + (panels - 1) * std::max(product, slowest) + product + last;
  }

  /// All of it at once, on both axes together.
  double priceWhole() const {
    double operands = 0, result = 0;
    llvm::StringMap<double> busy;
    for (const Mover &mover : movers) {
      if (mover.tensor == ProductForm::C)
        result = costs.getCollectiveSeconds(CollectiveKind::ReduceScatter,
                                            getGroup(mover), mover.bytes);
      else if (!mover.isEarly)
        operands = std::max(
            operands, busy[costs.getLink(mover.axis)] +=
                      costs.getCollectiveSeconds(CollectiveKind::AllGather,
                                                 getGroup(mover), mover.bytes));
    }
    return operands + priceProduct(1) + result;
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

  double priceProduct(int64_t panels) const {
    int64_t extent[3] = {extents[0], extents[1], extents[2]};
    extent[streamed] = std::max<int64_t>(1, extent[streamed] / panels);
    MatmulOp product = op;
    return costs.getGemmSeconds(extent[0], extent[2], extent[1],
                                product.getTransposeA(),
                                product.getTransposeB(),
                                getType(0).getElementType());
  }

  optimus::RankGroup getGroup(const Mover &mover) const {
    return optimus::getRankGroup(mesh, mover.axis);
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
  SmallVector<Mover, 2> movers;
  /// M, K and N of the local product with the streamed group whole.
  int64_t extents[3];
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
    for (ArrayRef<Operation *> group : groups)
      tune(group, *costs);
    if (!groups.empty())
      optimus::nameValues(function.front());
  }

private:
  /// Products of a group have one number of panels, or all move whole.
  void tune(ArrayRef<Operation *> group, const optimus::CostModel &costs) {
    std::vector<TunableProduct> products;
    for (Operation *op : group) {
      auto product = dyn_cast<MatmulOp>(op);
      if (!product)
        continue;
      products.emplace_back(product, costs);
      // A user's choice stands; a product that nothing moves of has none.
      if (op->hasAttr(OptimusDialect::kMove) ||
          failed(products.back().describe()))
        return;
    }
    numProducts += products.size();
    auto addUp = [&](auto price) {
      double seconds = 0;
      for (const TunableProduct &product : products)
        seconds += price(product);
      return seconds;
    };
    auto pricePanels = [&](int64_t panels) {
      return addUp([&](const TunableProduct &product) {
        return product.pricePanels(panels);
      });
    };
    int64_t least = products.front().getOp().getPanels(), best = least;
    double bestSeconds = pricePanels(least);
    // Multiples of the least number are panels of one owner each, too.
    int64_t most = panels > 0                ? panels
                   : maxFactor < kMostPanels ? maxFactor * least
                                             : kMostPanels;
    for (int64_t number = 2 * least; number <= std::min(most, kMostPanels);
         number += least) {
      if (llvm::any_of(products, [&](const TunableProduct &product) {
            return product.getStreamedExtent() % number != 0;
          }))
        continue;
      double seconds = pricePanels(number);
      if (panels > 0 || seconds < (1 - kGain) * bestSeconds)
        std::tie(best, bestSeconds) = std::pair(number, seconds);
    }
    double bytes = addUp([](const TunableProduct &product) {
      return static_cast<double>(product.getWholeBytes());
    });
    double whole = addUp(
        [](const TunableProduct &product) { return product.priceWhole(); });
    bool movesWhole =
        move == "whole" || (move == "auto" && bytes <= maxWholeBytes &&
                            whole < (1 - kGain) * bestSeconds);
    LDBG() << products.size() << " products, the first of "
           << optimus::describeLocation(products.front().getOp().getLoc())
           << ": panels " << least << " -> " << best << " in "
           << bestSeconds * 1e3 << " ms, whole in " << whole * 1e3 << " ms, "
           << bytes << " bytes; " << (movesWhole ? "whole" : "panels");
    if (movesWhole) {
      moveWhole(group, products);
      numWhole += products.size();
    } else if (best != least) {
      for (TunableProduct &product : products)
        product.getOp().setPanels(best);
      numMorePanels += products.size();
    }
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
