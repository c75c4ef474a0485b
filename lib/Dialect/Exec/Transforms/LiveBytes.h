//===- LiveBytes.h - How much memory is alive, slot by slot -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_LIVEBYTES_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_LIVEBYTES_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

#include <cstdint>
#include <vector>

namespace mlir::exec {

/// The bytes alive at each slot of a program, under an upper bound, while live
/// ranges grow. Every operation takes logarithmic time in the number of slots.
///
///   bound 12; %a of 8 bytes at [0, 1], %b of 4 at [1, 2], %c of 8 at [3, 3]
///   growTo(%b, 3) -> true: 12 bytes at slot 3
///   growTo(%a, 2) -> true: 12 bytes; growTo(%a, 3) -> false: it would be 20
class LiveBytes {
public:
  LiveBytes(int64_t numSlots, int64_t bound);

  /// Counts a slot at which a buffer is touched, whatever the bound. Only
  /// allocations count. For the program as it is, before the first growth.
  void touch(Value base, int64_t slot);

  /// Counts a buffer between two slots, whatever the bound. An offloaded one is
  /// alive several times: each is added, in order.
  void addResident(Value base, int64_t first, int64_t last);

  /// Begins the counting: touches are complete.
  void seal();

  /// The same bytes under another bound.
  LiveBytes withBound(int64_t newBound) const {
    LiveBytes result = *this;
    result.bound = newBound;
    return result;
  }

  /// Lets the live ranges of `bases` include `slot` if no slot then exceeds the
  /// bound; returns whether it did.
  bool growTo(ArrayRef<Value> bases, int64_t slot) {
    return growTo(bases, slot, slot);
  }
  /// The same where `bases` are in use from `from` to `slot`: what is offloaded
  /// does not rest in between. The nearest of its live ranges grows.
  bool growTo(ArrayRef<Value> bases, int64_t from, int64_t slot);

  /// The last slot up to `slot` that growTo would include, starting where the
  /// bases are alive now; at least `from`.
  int64_t getFarthest(ArrayRef<Value> bases, int64_t from, int64_t slot) const;

  /// Whether more than the bound is alive at a slot, as where several
  /// collectives stand at one gap whose buffers follow each other.
  bool exceeds(int64_t slot) const;

  /// The last slot from `slot` on up to which all of `bases` are alive; any
  /// slot without one.
  int64_t getEnd(ArrayRef<Value> bases, int64_t slot) const;

private:
  struct Range {
    int64_t first, last;
  };
  struct Buffer {
    int64_t bytes;
    /// In order; none touches the next. One, unless it is offloaded.
    SmallVector<Range, 1> ranges;
  };

  /// The range that begins last up to a slot, else the first one.
  static const Range &findRange(const Buffer &buffer, int64_t slot);
  /// What a buffer's range is after it grew to slots.
  static Range getGrown(const Buffer &buffer, int64_t from, int64_t slot);

  void add(int64_t begin, int64_t end, int64_t bytes);
  void add(int64_t node, int64_t low, int64_t high, int64_t begin, int64_t end,
           int64_t bytes);
  /// The first slot of [begin, end) with more than `limit` bytes; else `end`.
  int64_t findAbove(int64_t node, int64_t low, int64_t high, int64_t begin,
                    int64_t end, int64_t limit) const;
  int64_t findAbove(int64_t begin, int64_t end, int64_t limit) const;

  int64_t numSlots, bound;
  llvm::DenseMap<Value, Buffer> buffers;
  /// A segment tree: the largest sum below each node without the additions
  /// above, and the additions to all of a node.
  std::vector<int64_t> largest, added;
};

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_LIVEBYTES_H
