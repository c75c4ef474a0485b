//===- Recomputation.h - What of a forward may run again --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A function that differentiates is straight-line: the forward pass, the
// operation that makes the loss and its gradient, the backward pass. Between
// forward and backward, the values used by both are kept in memory or
// recomputed from kept ones.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_CCL_TRANSFORMS_RECOMPUTATION_H
#define OPTIMUS_DIALECT_CCL_TRANSFORMS_RECOMPUTATION_H

#include "optimus/Dialect/CCL/Transforms/RecomputePolicy.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::ccl {

using ValueSet = llvm::DenseSet<Value>;

/// The forward and the backward of one function, and what lives between them.
class Recomputation {
public:
  /// Nothing where a function makes no loss, or is not one block.
  static std::optional<Recomputation> of(func::FuncOp function);

  /// The operations before the loss operation, the loss operation itself (it
  /// makes the loss and its gradient), and those after it, without the
  /// terminator.
  ArrayRef<Operation *> getForward() const { return forward; }
  Operation *getBoundary() const { return boundary; }
  ArrayRef<Operation *> getBackward() const { return backward; }

  /// Whether anything after the loss uses an activation.
  bool hasBackward() const;

  /// Where an operation stands in the function.
  int64_t getPosition(Operation *op) const { return position.lookup(op); }
  bool isForward(Value value) const;
  /// Whether the forward makes a value from the batch; parameters in any layout
  /// are no activations.
  bool isActivation(Value value) const { return activations.contains(value); }
  /// Whether an operation of the forward may run again, to the bit. A product
  /// that adds to an operand where it lies may not: a second run would need
  /// that operand. The first run would then have to add elsewhere, and would
  /// round otherwise there.
  bool isRepeatable(Operation *op) const;
  /// Whether what runs again gathers a parameter anew for this value: the
  /// forward makes it from parameters alone through a collective, and the
  /// backward has no use for it. Kept, it would lie there from layer to layer:
  /// w [h/R, f/C] → all_gather over row [h, f/C] → a recomputed product.
  bool isRefetched(Value value) const { return refetched.contains(value); }

  /// What a policy recomputes. `layer` keeps the cut after every so many
  /// layers; with 0, after as many as make the estimated peak least.
  ValueSet select(RecomputePolicy policy, size_t layersPerCut = 0) const;

  /// Makes the backward recompute `repeated`, activations made by repeatable
  /// operations, and erases the operations without uses afterwards. Returns how
  /// many operations run again.
  int64_t apply(const ValueSet &repeated) &&;

private:
  Recomputation(Operation *boundary);

  void findActivations();
  void findRefetched();
  void keepBuffersApart(Operation *op, Operation *original);

  Block *block;
  Operation *boundary;
  SmallVector<Operation *> forward, backward;
  llvm::DenseMap<Operation *, int64_t> position;
  /// The position of the last operation that used each value of the forward.
  llvm::DenseMap<Value, int64_t> lastUse;
  ValueSet activations, refetched;
};

} // namespace mlir::ccl

#endif // OPTIMUS_DIALECT_CCL_TRANSFORMS_RECOMPUTATION_H
