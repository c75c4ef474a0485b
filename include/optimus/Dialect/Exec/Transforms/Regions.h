//===- Regions.h - Which memory accesses touch ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_TRANSFORMS_REGIONS_H
#define OPTIMUS_DIALECT_EXEC_TRANSFORMS_REGIONS_H

#include "optimus/Dialect/Exec/IR/Exec.h"

namespace mlir::exec {

/// Rows of a base buffer, all sizes in bytes: row r is
/// [begin + r·ld, begin + r·ld + width). One row is a plain stretch.
struct MemoryRegion {
  Value base;
  int64_t begin;
  int64_t rows;
  int64_t width;
  int64_t ld;

  int64_t getEnd() const { return begin + (rows - 1) * ld + width; }
  /// Whether it has all bytes from its begin to its end.
  bool isStretch() const { return rows == 1 || width == ld; }
  static MemoryRegion stretch(Value base, int64_t begin, int64_t end) {
    return {base, begin, 1, end - begin, end - begin};
  }

  /// False only where the two share no byte: other bases, other stretches, or
  /// other columns of rows of one length. Columns 0–3 and 4–7 of a matrix with
  /// 8 f32 a row, {begin 0, width 16, ld 32} and {begin 16, width 16, ld 32},
  /// are apart.
  bool mayOverlap(const MemoryRegion &other) const;

  /// True only where every byte of `other` is in this region.
  bool contains(const MemoryRegion &other) const;

  bool operator==(const MemoryRegion &) const = default;
};

using MemoryRegions = SmallVector<MemoryRegion, 4>;

/// The regions that `buffer` may stand for on some rank: all of it.
MemoryRegions getRegions(Value buffer);

/// The regions that a command touches by an access.
MemoryRegions getRegions(const Access &access);

/// The regions of the accesses of a command: read-only ones, and written ones.
struct CommandRegions {
  MemoryRegions read, written;
};
CommandRegions getRegions(CommandOpInterface command);

bool mayOverlap(ArrayRef<MemoryRegion> a, ArrayRef<MemoryRegion> b);

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_REGIONS_H
