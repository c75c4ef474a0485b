//===- AttentionTest.cpp - Attention against plain loops -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../AttentionKernels.h"
#include "MaxThreads.h"
#include "optimus-runtime/CpuDevice.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

using namespace optrt;

namespace {

constexpr double u = 0x1p-24; // the unit roundoff of f32

/// A problem whose q, k and v lie side by side, as a product makes them, or in
/// a tensor each.
struct Case {
  optrt_attention_desc desc;
  bool sideBySide;
  std::vector<float> inputs, dout;
  /// Of each sequence, or none.
  std::vector<int32_t> lengths = {};

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
  /// The keys that token i of sequence b sees.
  int64_t keys(int64_t b, int64_t i) const {
    return desc.causal ? std::min(i + 1, length(b)) : length(b);
  }
  int64_t size() const { return tokens() * (hidden() + 2 * kvHidden()); }
};

struct Result {
  std::vector<float> out, lse, grads;
};

Case makeCase(int64_t batch, int64_t seq, int64_t heads, int64_t headDim,
              bool causal, int64_t kvHeads = 0, bool sideBySide = true) {
  if (kvHeads == 0)
    kvHeads = heads;
  int64_t width = (heads + 2 * kvHeads) * headDim;
  Case x{{batch, seq, heads, kvHeads, headDim,
          sideBySide ? width : heads * headDim,
          sideBySide ? width : kvHeads * headDim, causal},
         sideBySide,
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
Result emptyResult(const Case &x) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  return {std::vector<float>(x.tokens() * x.hidden(), nan),
          std::vector<float>(x.tokens() * x.desc.heads, nan),
          std::vector<float>(x.size(), nan)};
}

Result runDevice(CpuDevice &device, const Case &x) {
  Result r = emptyResult(x);
  const float *in = x.inputs.data();
  float *grads = r.grads.data();
  const int32_t *lengths = x.lengths.empty() ? nullptr : x.lengths.data();
  Status status =
      device.attention(kCompute, x.desc, in + x.begin(0), in + x.begin(1),
                       in + x.begin(2), lengths, r.out.data(), r.lse.data());
  EXPECT_TRUE(status.ok()) << status.toString();
  status = device.attentionGrad(
      kCompute, x.desc, x.dout.data(), in + x.begin(0), in + x.begin(1),
      in + x.begin(2), lengths, r.out.data(), r.lse.data(), grads + x.begin(0),
      grads + x.begin(1), grads + x.begin(2));
  EXPECT_TRUE(status.ok()) << status.toString();
  return r;
}

/// All heads one after the other with one instruction set's kernels.
Result runKernels(const AttentionKernels &kernels, const Case &x) {
  Result r = emptyResult(x);
  const optrt_attention_desc &d = x.desc;
  AttentionHead head = {d.seq,      d.head_dim,    d.q_ld, d.kv_ld,
                        x.hidden(), d.causal != 0, d.seq};
  int64_t elements =
      std::max(kernels.forwardScratch(head), kernels.backwardScratch(head));
  std::vector<float> memory(elements + 16);
  void *start = memory.data();
  size_t space = memory.size() * sizeof(float);
  float *scratch = static_cast<float *>(
      std::align(64, elements * sizeof(float), start, space));
  for (int64_t b = 0; b < d.batch; ++b)
    for (int64_t n = 0; n < d.heads; ++n) {
      head.keys = x.length(b);
      int64_t inQ = b * d.seq * d.q_ld + n * d.head_dim;
      int64_t inKv = b * d.seq * d.kv_ld + x.kvHead(n) * d.head_dim;
      int64_t at = b * d.seq * x.hidden() + n * d.head_dim;
      const float *q = x.inputs.data() + x.begin(0) + inQ;
      const float *k = x.inputs.data() + x.begin(1) + inKv;
      const float *v = x.inputs.data() + x.begin(2) + inKv;
      float *lse = r.lse.data() + (b * d.heads + n) * d.seq;
      kernels.forward(head, q, k, v, r.out.data() + at, lse, scratch);
      bool isShared = n > 0 && x.kvHead(n) == x.kvHead(n - 1);
      kernels.backward(head, x.dout.data() + at, q, k, v, r.out.data() + at,
                       lse, r.grads.data() + x.begin(0) + inQ,
                       r.grads.data() + x.begin(1) + inKv,
                       r.grads.data() + x.begin(2) + inKv, isShared, scratch);
    }
  return r;
}

/// The gradients of keys and values, summed over the heads that share them, and
/// how far they may be off.
struct SharedGrads {
  explicit SharedGrads(const optrt_attention_desc &d)
      : dk(d.seq * d.head_dim), dv(d.seq * d.head_dim) {}
  std::vector<double> dk, dv;
  double dkBound = 0, dvBound = 0;
};

/// Compares one head of queries with loops in f64, within these bounds (first
/// order in u; gamma(t) = t u bounds any sum of t products):
///
///  scores   ds = (d + 4) u max scale sum |q k|       product, packed factor
///  lse      dl = ds + (s + 8) u + 4 u |lse|          sum of s terms, log, ln 2
///  P        eP = ds + dl + 4 u (|s| + |lse|) + 4 u   its relative error: of
///                                                    the exponent, of exp2
///  out      eO = 2 ds + 4 u |s| + (2 s + 16) u       times max |v|: P and its
///                                                    sum, rescaled each block
///  dV       (eP + s u) times max |dout| and the largest column sum of P
///  T        with G = max sum |dout| |v|, |dP| and |D| are at most G, so
///           eT = 2 eP + eO + (2 d + 8) u, times P G
///  dQ, dK   (eT + 2 s u) G scale times max |k|, or max |q| and column sum
///
/// dK and dV of heads that share them: the bounds add up, with s + 1 terms a
/// head for the sum over the heads.
void expectHead(const Case &x, const Result &r, int64_t b, int64_t n,
                SharedGrads &shared) {
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
    int64_t keys = x.keys(b, i);
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < keys; ++j) {
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
    for (int64_t j = 0; j < keys; ++j)
      sum += std::exp(p[i * seq + j] - top);
    lse[i] = top + std::log(sum);
    maxLse = std::max(maxLse, std::abs(lse[i]));
    for (int64_t j = 0; j < keys; ++j) {
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
    for (int64_t j = 0; j < x.keys(b, i); ++j) {
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
  double dl = ds + (seq + 8) * u + 4 * u * maxLse;
  double eP = ds + dl + 4 * u * (maxScore + maxLse) + 4 * u;
  double eO = 2 * ds + 4 * u * maxScore + (2 * seq + 16) * u;
  double eT = 2 * eP + eO + (2 * dim + 8) * u;
  double outer = (eT + (2 * seq + 1) * u) * reach * scale;
  shared.dkBound += outer * maxQ * columnSum;
  shared.dvBound += (eP + (seq + 1) * u) * maxDout * columnSum;
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

void expectAll(const Case &x, const Result &r) {
  for (int64_t b = 0; b < x.desc.batch; ++b) {
    SharedGrads shared(x.desc);
    for (int64_t n = 0; n < x.desc.heads; ++n) {
      if (n > 0 && x.kvHead(n) != x.kvHead(n - 1))
        shared = SharedGrads(x.desc);
      ASSERT_NO_FATAL_FAILURE(expectHead(x, r, b, n, shared))
          << "batch " << b << " head " << n;
    }
  }
}

/// Each instruction set that the processor has, on sequences and head sizes
/// with and without remainders.
TEST(Attention, EveryInstructionSet) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (int set = 0; set < count; ++set)
    for (int64_t seq : {1, 3, 16, 63, 64, 65, 100, 130, 200})
      for (int64_t dim : {1, 8, 12, 20, 33, 64, 80, 128})
        for (bool causal : {false, true}) {
          Case x = makeCase(1, seq, 2, dim, causal);
          ASSERT_NO_FATAL_FAILURE(expectAll(x, runKernels(*sets[set], x)))
              << sets[set]->name << " seq " << seq << " dim " << dim
              << " causal " << causal;
        }
}

/// Heads of queries that share keys and values, in one tensor and in three.
TEST(Attention, SharedKeysAndValues) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (bool sideBySide : {true, false})
    for (int64_t kvHeads : {1, 2, 3, 6})
      for (bool causal : {false, true}) {
        Case x = makeCase(2, 70, 6, 20, causal, kvHeads, sideBySide);
        for (int set = 0; set < count; ++set)
          ASSERT_NO_FATAL_FAILURE(expectAll(x, runKernels(*sets[set], x)))
              << sets[set]->name << " kv heads " << kvHeads;
        for (int threads = 1; threads <= maxThreads; ++threads) {
          CpuDevice device(threads);
          ASSERT_NO_FATAL_FAILURE(expectAll(x, runDevice(device, x)))
              << "kv heads " << kvHeads << " threads " << threads;
        }
      }
}

/// Keys end where the padding of a sequence begins, within a block, at its end
/// or after the first one.
TEST(Attention, PaddedKeysAreNotSeen) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (int64_t kvHeads : {2, 4})
    for (bool causal : {false, true}) {
      Case x = makeCase(7, 150, 4, 20, causal, kvHeads);
      x.lengths = {1, 17, 64, 65, 128, 149, 150};
      for (int set = 0; set < count; ++set)
        ASSERT_NO_FATAL_FAILURE(expectAll(x, runKernels(*sets[set], x)))
            << sets[set]->name << " causal " << causal;
      for (int threads = 1; threads <= maxThreads; ++threads) {
        CpuDevice device(threads);
        Result r = runDevice(device, x);
        ASSERT_NO_FATAL_FAILURE(expectAll(x, r)) << threads << " threads";
        // Not even as zeros times something: no bit depends on them.
        Case other = x;
        for (int64_t b = 0; b < x.desc.batch; ++b)
          for (int64_t t = x.length(b); t < x.desc.seq; ++t)
            for (int part : {1, 2})
              std::fill_n(other.inputs.begin() + x.begin(part) +
                              (b * x.desc.seq + t) * x.desc.kv_ld,
                          x.kvHidden(), 1e30f);
        Result s = runDevice(device, other);
        EXPECT_EQ(r.out, s.out);
        EXPECT_EQ(r.grads, s.grads);
      }
    }
}

TEST(Attention, LengthsAreClamped) {
  Case x = makeCase(3, 20, 2, 8, false), y = x;
  x.lengths = {0, -5, 21};
  y.lengths = {1, 1, 20};
  CpuDevice device(1);
  EXPECT_EQ(runDevice(device, x).out, runDevice(device, y).out);
}

/// Rows whose distance is a multiple of a page are copied before use.
TEST(Attention, RowsAPageApart) {
  Case x = makeCase(1, 96, 16, 64, true);
  CpuDevice device(1);
  expectAll(x, runDevice(device, x));
}

TEST(Attention, DeviceCoversEveryHeadOnAnyThreads) {
  for (bool causal : {false, true}) {
    Case x = makeCase(3, 77, 3, 24, causal);
    CpuDevice one(1);
    Result expected = runDevice(one, x);
    ASSERT_NO_FATAL_FAILURE(expectAll(x, expected));
    for (int threads = 2; threads <= maxThreads; ++threads) {
      CpuDevice device(threads);
      Result r = runDevice(device, x);
      EXPECT_EQ(r.out, expected.out) << threads << " threads";
      EXPECT_EQ(r.lse, expected.lse) << threads << " threads";
      EXPECT_EQ(r.grads, expected.grads) << threads << " threads";
    }
  }
}

/// Scores near 1000 overflow exp; the running maximum keeps them finite.
TEST(Attention, LargeScoresStayFinite) {
  Case x = makeCase(1, 130, 1, 16, true);
  for (int64_t t = 0; t < x.desc.seq; ++t)
    for (int64_t c = 0; c < 32; ++c)
      x.inputs[t * 48 + c] *= 16.f;
  CpuDevice device(1);
  Result r = runDevice(device, x);
  expectAll(x, r);
  for (float value : r.grads)
    ASSERT_TRUE(std::isfinite(value));
}

TEST(Attention, NotANumberShows) {
  Case x = makeCase(1, 70, 1, 8, true);
  x.inputs[66 * 24] = std::numeric_limits<float>::quiet_NaN();
  CpuDevice device(1);
  Result r = runDevice(device, x);
  EXPECT_TRUE(std::isnan(r.out[66 * 8]));
  EXPECT_TRUE(std::isfinite(r.out[65 * 8]));
}

TEST(Attention, ReservedScratchIsEnough) {
  Case x = makeCase(2, 90, 2, 40, true);
  CpuDevice device(maxThreads);
  EXPECT_EQ(device.scratchBytes(), 0u);
  ASSERT_TRUE(device.reserveAttention(x.desc).ok());
  size_t reserved = device.scratchBytes();
  EXPECT_GT(reserved, 0u);
  runDevice(device, x);
  EXPECT_EQ(device.scratchBytes(), reserved);
}

TEST(Attention, WrongDescriptorsAreRefused) {
  CpuDevice device(1);
  float x[64] = {};
  auto run = [&](optrt_attention_desc d, float *out) {
    return device.attention(kCompute, d, x, x, x, nullptr, out, x);
  };
  optrt_attention_desc good = {1, 2, 2, 1, 4, 16, 16, 1};
  EXPECT_TRUE(run(good, x + 32).ok());
  auto refuses = [&](auto change) {
    optrt_attention_desc bad = good;
    change(bad);
    EXPECT_EQ(run(bad, x + 32).code(), StatusCode::InvalidArgument);
  };
  refuses([](auto &d) { d.head_dim = 0; });
  refuses([](auto &d) { d.batch = -1; });
  refuses([](auto &d) { d.kv_heads = 0; });
  refuses([](auto &d) { d.heads = 3, d.kv_heads = 2; });
  refuses([](auto &d) { d.q_ld = 7; });
  refuses([](auto &d) { d.kv_ld = 3; });
  EXPECT_EQ(run(good, nullptr).code(), StatusCode::InvalidArgument);
  good.batch = 0;
  EXPECT_TRUE(run(good, x + 32).ok());
}

/// The polynomial's last steps round twice with FMA and four times without,
/// and the smallest results have half the spacing: 2 units of last place.
TEST(Attention, Exp2IsWithinTwoUnitsOfLastPlace) {
  std::vector<float> x, y;
  for (uint32_t bits = 0x20000000; bits < 0x42fe0000; bits += 997) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    x.push_back(value);
    if (value <= 126.f)
      x.push_back(-value);
  }
  x.push_back(0.f);
  y.resize(x.size());
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (int set = 0; set < count; ++set) {
    sets[set]->exp2(x.data(), y.data(), int64_t(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double exact = std::exp2(double(x[i]));
      double unit = std::ldexp(1., std::ilogb(exact) - 23);
      worst = std::max(worst, std::abs(y[i] - exact) / unit);
    }
    EXPECT_LE(worst, 2.) << sets[set]->name;
    RecordProperty(sets[set]->name, std::to_string(worst));
    float special[3] = {-std::numeric_limits<float>::infinity(), -1000.f,
                        std::numeric_limits<float>::quiet_NaN()};
    float result[3];
    sets[set]->exp2(special, result, 3);
    EXPECT_EQ(result[0], 0x1p-126f);
    EXPECT_EQ(result[1], 0x1p-126f);
    EXPECT_TRUE(std::isnan(result[2]));
  }
}

} // namespace
