//===- ShardingPropagation.h - Shardings that follow ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_SHARDINGPROPAGATION_H
#define OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_SHARDINGPROPAGATION_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::optimus {

/// Spreads the shardings of some values of a function to the others, along
/// factors of rules that are not contracted: from operands to results, and from
/// results and other operands to operands, until nothing more follows. What
/// follows from nothing is whole.
///
///   %x: [{row}, {}] by its annotation        %w: nothing known
///   %y = matmul %x, %w                       rule (m, k), (k, n) -> (m, n)
///   %z = gelu %y                             rule (m, n) -> (m, n)
///   m over row: %x -> %y -> %z; k does not spread to %w, being contracted
///   -> %w: [{}, {}], %y: [{row}, {}], %z: [{row}, {}]
class ShardingPropagation {
public:
  ShardingPropagation(func::FuncOp function, MeshOp mesh)
      : function(function), mesh(mesh) {}

  /// How a value lies. `why` says who said so, as "by its annotation", and
  /// outlives this.
  void decide(Value value, ShardingAttr sharding, StringRef why);
  /// Fails on conflicting shardings of a dimension, and says on which
  /// two paths.
  LogicalResult run();
  ShardingAttr get(Value value) const;

private:
  struct Source {
    Value value;
    int64_t dim;
  };
  struct Dim {
    bool isKnown = false;
    SmallVector<StringRef> axes;
    /// Where it comes from; null where it was decided.
    Source source = {};
  };
  struct State {
    SmallVector<Dim> dims;
    /// Of what was decided.
    ShardingAttr sharding;
    StringRef why;
  };

  /// Whether anything became known.
  FailureOr<bool> forward(Operation *op);
  FailureOr<bool> backward(Operation *op);
  FailureOr<bool> follow(Operation *op, Value value, int64_t dim,
                         ArrayRef<Source> sources);
  /// "over "row" as h.0.ln_1, by its annotation, through h.0.attn.q".
  std::string describe(Source source) const;
  const Dim &getDim(Source source) const {
    return states.find(source.value)->second.dims[source.dim];
  }

  func::FuncOp function;
  MeshOp mesh;
  llvm::DenseMap<Value, State> states;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_SHARDINGPROPAGATION_H
