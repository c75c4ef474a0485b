//===- ShardingRule.h - How an operation's dimensions relate ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_SHARDINGRULE_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_SHARDINGRULE_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::optimus {

/// What sharding a factor among ranks means to an operation.
enum class FactorKind {
  /// Each part of the result needs the same part of the operands.
  Parallel,
  /// Summed over: parts of the operands give partial sums of the result.
  Contracted,
  /// Reduced in the middle of the operation (a row of a norm, a vocabulary):
  /// the operation must be decomposed where this factor is sharded.
  Reduced,
  /// Never sharded.
  Whole,
};

/// What a dimension is in a transformer: what strategies have rules for. An
/// operation says it of those factors of which it knows it.
enum class DimensionClass {
  Other,
  Batch,
  Sequence,
  /// Heads of an attention; of keys and values where queries are in groups.
  Heads,
  /// The channels of a head, read whole by attention.
  Channels,
  /// The width of the residual stream.
  Hidden,
  /// What is between the two linears of a pair.
  Ffn,
  Vocabulary,
};

struct Factor {
  int64_t size;
  FactorKind kind;
  /// Whether a Whole factor may be padded: values computed from padding never
  /// reach the others.
  bool allowsPadding = false;
  /// Whether a Reduced or Whole factor may be sharded after all: the results of
  /// the ranks' own shards stand side by side in the result.
  bool standsAlone = false;
  DimensionClass dimension = DimensionClass::Other;
};

/// The place of an operand in the sum of a result.
enum class Contribution {
  /// With all other factors it makes one term.
  Factor,
  /// A term: a partial sum of the operand gives a partial sum of the result.
  Linear,
  /// A term is made of it alone, but not of a partial sum, as its squares are.
  Nonlinear,
};

/// The axes over which an operation shards a dimension of an operand.
struct OperandShards {
  unsigned operand;
  int64_t dim;
  SmallVector<StringRef> axes;
};

/// Each dimension of each operand and result belongs to one factor; dimensions
/// of the same factor have the same extent and are sharded alike.
struct ShardingRule {
  SmallVector<Factor> factors;
  /// operands[i][d] is the factor of dimension d of operand i.
  SmallVector<SmallVector<int64_t>> operands;
  SmallVector<SmallVector<int64_t>> results;

  /// Builds a rule from an einsum-like string, one letter a dimension:
  /// `fromEinsum(op, "bsh,h->bsh,bs", {{'h', FactorKind::Reduced}})`. Factors
  /// not named in `kinds` are Parallel. Extents are those of the types.
  /// `dimensions` are the classes of factors that the operation knows.
  static ShardingRule
  fromEinsum(Operation *op, StringRef spec,
             ArrayRef<std::pair<char, FactorKind>> kinds = {},
             ArrayRef<std::pair<char, DimensionClass>> dimensions = {});
};

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_SHARDINGRULE_H
