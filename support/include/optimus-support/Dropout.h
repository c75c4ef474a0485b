//===- Dropout.h - Which elements a dropout keeps ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rule of docs/dropout.md. Element e of the whole tensor draws 32 bits at
// (seed, stream, step): word (e div 16) mod 4 of Philox block
// 16·(e div 64) + e mod 16. So the four words of 16 blocks, in the order of
// vectors of 16 lanes, are the 64 elements from a multiple of 64 on.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_DROPOUT_H
#define OPTIMUS_SUPPORT_DROPOUT_H

#include "optimus-support/Philox.h"

#include <array>
#include <cstdint>

namespace optimus_support {

/// What a step's draws depend on, as a program gets it.
inline constexpr int kNumRandomWords = 5;

/// The seed's low and high word, the step's, the microbatch's number from 0.
/// The step is below 2^48.
inline std::array<int32_t, kNumRandomWords>
randomWords(uint64_t seed, uint64_t step, uint32_t microbatch = 0) {
  return {int32_t(seed), int32_t(seed >> 32), int32_t(step),
          int32_t(step >> 32), int32_t(microbatch)};
}

/// The 32 bits that element `index` < 2^50 draws.
inline uint32_t dropoutDraw(uint64_t seed, uint32_t stream, uint64_t step,
                            uint64_t index) {
  std::array<uint64_t, 2> words =
      philoxBlock(seed, stream, step, index / 64 * 16 + index % 16);
  uint64_t word = index / 16 % 4;
  return uint32_t(words[word / 2] >> (32 * (word % 2)));
}

/// An element is kept if its draw is at least this: floor(rate·2^32), for a
/// rate in [0, 1).
inline uint32_t dropoutThreshold(double rate) {
  return uint32_t(rate * 0x1p32);
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_DROPOUT_H
