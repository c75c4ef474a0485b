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

/// Element `index` < n of another permutation of [0, n), computed alone: for an
/// n whose whole permutation takes too much memory.
///
/// A Feistel network of 8 rounds permutes the numbers of b = max(2, bits of
/// n - 1) bits, as their lower b/2 bits L and the others H. Round r from 0 adds
/// the first word of the Philox block (seed, kShuffleStream, epoch,
/// r << 40 | half), bit by bit: of L to H where r is even, of H to L where it
/// is odd. A result at or above n goes through the network again.
uint64_t permuted(uint64_t index, uint64_t n, uint64_t seed, uint64_t epoch);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_PERMUTATION_H
