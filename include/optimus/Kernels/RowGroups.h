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

/// Rows [begin, end), the group of this number.
struct RowGroup {
  Value number, begin, end;
};

/// How a target does a few rows by turns as rows and as columns.
class RowGroups {
public:
  virtual ~RowGroups() = default;

  /// How many rows are done together.
  virtual int64_t getTogether() const = 0;

  /// Writes the loop over the groups of `rows` rows, of `together` each.
  virtual void forGroups(KernelBuilder &k, int64_t rows, int64_t together,
                         function_ref<void(const RowGroup &)> body) const = 0;
  /// Covers the rows of a group, each as an iteration of rows.
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
