//===- CopyKernels.h - Rows that lie apart, copied --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_COPYKERNELS_H
#define OPTIMUS_KERNELS_COPYKERNELS_H

#include "optimus/Kernels/Kernel.h"

namespace mlir::optimus::kernels {

/// dst[r·dstLd + c] = src[r·srcLd + c] for r < rows and c < cols, bit by bit.
/// Both begin, and rows lie apart, at multiples of `unit` elements, a power of
/// two, of which a row has a whole number: so many are moved at a time, as far
/// as a load takes them. The number of rows is the launch's, at most `rows`.
struct CopyRows {
  int64_t rows, cols, srcLd, dstLd, unit;

  OPTIMUS_CHECKED_KERNEL("copy_rows");
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_COPYKERNELS_H
