//===- Philox.cpp - Normal numbers by Box and Muller ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Philox.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

using namespace optimus_support;

// The logarithm, sine and cosine are ours, not the C library's, whose last bit
// depends on version and processor. Only +, -, *, / and sqrt are used, which
// IEEE 754 rounds correctly; the language mode (CMAKE_CXX_EXTENSIONS OFF) keeps
// the compiler from contracting them into fused operations. All is free of
// branches, so that loops over it vectorise.

/// ln x for normal x > 0. x = m * 2^e with m in [sqrt(1/2), sqrt(2)), and
/// ln m = 2 artanh(s) with s = (m-1)/(m+1), |s| < 0.1716: the series' first
/// term left out is below 2 s^25 / 25, 2^-58 of the result.
static inline double logarithm(double x) {
  constexpr uint64_t sqrtHalf = 0x3FE6A09E667F3BCDu; // bits of sqrt(1/2)
  uint64_t shifted = std::bit_cast<uint64_t>(x) - sqrtHalf;
  int32_t exponent = int32_t(int64_t(shifted) >> 52);
  double m = std::bit_cast<double>((shifted & 0xFFFFFFFFFFFFFu) + sqrtHalf);
  double s = (m - 1.0) / (m + 1.0);
  double s2 = s * s;
  double sum = 1.0 / 23;
  sum = sum * s2 + 1.0 / 21;
  sum = sum * s2 + 1.0 / 19;
  sum = sum * s2 + 1.0 / 17;
  sum = sum * s2 + 1.0 / 15;
  sum = sum * s2 + 1.0 / 13;
  sum = sum * s2 + 1.0 / 11;
  sum = sum * s2 + 1.0 / 9;
  sum = sum * s2 + 1.0 / 7;
  sum = sum * s2 + 1.0 / 5;
  sum = sum * s2 + 1.0 / 3;
  return 2.0 * (s + s * s2 * sum) + exponent * 0.6931471805599453094;
}

/// cos(2 pi t) and sin(2 pi t) for t in [0, 1). t is reduced exactly to an
/// eighth of a turn around a quarter; there Taylor's series for |x| <= pi/4
/// leave out terms below 2^-58.
static inline void cosSinTurns(double t, double &cosine, double &sine) {
  int32_t quarter = int32_t(4.0 * t + 0.5);
  double x = (t - 0.25 * quarter) * 6.283185307179586477;
  double x2 = x * x;
  double c = 1.0 / 20922789888000.0;
  c = 1.0 / 87178291200.0 - c * x2;
  c = 1.0 / 479001600.0 - c * x2;
  c = 1.0 / 3628800.0 - c * x2;
  c = 1.0 / 40320.0 - c * x2;
  c = 1.0 / 720.0 - c * x2;
  c = 1.0 / 24.0 - c * x2;
  c = 0.5 - c * x2;
  c = 1.0 - c * x2;
  double s = 1.0 / 355687428096000.0;
  s = 1.0 / 1307674368000.0 - s * x2;
  s = 1.0 / 6227020800.0 - s * x2;
  s = 1.0 / 39916800.0 - s * x2;
  s = 1.0 / 362880.0 - s * x2;
  s = 1.0 / 5040.0 - s * x2;
  s = 1.0 / 120.0 - s * x2;
  s = 1.0 / 6.0 - s * x2;
  s = x - x * x2 * s;
  bool odd = quarter & 1;
  double cosMagnitude = odd ? s : c, sinMagnitude = odd ? c : s;
  cosine = (quarter + 1) & 2 ? -cosMagnitude : cosMagnitude;
  sine = quarter & 2 ? -sinMagnitude : sinMagnitude;
}

/// The two normal numbers of a block's two words.
static inline void boxMuller(uint64_t word0, uint64_t word1, double &even,
                             double &odd) {
  constexpr double unit = 0x1p-53;
  double u = double(int64_t((word0 >> 11) + 1)) * unit;
  double t = double(int64_t(word1 >> 11)) * unit;
  // At u = 1 the logarithm is exactly 0, elsewhere negative.
  double radius = std::sqrt(-2.0 * logarithm(u));
  double cosine, sine;
  cosSinTurns(t, cosine, sine);
  even = radius * cosine;
  odd = radius * sine;
}

float optimus_support::normal(uint64_t seed, uint32_t stream, uint64_t step,
                              uint64_t index) {
  std::array<uint64_t, 2> words = philoxBlock(seed, stream, step, index / 2);
  double even, odd;
  boxMuller(words[0], words[1], even, odd);
  return float(index % 2 ? odd : even);
}

void optimus_support::fillNormal(uint64_t seed, uint32_t stream,
                                 uint64_t firstIndex, int64_t count,
                                 double stddev, float *out, uint64_t step) {
  assert(step < uint64_t(1) << 48 && firstIndex + count <= uint64_t(1) << 49 &&
         "beyond the generator's counter");
  constexpr int64_t chunk = 256; // blocks
  uint64_t word0[chunk], word1[chunk];
  double pairs[2 * chunk];
  const uint64_t end = firstIndex + count;
  const uint64_t endBlock = (end + 1) / 2;
  for (uint64_t block = firstIndex / 2; block < endBlock; block += chunk) {
    int64_t blocks = std::min<uint64_t>(chunk, endBlock - block);
    for (int64_t i = 0; i < blocks; ++i) {
      std::array<uint64_t, 2> words =
          philoxBlock(seed, stream, step, block + i);
      word0[i] = words[0];
      word1[i] = words[1];
    }
    for (int64_t i = 0; i < blocks; ++i)
      boxMuller(word0[i], word1[i], pairs[2 * i], pairs[2 * i + 1]);
    uint64_t from = std::max(firstIndex, 2 * block);
    uint64_t to = std::min<uint64_t>(end, 2 * (block + blocks));
    for (uint64_t e = from; e < to; ++e)
      out[e - firstIndex] = float(stddev * pairs[e - 2 * block]);
  }
}

void optimus_support::fillUniform(uint64_t seed, uint32_t stream,
                                  uint64_t firstIndex, int64_t count,
                                  double bound, float *out) {
  assert(firstIndex + count <= uint64_t(1) << 49 &&
         "beyond the generator's counter");
  std::array<uint64_t, 2> words{};
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t element = firstIndex + uint64_t(i);
    if (i == 0 || element % 2 == 0)
      words = philoxBlock(seed, stream, /*step=*/0, element / 2);
    out[i] = float(bound * (double(words[element % 2] >> 11) * 0x1p-52 - 1));
  }
}
