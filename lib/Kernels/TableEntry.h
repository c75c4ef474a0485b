//===- TableEntry.h - Rows of tables by token -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_KERNELS_TABLEENTRY_H
#define OPTIMUS_LIB_KERNELS_TABLEENTRY_H

#include "optimus/Kernels/KernelBuilder.h"

namespace mlir::optimus {

/// Calls `inside(row)` if the table's rows [first, first + rows) hold the entry
/// at `position` of the i32 buffer, else `outside`.
void whenInTable(KernelBuilder &k, KernelBuffer entries, Value position,
                 Value first, int64_t rows, function_ref<void(Value)> inside,
                 function_ref<void()> outside = nullptr);

/// Where the positions of a cache's sequences are: a table i32 [sequences,
/// pages] (optimus-support/CachePages.h).
struct PageTable {
  KernelBuffer entries;
  int64_t sequences, pages;
  int64_t ofEach; ///< pages of the cache for each sequence

  /// The page of a position, by its entry: below 0, or not below
  /// sequences * ofEach, where that is wrong.
  Value findPage(KernelBuilder &k, Value sequence, Value position) const;
  /// The row of a position in such a page.
  Value getRow(KernelBuilder &k, Value page, Value position) const;
  /// Calls `inside` with the row if there is such a page, else `outside`.
  void whenThere(KernelBuilder &k, Value sequence, Value position,
                 function_ref<void(Value row)> inside,
                 function_ref<void()> outside = nullptr) const;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_KERNELS_TABLEENTRY_H
