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

struct Case {
  optrt_attention_desc desc;
  std::vector<float> qkv, dout;
  int64_t hidden() const { return desc.heads * desc.head_dim; }
  int64_t tokens() const { return desc.batch * desc.seq; }
};

struct Result {
  std::vector<float> out, lse, dqkv;
};

Case makeCase(int64_t batch, int64_t seq, int64_t heads, int64_t headDim,
              bool causal) {
  Case x{{batch, seq, heads, headDim, causal}, {}, {}};
  std::mt19937 random(unsigned(seq * 1000 + headDim));
  std::uniform_real_distribution<float> uniform(-1.5f, 1.5f);
  x.qkv.resize(x.tokens() * 3 * x.hidden());
  x.dout.resize(x.tokens() * x.hidden());
  for (float &value : x.qkv)
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
          std::vector<float>(x.tokens() * 3 * x.hidden(), nan)};
}

Result runDevice(CpuDevice &device, const Case &x) {
  Result r = emptyResult(x);
  Status status =
      device.attention(x.desc, x.qkv.data(), r.out.data(), r.lse.data());
  EXPECT_TRUE(status.ok()) << status.toString();
  status = device.attentionGrad(x.desc, x.dout.data(), x.qkv.data(),
                                r.out.data(), r.lse.data(), r.dqkv.data());
  EXPECT_TRUE(status.ok()) << status.toString();
  return r;
}

/// All heads one after the other with one instruction set's kernels.
Result runKernels(const AttentionKernels &kernels, const Case &x) {
  Result r = emptyResult(x);
  int64_t hidden = x.hidden();
  AttentionHead head = {x.desc.seq, x.desc.head_dim, 3 * hidden, hidden,
                        x.desc.causal != 0};
  int64_t elements =
      std::max(kernels.forwardScratch(head), kernels.backwardScratch(head));
  std::vector<float> memory(elements + 16);
  void *start = memory.data();
  size_t space = memory.size() * sizeof(float);
  float *scratch = static_cast<float *>(
      std::align(64, elements * sizeof(float), start, space));
  for (int64_t b = 0; b < x.desc.batch; ++b)
    for (int64_t n = 0; n < x.desc.heads; ++n) {
      int64_t in = b * x.desc.seq * 3 * hidden + n * x.desc.head_dim;
      int64_t at = b * x.desc.seq * hidden + n * x.desc.head_dim;
      const float *q = x.qkv.data() + in;
      float *dq = r.dqkv.data() + in;
      float *lse = r.lse.data() + (b * x.desc.heads + n) * x.desc.seq;
      kernels.forward(head, q, q + hidden, q + 2 * hidden, r.out.data() + at,
                      lse, scratch);
      kernels.backward(head, x.dout.data() + at, q, q + hidden, q + 2 * hidden,
                       r.out.data() + at, lse, dq, dq + hidden, dq + 2 * hidden,
                       scratch);
    }
  return r;
}

/// Compares one head with loops in f64, within these bounds (first order in
/// u; gamma(t) = t u bounds any sum of t products):
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
void expectHead(const Case &x, const Result &r, int64_t b, int64_t n) {
  const optrt_attention_desc &desc = x.desc;
  int64_t seq = desc.seq, dim = desc.head_dim, hidden = x.hidden();
  double scale = 1 / std::sqrt(double(dim));
  auto in = [&](int part, int64_t t, int64_t c) {
    return ((b * seq + t) * 3 + part) * hidden + n * dim + c;
  };
  auto at = [&](int64_t t, int64_t c) {
    return (b * seq + t) * hidden + n * dim + c;
  };
  std::vector<double> p(seq * seq), lse(seq), dq(seq * dim), dk(seq * dim),
      dv(seq * dim), out(seq * dim), column(seq);
  double maxScore = 0, maxLse = 0, maxQ = 0, maxK = 0, maxV = 0, maxDout = 0,
         reach = 0;
  for (int64_t i = 0; i < seq; ++i) {
    int64_t keys = desc.causal ? i + 1 : seq;
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0, magnitude = 0, through = 0;
      for (int64_t c = 0; c < dim; ++c) {
        double q = x.qkv[in(0, i, c)], k = x.qkv[in(1, j, c)],
               v = x.qkv[in(2, j, c)], g = x.dout[at(i, c)];
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
        out[i * dim + c] += prob * x.qkv[in(2, j, c)];
    }
  }
  for (int64_t i = 0; i < seq; ++i) {
    double dot = 0;
    for (int64_t c = 0; c < dim; ++c)
      dot += x.dout[at(i, c)] * out[i * dim + c];
    for (int64_t j = 0; j < (desc.causal ? i + 1 : seq); ++j) {
      double dp = 0, prob = p[i * seq + j];
      for (int64_t c = 0; c < dim; ++c) {
        dp += double(x.dout[at(i, c)]) * x.qkv[in(2, j, c)];
        dv[j * dim + c] += prob * x.dout[at(i, c)];
      }
      double ds = prob * (dp - dot) * scale;
      for (int64_t c = 0; c < dim; ++c) {
        dq[i * dim + c] += ds * x.qkv[in(1, j, c)];
        dk[j * dim + c] += ds * x.qkv[in(0, i, c)];
      }
    }
  }
  double columnSum = *std::max_element(column.begin(), column.end());
  double ds = (dim + 4) * u * maxScore;
  double dl = ds + (seq + 8) * u + 4 * u * maxLse;
  double eP = ds + dl + 4 * u * (maxScore + maxLse) + 4 * u;
  double eO = 2 * ds + 4 * u * maxScore + (2 * seq + 16) * u;
  double eT = 2 * eP + eO + (2 * dim + 8) * u;
  double outer = (eT + 2 * seq * u) * reach * scale;
  for (int64_t i = 0; i < seq; ++i) {
    ASSERT_NEAR(r.lse[(b * desc.heads + n) * seq + i], lse[i], dl) << i;
    for (int64_t c = 0; c < dim; ++c) {
      ASSERT_NEAR(r.out[at(i, c)], out[i * dim + c], eO * maxV)
          << i << " " << c;
      ASSERT_NEAR(r.dqkv[in(0, i, c)], dq[i * dim + c], outer * maxK)
          << i << " " << c;
      ASSERT_NEAR(r.dqkv[in(1, i, c)], dk[i * dim + c],
                  outer * maxQ * columnSum)
          << i << " " << c;
      ASSERT_NEAR(r.dqkv[in(2, i, c)], dv[i * dim + c],
                  (eP + seq * u) * maxDout * columnSum)
          << i << " " << c;
    }
  }
}

void expectAll(const Case &x, const Result &r) {
  for (int64_t b = 0; b < x.desc.batch; ++b)
    for (int64_t n = 0; n < x.desc.heads; ++n)
      ASSERT_NO_FATAL_FAILURE(expectHead(x, r, b, n))
          << "batch " << b << " head " << n;
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
      EXPECT_EQ(r.dqkv, expected.dqkv) << threads << " threads";
    }
  }
}

/// Scores near 1000 overflow exp; the running maximum keeps them finite.
TEST(Attention, LargeScoresStayFinite) {
  Case x = makeCase(1, 130, 1, 16, true);
  for (int64_t t = 0; t < x.desc.seq; ++t)
    for (int64_t c = 0; c < 32; ++c)
      x.qkv[t * 48 + c] *= 16.f;
  CpuDevice device(1);
  Result r = runDevice(device, x);
  expectAll(x, r);
  for (float value : r.dqkv)
    ASSERT_TRUE(std::isfinite(value));
}

TEST(Attention, NotANumberShows) {
  Case x = makeCase(1, 70, 1, 8, true);
  x.qkv[66 * 24] = std::numeric_limits<float>::quiet_NaN();
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
  EXPECT_EQ(device.attention({1, 2, 1, 0, 1}, x, x, x).code(),
            StatusCode::InvalidArgument);
  EXPECT_EQ(device.attention({-1, 2, 1, 4, 1}, x, x, x).code(),
            StatusCode::InvalidArgument);
  EXPECT_EQ(device.attention({1, 2, 1, 4, 1}, x, nullptr, x).code(),
            StatusCode::InvalidArgument);
  EXPECT_TRUE(device.attention({0, 2, 1, 4, 1}, x, x, x).ok());
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
