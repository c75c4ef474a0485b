//===- CheckSizes.h - Whether a mesh leaves sizes countable -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensors of a program have bounds of their own (Sizes.h). Padding for a mesh
// can exceed them, and so can the tensors of a rank and the total moved by all
// ranks. This is the last place where that is a mistake of whoever chose
// program and mesh; later passes count on it.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_CHECKSIZES_H
#define OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_CHECKSIZES_H

#include "optimus/Analysis/DimensionClasses.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

/// Checks that every value of a function of whole tensors is a tensor with its
/// padding, too.
LogicalResult checkPadding(func::FuncOp function,
                           const DimensionClasses &classes);

/// Warns, once, of dimensions that become a tenth larger or more by padding.
void warnOfPadding(ModuleOp module, const DimensionClasses &classes);

/// Checks the totals held and moved by a partitioned function, with room for
/// additions by later passes: values computed again, tensors that move whole.
LogicalResult checkTotals(func::FuncOp function, MeshOp mesh);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_CHECKSIZES_H
