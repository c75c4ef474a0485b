//===- Philox.h - Counter-based random numbers ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers:
// As Easy as 1, 2, 3" (SC11). Every draw is a pure function of its coordinates,
// so any subset of a tensor, drawn in any order by any rank, has the same bits.
//
// Counter of a draw (words 0 to 3), the key being the seed (low word first):
//   block[31:0], step[47:32] << 16 | block[47:32], step[31:0], stream
// hence step and block must be below 2^48.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PHILOX_H
#define OPTIMUS_SUPPORT_PHILOX_H

#include <array>
#include <cstdint>

namespace optimus_support {

/// The block function: 128 random bits of a 128-bit counter and a 64-bit key.
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t(0xD2511F53u) * counter[0];
    uint64_t product1 = uint64_t(0xCD9E8D57u) * counter[2];
    counter = {
        uint32_t(product1 >> 32) ^ counter[1] ^ key[0], uint32_t(product1),
        uint32_t(product0 >> 32) ^ counter[3] ^ key[1], uint32_t(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// 128 random bits at (seed, stream, step, block), as two 64-bit words.
inline std::array<uint64_t, 2> philoxBlock(uint64_t seed, uint32_t stream,
                                           uint64_t step, uint64_t block) {
  std::array<uint32_t, 4> words = philox4x32(
      {uint32_t(block),
       uint32_t(step >> 32) << 16 | (uint32_t(block >> 32) & 0xFFFFu),
       uint32_t(step), stream},
      {uint32_t(seed), uint32_t(seed >> 32)});
  return {uint64_t(words[1]) << 32 | words[0],
          uint64_t(words[3]) << 32 | words[2]};
}

/// Streams from here on are reserved; models number theirs from 0.
inline constexpr uint32_t kFirstReservedStream = 0xFFFFFF00u;
/// The stream of the permutations of a data set's windows.
inline constexpr uint32_t kShuffleStream = 0xFFFFFFFFu;
/// The stream of what masked-token batches hide.
inline constexpr uint32_t kMaskStream = 0xFFFFFFFEu;

/// A standard normal number at a tensor's element `index` (row-major in the
/// whole tensor). Elements 2k and 2k+1 are the two Box-Muller results
/// sqrt(-2 ln u) cos(2 pi t), sqrt(-2 ln u) sin(2 pi t) of block k, with
/// u = (top 53 bits of the first word + 1) / 2^53 and
/// t = (top 53 bits of the second word) / 2^53.
/// Computed in double without the C library, so the bits are the same on every
/// machine; rounded once to float.
float normal(uint64_t seed, uint32_t stream, uint64_t step, uint64_t index);

/// out[i] = float(stddev * z), with z the double behind normal(seed, stream,
/// step, firstIndex + i), for i in [0, count). Independent of how a tensor is
/// split into calls.
void fillNormal(uint64_t seed, uint32_t stream, uint64_t firstIndex,
                int64_t count, double stddev, float *out, uint64_t step = 0);

/// out[i] = float(bound * u), with u at element firstIndex + i of a tensor:
/// elements 2k and 2k+1 are the two words of block k of step 0, of which the
/// top 53 bits w give u = 2 w / 2^53 − 1, in [−1, 1). Independent of how a
/// tensor is split into calls.
void fillUniform(uint64_t seed, uint32_t stream, uint64_t firstIndex,
                 int64_t count, double bound, float *out);

/// A sequence of 64-bit draws at (seed, stream, step): first word, second word
/// of block 0, then of block 1, ...
class PhiloxSequence {
public:
  PhiloxSequence(uint64_t seed, uint32_t stream, uint64_t step)
      : seed(seed), stream(stream), step(step) {}

  /// The next 64 random bits.
  uint64_t next() {
    uint64_t draw = drawn++;
    if (draw % 2 == 0)
      words = philoxBlock(seed, stream, step, draw / 2);
    return words[draw % 2];
  }

  /// The next integer in [0, n), n > 0, without bias: draws at or above the
  /// largest multiple of n that 64 bits hold are skipped; then modulo n.
  uint64_t below(uint64_t n) {
    uint64_t excess = (UINT64_MAX % n + 1) % n; // 2^64 mod n
    uint64_t draw = next();
    while (draw > UINT64_MAX - excess)
      draw = next();
    return draw % n;
  }

private:
  uint64_t seed;
  uint32_t stream;
  uint64_t step;
  uint64_t drawn = 0;
  std::array<uint64_t, 2> words = {};
};

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_PHILOX_H
