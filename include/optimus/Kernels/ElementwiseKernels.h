//===- ElementwiseKernels.h - One element at a time, and sums of rows -----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_ELEMENTWISEKERNELS_H
#define OPTIMUS_KERNELS_ELEMENTWISEKERNELS_H

#include "optimus/Kernels/Kernel.h"

#include "mlir/IR/OpDefinition.h"

namespace mlir::optimus::kernels {

/// An operation with an ElementwiseBodyOpInterface: operand0, operand1, … ->
/// result0, …, or by the names that it gives them. Results have [rows*cols]
/// elements; operands have as many, cols where `repeats` is 1, or one where it
/// is 2. Each result is in place of any operand of its extent, or of those that
/// the operation names.
struct Elementwise {
  StringAttr op;
  DictionaryAttr attributes;
  int64_t rows, cols;
  SmallVector<int64_t> repeats; ///< of each operand, 0 to 2
  int64_t numResults;

  OPTIMUS_CHECKED_KERNEL("elementwise");

private:
  /// Whether operands and results are as many as the operation names.
  bool fitsNames() const;
};

/// The kernel of an operation of this name; its operands have these numbers of
/// elements.
Elementwise elementwise(StringAttr op, DictionaryAttr attributes,
                        ArrayRef<int64_t> operands, int64_t numResults);
/// The kernel of an operation with named operands, as many as names, on n
/// elements.
Elementwise elementwise(StringAttr op, DictionaryAttr attributes, int64_t n,
                        unsigned numOperands);
/// That of an operation on local tensors.
Elementwise elementwise(Operation *op);
/// That of an operation with one result and no attributes.
template <typename OpT>
Elementwise elementwise(MLIRContext *context, ArrayRef<int64_t> operands) {
  return elementwise(StringAttr::get(context, OpT::getOperationName()),
                     DictionaryAttr::get(context), operands, 1);
}

/// x[rows*cols] -> result[cols], the sums of the columns.
struct SumLeading {
  int64_t rows, cols;

  OPTIMUS_KERNEL("sum_leading", rows, cols);
};

/// result[rows*cols]: 1 where the column is the row over rows / cols, else 0.
struct Repetition {
  int64_t rows, cols;

  OPTIMUS_CHECKED_KERNEL("repetition");
};

/// result[n], all of them `value`.
struct Splat {
  int64_t n;
  double value;

  OPTIMUS_KERNEL("splat", n, value);
};

/// x[n], i32 random[5] -> result[n]; scalars stream and then `addends` more,
/// whose sum is the index in the whole tensor of x's first element; in place. x
/// is [local], a part of a tensor [whole], n elements in all.
struct Dropout {
  SmallVector<int64_t> local, whole;
  int64_t addends;
  double rate;

  OPTIMUS_CHECKED_KERNEL("dropout");
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_ELEMENTWISEKERNELS_H
