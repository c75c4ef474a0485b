//===- Finite.h - Whether a model is fit to be kept -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_FINITE_H
#define OPTIMUS_RUNTIME_CHECKPOINT_FINITE_H

#include <span>

namespace optrt {

/// The first element that is infinite or no number, or null. Costs less than
/// copying the elements.
const float *findNotFinite(std::span<const float> elements);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_FINITE_H
