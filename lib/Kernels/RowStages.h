//===- RowStages.h - What kernels of rows make together ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_KERNELS_ROWSTAGES_H
#define OPTIMUS_LIB_KERNELS_ROWSTAGES_H

#include "optimus/Kernels/KernelBuilder.h"
#include "optimus/Kernels/RowChain.h"

namespace mlir::optimus::kernels {

/// Whether a stage is a sum of columns.
bool sumsColumns(const KernelDescription &description);

/// Describes the kernel that stages over the same rows make: their named
/// operands and scalars, each once, and a name that begins with `stem`. What a
/// sum of columns writes has a part for each `together` rows.
void describeStages(KernelDescription &description, StringRef stem,
                    ArrayRef<RowStage> stages, int64_t together = 1);

/// Writes what a stage does with a row.
void buildRow(KernelBuilder &k, const RowStage &stage, Value row);

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_LIB_KERNELS_ROWSTAGES_H
