//===- RowGroups.h - Rows that are done together ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_ROWGROUPS_H
#define OPTIMUS_KERNELS_ROWGROUPS_H

#include "optimus/Kernels/KernelSchedule.h"

namespace mlir::optimus {

/// Rows [begin, end) of the group of this number.
struct RowGroup {
  Value number, begin, end;
  /// Whether rows of the group were done before these; null where never.
  Value isLater;
};

/// How a target does a few rows by turns as rows and as columns. The rows of a
/// group have one sum:
///   65,536 rows in groups of 128, by 32 in a turn    ->    512 parts of a sum
class RowGroups {
public:
  virtual ~RowGroups() = default;

  /// How many of `rows` rows make a group.
  virtual int64_t getTogether(int64_t rows) const = 0;

  /// Writes the loop over the groups of `rows` rows, of `together` each.
  virtual void forGroups(KernelBuilder &k, int64_t rows, int64_t together,
                         function_ref<void(const RowGroup &)> body) const = 0;
  /// Writes the loop over the turns of a group of so many rows.
  virtual void forTurns(KernelBuilder &k, const RowGroup &group,
                        int64_t together,
                        function_ref<void(const RowGroup &)> body) const = 0;
  /// Covers the rows of a turn, each as an iteration of rows.
  virtual void forRows(KernelBuilder &k, const RowGroup &group,
                       IndexFn body) const = 0;
  /// Covers columns, each of which one lane has.
  virtual void forColumns(KernelBuilder &k, int64_t cols,
                          LanesFn body) const = 0;
  /// All rows and columns before are done when any goes on.
  virtual void separate(KernelBuilder &k) const = 0;
};

} // namespace mlir::optimus

#endif // OPTIMUS_KERNELS_ROWGROUPS_H
