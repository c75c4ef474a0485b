//===- Permutation.h - The order of a data set's windows --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PERMUTATION_H
#define OPTIMUS_SUPPORT_PERMUTATION_H

#include <cstdint>
#include <vector>

namespace optimus_support {

/// The permutation of [0, n) of one epoch: from the identity, for i = n-1 down
/// to 1, elements i and PhiloxSequence(seed, kShuffleStream, epoch).below(i+1)
/// are exchanged (Fisher and Yates, in Durstenfeld's order).
std::vector<uint64_t> permutation(uint64_t n, uint64_t seed, uint64_t epoch);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_PERMUTATION_H
