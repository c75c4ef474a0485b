//===- TunableProduct.h - What a way of moving a product takes --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The moving tensors of distributed products, and the time and memory of their
// movement in panels or whole. See docs/cost-model.md.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_CCL_TRANSFORMS_TUNABLEPRODUCT_H
#define OPTIMUS_LIB_DIALECT_CCL_TRANSFORMS_TUNABLEPRODUCT_H

#include "optimus/Analysis/CostModel.h"
#include "optimus/Dialect/CCL/IR/CCL.h"

#include "llvm/ADT/DenseMap.h"

namespace mlir::ccl {

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
  exec::CollectiveKind getKind(int64_t panels) const;
};

/// A distributed product, and the time that it multiplies for.
class TunableProduct {
public:
  /// Of a function with the product `last` as its last one.
  TunableProduct(MatmulOp op, Operation *last, const optimus::CostModel &costs)
      : op(op), last(last), mesh(optimus::getMesh(op)), costs(costs) {}

  /// Reads the form; the result is added to `sum`, or is it.
  LogicalResult describe(Value sum);

  /// Whether the streamed dimension divides into so many panels.
  bool canHave(int64_t panels) const;

  ArrayRef<Mover> getMovers() const { return movers; }
  MatmulOp getOp() const { return op; }

  /// Bytes of the sum in f32 that a narrow result has beside it.
  double getSumBytes(int64_t panels) const;

  /// The local product of a panel. One that is added to the others reads and
  /// writes their sum.
  double price(int64_t panels) const;

  /// Replaces the product by a local one of gathered operands. Operands that a
  /// product of its group gathered before are in `gathered`. Returns the
  /// product, and how its partial sums are reduced if they are.
  std::pair<Value, const Mover *>
  moveWhole(llvm::DenseMap<std::pair<Value, StringRef>, Value> &gathered);

private:
  Value getValue(int tensor) const;
  RankedTensorType getType(int tensor) const;
  bool isLate(Value value) const;
  void countExtents();
  RankedTensorType getWholeType(const Mover &mover) const;

  MatmulOp op;
  Operation *last;
  optimus::MeshOp mesh;
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
  TunableGroup(ArrayRef<TunableProduct> products, optimus::MeshOp mesh,
               const optimus::CostModel &costs);

  /// Whether the streamed dimensions divide into so many panels.
  bool canHave(int64_t panels) const;

  /// Whether so many panels have an owner each.
  bool haveOwners(int64_t panels) const;

  /// Bytes that a rank has beside its own parts: two panels of each tensor that
  /// moves, or all of it. Of results that move whole, one at a time.
  double getExtraBytes(int64_t panels) const;

  /// Panels, one after another: the next one moves while one is multiplied. The
  /// first of what was not there early, and the last of a result, are waited
  /// for.
  double pricePanels(int64_t panels) const;

  /// All of it at once, on both axes together. An early tensor keeps its link
  /// as busy as the others do.
  double priceWhole() const;

private:
  double priceMove(const Mover &mover, int64_t panels) const;
  double priceProducts(int64_t panels) const;
  double pricePacking(const Mover &mover, int64_t panels) const;

  ArrayRef<TunableProduct> products;
  optimus::MeshOp mesh;
  const optimus::CostModel &costs;
  SmallVector<Mover> movers;
};

} // namespace mlir::ccl

#endif // OPTIMUS_LIB_DIALECT_CCL_TRANSFORMS_TUNABLEPRODUCT_H
