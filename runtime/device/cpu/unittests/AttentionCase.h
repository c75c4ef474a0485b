//===- AttentionCase.h - Attention in plain loops ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Problems and what comes out of them, whoever computes it.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_UNITTESTS_ATTENTIONCASE_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_UNITTESTS_ATTENTIONCASE_H

#include "optimus-runtime/CommandDescriptors.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

namespace attention_test {

inline constexpr double u = 0x1p-24; // the unit roundoff of f32

/// A problem whose q, k and v lie side by side, as a product makes them, or in
/// a tensor each.
struct Case {
  optrt_attention_desc desc;
  bool sideBySide;
  std::vector<float> inputs, dout;
  /// Of each sequence, or none.
  std::vector<int32_t> lengths = {};
  /// Of each token, or none.
  std::vector<int32_t> positions = {};

  int64_t hidden() const { return desc.heads * desc.head_dim; }
  int64_t kvHidden() const { return desc.kv_heads * desc.head_dim; }
  int64_t tokens() const { return desc.batch * desc.seq; }
  /// The head of keys and values that a head of queries uses.
  int64_t kvHead(int64_t head) const {
    return head / (desc.heads / desc.kv_heads);
  }
  /// Where q, k and v begin in `inputs`, and their gradients in `grads`.
  int64_t begin(int part) const {
    int64_t before[] = {0, hidden(), hidden() + kvHidden()};
    return before[part] * (sideBySide ? 1 : tokens());
  }
  int64_t length(int64_t b) const {
    return lengths.empty() ? desc.seq : lengths[b];
  }
  /// The first key that token i of sequence b sees, and the end of them.
  int64_t first(int64_t b, int64_t i) const {
    const int64_t ofDocument =
        positions.empty() ? 0 : i - positions[b * desc.seq + i];
    return desc.window == 0 ? ofDocument
                            : std::max(ofDocument, i - desc.window + 1);
  }
  int64_t end(int64_t b, int64_t i) const {
    return desc.causal ? std::min(i + 1, length(b)) : length(b);
  }
  int64_t size() const { return tokens() * (hidden() + 2 * kvHidden()); }
};

struct Result {
  std::vector<float> out, lse, grads;
};

inline Case makeCase(int64_t batch, int64_t seq, int64_t heads, int64_t headDim,
                     bool causal, int64_t kvHeads = 0, bool sideBySide = true) {
  if (kvHeads == 0)
    kvHeads = heads;
  int64_t width = (heads + 2 * kvHeads) * headDim;
  Case x{{batch, seq, heads, kvHeads, headDim,
          sideBySide ? width : heads * headDim,
          sideBySide ? width : kvHeads * headDim, causal, OPTRT_F32, 0, 0, 0,
          0},
         sideBySide,
         {},
         {},
         {},
         {}};
  std::mt19937 random(unsigned(seq * 1000 + headDim));
  std::uniform_real_distribution<float> uniform(-1.5f, 1.5f);
  x.inputs.resize(x.size());
  x.dout.resize(x.tokens() * x.hidden());
  for (float &value : x.inputs)
    value = uniform(random);
  for (float &value : x.dout)
    value = uniform(random);
  return x;
}

/// Outputs begin as NaN, so that an element not written shows.
inline Result emptyResult(const Case &x) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  return {std::vector<float>(x.tokens() * x.hidden(), nan),
          std::vector<float>(x.tokens() * x.desc.heads, nan),
          std::vector<float>(x.size(), nan)};
}

/// What of an implementation its bounds depend on.
struct Accuracy {
  /// How often what is summed over keys is rounded for each of them.
  double roundings = 1;
  /// Of what is stored, but for lse, and of P and T where they are factors: the
  /// unit roundoff of their type, or 0 where that is f32.
  double stored = 0, factors = 0;
};

/// The gradients of keys and values, summed over the heads that share them, and
/// how far they may be off.
struct SharedGrads {
  explicit SharedGrads(const optrt_attention_desc &d)
      : dk(d.seq * d.head_dim), dv(d.seq * d.head_dim) {}
  std::vector<double> dk, dv;
  double dkBound = 0, dvBound = 0;
};

/// Compares one head of queries with loops in f64, within these bounds (first
/// order in u; gamma(t) = t u bounds any sum of t products; r, w and f are
/// those of Accuracy):
///
///  scores   ds = (d + 4) u max scale sum |q k|       product, packed factor
///  lse      dl = ds + (r s + 8) u + 4 u |lse|        sum of s terms, log, ln 2
///  P        eP = ds + dl + 4 u (|s| + |lse|) + 4 u   its relative error: of
///                                                    the exponent, of exp2
///  out      eO = 2 ds + 4 u |s| + (2 r s + 16) u     times max |v|: P and its
///                + f + w                             sum, rescaled each block
///  dV       (eP + s u + f + w) times max |dout| and the largest column sum of
///  P T        with G = max sum |dout| |v|, |dP| and |D| are at most G, so
///           eT = 2 eP + eO + (2 d + 8) u, times P G
///  dQ, dK   (eT + 2 s u + 2 f + 2 w) G scale times max |k|, or max |q| and
///           column sum: |T| is at most 2 P G
///
/// dK and dV of heads that share them: the bounds add up, with s + 1 terms a
/// head for the sum over the heads.
inline void expectHead(const Case &x, const Result &r, int64_t b, int64_t n,
                       SharedGrads &shared, const Accuracy &accuracy) {
  const optrt_attention_desc &desc = x.desc;
  int64_t seq = desc.seq, dim = desc.head_dim, hidden = x.hidden();
  double scale = 1 / std::sqrt(double(dim));
  auto in = [&](int part, int64_t t, int64_t c) {
    return x.begin(part) + (b * seq + t) * (part ? desc.kv_ld : desc.q_ld) +
           (part ? x.kvHead(n) : n) * dim + c;
  };
  auto at = [&](int64_t t, int64_t c) {
    return (b * seq + t) * hidden + n * dim + c;
  };
  std::vector<double> p(seq * seq), lse(seq), dq(seq * dim), out(seq * dim),
      column(seq);
  double maxScore = 0, maxLse = 0, maxQ = 0, maxK = 0, maxV = 0, maxDout = 0,
         reach = 0;
  for (int64_t i = 0; i < seq; ++i) {
    int64_t first = x.first(b, i), end = x.end(b, i);
    // What sees nothing is zero.
    if (first >= end)
      continue;
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t j = first; j < end; ++j) {
      double score = 0, magnitude = 0, through = 0;
      for (int64_t c = 0; c < dim; ++c) {
        double q = x.inputs[in(0, i, c)], k = x.inputs[in(1, j, c)],
               v = x.inputs[in(2, j, c)], g = x.dout[at(i, c)];
        score += q * k;
        magnitude += std::abs(q * k);
        through += std::abs(g * v);
        maxQ = std::max(maxQ, std::abs(q));
        maxK = std::max(maxK, std::abs(k));
        maxV = std::max(maxV, std::abs(v));
        maxDout = std::max(maxDout, std::abs(g));
      }
      p[i * seq + j] = score * scale;
      top = std::max(top, score * scale);
      maxScore = std::max(maxScore, magnitude * scale);
      reach = std::max(reach, through);
    }
    double sum = 0;
    for (int64_t j = first; j < end; ++j)
      sum += std::exp(p[i * seq + j] - top);
    lse[i] = top + std::log(sum);
    maxLse = std::max(maxLse, std::abs(lse[i]));
    for (int64_t j = first; j < end; ++j) {
      double &prob = p[i * seq + j];
      prob = std::exp(prob - lse[i]);
      column[j] += prob;
      for (int64_t c = 0; c < dim; ++c)
        out[i * dim + c] += prob * x.inputs[in(2, j, c)];
    }
  }
  for (int64_t i = 0; i < seq; ++i) {
    double dot = 0;
    for (int64_t c = 0; c < dim; ++c)
      dot += x.dout[at(i, c)] * out[i * dim + c];
    for (int64_t j = x.first(b, i); j < x.end(b, i); ++j) {
      double dp = 0, prob = p[i * seq + j];
      for (int64_t c = 0; c < dim; ++c) {
        dp += double(x.dout[at(i, c)]) * x.inputs[in(2, j, c)];
        shared.dv[j * dim + c] += prob * x.dout[at(i, c)];
      }
      double ds = prob * (dp - dot) * scale;
      for (int64_t c = 0; c < dim; ++c) {
        dq[i * dim + c] += ds * x.inputs[in(1, j, c)];
        shared.dk[j * dim + c] += ds * x.inputs[in(0, i, c)];
      }
    }
  }
  double columnSum = *std::max_element(column.begin(), column.end());
  double ds = (dim + 4) * u * maxScore;
  double dl = ds + (accuracy.roundings * seq + 8) * u + 4 * u * maxLse;
  double eP = ds + dl + 4 * u * (maxScore + maxLse) + 4 * u;
  double narrow = accuracy.factors + accuracy.stored;
  double eO = 2 * ds + 4 * u * maxScore +
              (2 * accuracy.roundings * seq + 16) * u + narrow;
  double eT = 2 * eP + eO + (2 * dim + 8) * u;
  double outer = (eT + (2 * seq + 1) * u + 2 * narrow) * reach * scale;
  shared.dkBound += outer * maxQ * columnSum;
  shared.dvBound += (eP + (seq + 1) * u + narrow) * maxDout * columnSum;
  bool isLast = n + 1 == desc.heads || x.kvHead(n + 1) != x.kvHead(n);
  for (int64_t i = 0; i < seq; ++i) {
    ASSERT_NEAR(r.lse[(b * desc.heads + n) * seq + i], lse[i], dl) << i;
    for (int64_t c = 0; c < dim; ++c) {
      ASSERT_NEAR(r.out[at(i, c)], out[i * dim + c], eO * maxV)
          << i << " " << c;
      ASSERT_NEAR(r.grads[in(0, i, c)], dq[i * dim + c], outer * maxK)
          << i << " " << c;
      if (!isLast)
        continue;
      ASSERT_NEAR(r.grads[in(1, i, c)], shared.dk[i * dim + c], shared.dkBound)
          << i << " " << c;
      ASSERT_NEAR(r.grads[in(2, i, c)], shared.dv[i * dim + c], shared.dvBound)
          << i << " " << c;
    }
  }
}

inline void expectAll(const Case &x, const Result &r,
                      const Accuracy &accuracy = {}) {
  for (int64_t b = 0; b < x.desc.batch; ++b) {
    SharedGrads shared(x.desc);
    for (int64_t n = 0; n < x.desc.heads; ++n) {
      if (n > 0 && x.kvHead(n) != x.kvHead(n - 1))
        shared = SharedGrads(x.desc);
      ASSERT_NO_FATAL_FAILURE(expectHead(x, r, b, n, shared, accuracy))
          << "batch " << b << " head " << n;
    }
  }
}

} // namespace attention_test

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_UNITTESTS_ATTENTIONCASE_H
