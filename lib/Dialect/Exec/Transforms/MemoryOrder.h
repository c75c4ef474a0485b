//===- MemoryOrder.h - An order in which few bytes are alive ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reorders commands so that fewer bytes are alive at the fullest time. Finding
// the best order is NP-hard (register sufficiency), so this is a local search:
// around the peak it delays the producers of live buffers, or advances their
// last users. docs/scheduling.md describes it. It knows no IR.
//
//   0: makes a (8 bytes)                    0 a        8
//   1: makes b (8 bytes)                    2 a -> x   9
//   2: reads a, makes x (1 byte)      ->    1 b        9, with x
//   3: reads b and x                        3          9
//   peak 17 at 2                            peak 9
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_MEMORYORDER_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_MEMORYORDER_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace mlir::exec {

struct OrderProblem {
  struct Node {
    /// Nodes, by number: those that it must come after and before.
    SmallVector<unsigned, 4> before, after;
    /// Buffers that it touches, by number, once each. One is alive from the
    /// first node that touches it until the last.
    SmallVector<unsigned, 4> buffers;
  };

  /// In an order that respects `before`.
  std::vector<Node> nodes;
  /// The bytes of each buffer.
  std::vector<int64_t> bytes;
};

/// The most bytes alive at a node when they come in this order.
int64_t computePeak(const OrderProblem &problem, ArrayRef<unsigned> order);

/// All nodes in an order that respects `before`, with no more bytes at the peak
/// than the one they are in.
std::vector<unsigned> orderForMemory(const OrderProblem &problem);

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_MEMORYORDER_H
