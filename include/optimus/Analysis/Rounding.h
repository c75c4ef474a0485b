//===- Rounding.h - What rounding does to a function's results --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_ROUNDING_H
#define OPTIMUS_ANALYSIS_ROUNDING_H

#include "mlir/IR/Block.h"

namespace mlir::optimus {

/// How many roundings an element of an operation's result goes through, at
/// most: the lengths of the sums in its making, and a few for elementwise
/// computation. Nothing for what only moves elements. A rounding to a narrow
/// type counts as the equivalent number of roundings to f32: (u'/u)^2 of them,
/// where u' is its unit roundoff. Expects one rank's program on local tensors,
/// or whole ones.
double countRoundings(OpResult result);

/// The relative rounding errors of what a straight-line function returns, in
/// units of the unit roundoff u, if each operation handed on relative errors as
/// they are: the root of the sum of countRoundings() over all results that a
/// value is made from, each once. See docs/equivalence.md for the derivation
/// and its sources.
SmallVector<double> estimateRoundings(Block &body);

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_ROUNDING_H
