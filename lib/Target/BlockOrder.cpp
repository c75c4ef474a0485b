//===- BlockOrder.cpp - The order of operations that move -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockOrder.h"

using namespace mlir;
using namespace mlir::optimus;

void BlockOrder::begin(Block &newBlock) {
  block = &newBlock;
  numbers.clear();
  uint64_t number = 0;
  for (Operation &op : *block)
    numbers[&op] = number += kStride;
}

bool BlockOrder::isBefore(Operation *a, Operation *b) const {
  assert(numbers.contains(a) && numbers.contains(b));
  return numbers.lookup(a) < numbers.lookup(b);
}

void BlockOrder::notifyOperationInserted(Operation *op,
                                         OpBuilder::InsertPoint) {
  if (op->getBlock() != block)
    return;
  // The terminator stays last, so that there is a next one.
  Operation *previous = op->getPrevNode();
  uint64_t low = previous ? numbers.lookup(previous) : 0;
  uint64_t high = numbers.lookup(op->getNextNode());
  if (high - low < 2)
    return begin(*block);
  // Others follow to the same place, behind this one.
  constexpr uint64_t kShare = 64;
  numbers[op] = low + std::max<uint64_t>(1, (high - low) / kShare);
}
