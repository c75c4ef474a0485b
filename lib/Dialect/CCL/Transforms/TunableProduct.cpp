//===- TunableProduct.cpp - One product that moves --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TunableProduct.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

using namespace mlir;
using namespace mlir::ccl;
using exec::CollectiveKind;
using optimus::MeshOp;

/// Bytes of an element of a sum.
static constexpr int64_t kSumBytes = 4;

CollectiveKind Mover::getKind(int64_t panels) const {
  if (hasOwners(panels))
    return isResult() ? CollectiveKind::Reduce : CollectiveKind::Broadcast;
  return isResult() ? CollectiveKind::ReduceScatter : CollectiveKind::AllGather;
}

/// Whether a value is there from the beginning, or as soon as it is narrowed.
static bool isEarly(Value value) {
  Operation *op = value.getDefiningOp();
  return !op ||
         (isa<optimus::CastOp>(op) && isa<BlockArgument>(op->getOperand(0)));
}

/// Whether all uses come after the last product, or lead there by operations on
/// nothing else: a gradient is reduced where it is made.
bool TunableProduct::isLate(Value value) const {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (!user->isBeforeInBlock(last))
      return user != last;
    return user->getNumOperands() == 1 && user->getNumResults() == 1 &&
           isLate(user->getResult(0));
  });
}

LogicalResult TunableProduct::describe(Value sum) {
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

bool TunableProduct::canHave(int64_t panels) const {
  const Mover &mover = movers.front();
  return canDivideIntoPanels(getType(mover.tensor).getDimSize(mover.dim) *
                                 mover.ranks,
                             blocks, panels);
}

double TunableProduct::getSumBytes(int64_t panels) const {
  bool hasSum = panels > 1 && stationary == ProductForm::C &&
                optimus::getElementBytes(getType(ProductForm::C)) < kSumBytes;
  return hasSum ? 1.0 * kSumBytes * extents[0] * extents[2] : 0;
}

double TunableProduct::price(int64_t panels) const {
  int64_t extent[3] = {extents[0], extents[1], extents[2]};
  extent[streamed] = std::max<int64_t>(1, extent[streamed] / panels);
  MatmulOp product = op;
  double bytes = 1.0 * optimus::getElementBytes(getType(0)) *
                 (extent[0] * extent[1] + extent[1] * extent[2]);
  if (panels > 1 && stationary == ProductForm::C)
    bytes += 2.0 * kSumBytes * extent[0] * extent[2];
  return costs.getGemmSeconds(extent[0], extent[2], extent[1],
                              product.getTransposeA(), product.getTransposeB(),
                              getType(0).getElementType(), bytes);
}

std::pair<Value, const Mover *> TunableProduct::moveWhole(
    llvm::DenseMap<std::pair<Value, StringRef>, Value> &gathered) {
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
      known = AllGatherOp::create(builder,
                                  optimus::withPart(op.getLoc(), "all_gather"),
                                  whole, operand, mover.axis, mover.dim);
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

Value TunableProduct::getValue(int tensor) const {
  MatmulOp product = op;
  return tensor == 0   ? product.getA()
         : tensor == 1 ? product.getB()
                       : product.getResult();
}

RankedTensorType TunableProduct::getType(int tensor) const {
  return cast<RankedTensorType>(getValue(tensor).getType());
}

/// What one rank multiplies when the streamed group is whole.
void TunableProduct::countExtents() {
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
RankedTensorType TunableProduct::getWholeType(const Mover &mover) const {
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
