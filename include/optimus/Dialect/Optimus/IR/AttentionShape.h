//===- AttentionShape.h - The extents of an attention -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_ATTENTIONSHAPE_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_ATTENTIONSHAPE_H

#include "mlir/IR/ValueRange.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace mlir::optimus {

/// The extents of an attention, read from its operands: q, k and v in one
/// tensor, or a tensor each. Strides and offsets are counted in elements.
struct AttentionShape {
  enum Part { Q = 0, K = 1, V = 2 };

  /// Reads operands that satisfy C1 of `optimus.attention`.
  explicit AttentionShape(ValueRange inputs);

  /// Whether operands satisfy C1: keys and values of a cache, or of the tokens.
  static bool isValid(ValueRange inputs, bool isCached);

  int64_t getNumHeads() const { return groups * queriesPerGroup; }
  /// The sequences that keys belong to, and the queries of each.
  int64_t getNumSequences() const { return isOfOneCache ? 1 : batch; }
  int64_t getNumQueries() const { return isOfOneCache ? batch : sequence; }
  /// Which operand, or gradient of one, holds a part, and where it begins
  /// there.
  unsigned getOperand(Part part) const { return isPacked ? 0 : part; }
  int64_t getOffset(Part part) const {
    return isPacked ? part * getNumHeads() * headDim : 0;
  }
  /// From a token's part to the next token's.
  int64_t getStride(Part part) const;

  /// The shapes of the result and of lse.
  SmallVector<int64_t> getResultShape() const;
  SmallVector<int64_t> getLseShape() const;

  /// Terms of the sharding rule: of the operands, joined by commas, of the
  /// result and of lse. Batch is `b`, sequence `s`, groups `g`, heads of
  /// queries in a group `r`, capacity `c`, and `u` the one sequence of a cache.
  std::string getInputTerms(bool isCached = false) const;
  std::string getResultTerm() const;
  std::string getLseTerm() const;

  int64_t batch, sequence;
  int64_t capacity;        ///< keys of a sequence
  int64_t groups;          ///< heads of keys and values
  int64_t queriesPerGroup; ///< heads of queries that each of them serves
  int64_t headDim;
  bool isPacked;
  /// All queries are tokens of the one sequence of a cache: batch is how many.
  bool isOfOneCache;
  /// q has a dimension for the heads of queries in a group.
  bool hasGroupDim;
};

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_ATTENTIONSHAPE_H
