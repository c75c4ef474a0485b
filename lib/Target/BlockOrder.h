//===- BlockOrder.h - The order of operations that move ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `Operation::isBeforeInBlock` numbers the whole block anew after each move: n
// moves in a block of n operations take n² steps. Here an operation that moves
// takes a number between those of its neighbours, and all others keep theirs.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_BLOCKORDER_H
#define OPTIMUS_LIB_TARGET_BLOCKORDER_H

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::optimus {

/// The order of a block's operations, which a rewriter keeps up to date as its
/// listener:
///
///   a 2^32, b 2^33, c 3·2^32    and c moves before b    a, c 2^32 + 2^26, b
class BlockOrder : public RewriterBase::Listener {
public:
  /// Numbers the operations of a block, and forgets the block before.
  void begin(Block &block);

  /// Whether `a` is before `b`, both in the block.
  bool isBefore(Operation *a, Operation *b) const;

private:
  void notifyOperationInserted(Operation *op,
                               OpBuilder::InsertPoint previous) override;
  void notifyOperationErased(Operation *op) override { numbers.erase(op); }

  /// Over a thousand that follow one another to a place have a number there.
  static constexpr uint64_t kStride = uint64_t(1) << 32;

  Block *block = nullptr;
  llvm::DenseMap<Operation *, uint64_t> numbers;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_BLOCKORDER_H
