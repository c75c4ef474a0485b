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

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_KERNELS_TABLEENTRY_H
