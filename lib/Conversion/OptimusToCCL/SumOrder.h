//===- SumOrder.h - Sums that begin with products ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_SUMORDER_H
#define OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_SUMORDER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

/// Of nested sums of two products or more and other terms, adds the products
/// first, in their order, and then the others. So the products' partial sums
/// are added and reduced as one, where a residual in front would have each of
/// them reduced.
///
///   ((residual + p) + q) + r   becomes   ((p + q) + r) + residual
///
/// Not in narrow types where `roundsOnce`: there each product is reduced and
/// rounded as on one rank, and added in its order.
void addProductsFirst(func::FuncOp function, bool roundsOnce);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_OPTIMUSTOCCL_SUMORDER_H
