//===- ComputeShapes.h - What of a rank's computations is timed -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_COMPUTESHAPES_H
#define OPTIMUS_RUNTIME_MEASURE_COMPUTESHAPES_H

#include "ComputeCosts.h"

namespace optrt {

// Each has features up to `largest`, a product any number of tokens.

/// Rows are tokens of a rank, or what a panel cuts; forward products have no
/// operand transposed and may have a bias, those of the input's gradient the
/// second transposed. Of their pairs of features each second one is left out,
/// like the black squares of a chess board: their neighbours are near. Those of
/// the weight's gradient have the first transposed, and k is tokens; how rows
/// lie in caches makes them uneven, so that all pairs are timed.
std::vector<GemmPoint> productShapes(int64_t largest);

/// Those also timed with operands outside of every cache, where it matters.
std::vector<const GemmPoint *>
chooseForCold(const std::vector<GemmPoint> &points);

/// Every second pair of features, as of products.
std::vector<PackPoint> packShapes(int64_t largest);

/// Heads, each with a mask and without, and its gradient.
std::vector<AttentionPoint> attentionShapes(int64_t largest);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_COMPUTESHAPES_H
