//===- AttentionTest.cpp - Attention against plain loops -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionReference.h"
#include "MaxThreads.h"
#include "optimus-support/DeviceScratch.h"

#include <cstring>

using namespace attention_test;

namespace {

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

/// Keys of two kinds, k and -k, and queries along k or against it: a query sees
/// the keys of its kind alike, whatever rounding does to its scores, which
/// reach 10^8. The bounds are those of expectHead() without an error of scores,
/// since differences of equal scores are exact:
///   eP = (s + 16) u, eO = (2 s + 16) u, eT = 2 eP + eO + (2 d + 8) u
void expectFarScores(const Case &x, const Result &r) {
  const int64_t seq = x.desc.seq, dim = x.desc.head_dim;
  const double scale = 1 / std::sqrt(double(dim));
  auto in = [&](int part, int64_t t, int64_t c) {
    return x.begin(part) + t * (part ? x.desc.kv_ld : x.desc.q_ld) + c;
  };
  std::vector<double> dq(seq * dim), dk(seq * dim), dv(seq * dim), column(seq);
  double maxQ = 0, maxK = 0, reach = 0;
  for (int64_t i = 0; i < seq; ++i) {
    auto isSeen = [&](int64_t j) {
      return (x.inputs[in(0, i, 0)] > 0) == (x.inputs[in(1, j, 0)] > 0);
    };
    double count = 0;
    for (int64_t j = 0; j < x.end(0, i); ++j)
      count += isSeen(j);
    // Where none is of its kind, the others are alike, too.
    const bool hasNone = count == 0;
    if (hasNone)
      count = double(x.end(0, i));
    std::vector<double> probs(seq), dp(seq);
    double dot = 0;
    for (int64_t j = 0; j < x.end(0, i); ++j) {
      probs[j] = hasNone || isSeen(j) ? 1 / count : 0;
      double through = 0;
      for (int64_t c = 0; c < dim; ++c) {
        const double term = double(x.dout[i * dim + c]) * x.inputs[in(2, j, c)];
        dp[j] += term;
        through += std::abs(term);
        maxQ = std::max(maxQ, std::abs(double(x.inputs[in(0, i, c)])));
        maxK = std::max(maxK, std::abs(double(x.inputs[in(1, j, c)])));
      }
      reach = std::max(reach, through);
      dot += probs[j] * dp[j];
      column[j] += probs[j];
    }
    for (int64_t j = 0; j < x.end(0, i); ++j)
      for (int64_t c = 0; c < dim; ++c) {
        const double t = probs[j] * (dp[j] - dot) * scale;
        dq[i * dim + c] += t * x.inputs[in(1, j, c)];
        dk[j * dim + c] += t * x.inputs[in(0, i, c)];
        dv[j * dim + c] += probs[j] * x.dout[i * dim + c];
      }
  }
  const double columnSum = *std::ranges::max_element(column);
  const double eP = (seq + 16) * u, eO = (2 * seq + 16) * u;
  const double outer =
      (2 * eP + eO + (2 * dim + 8) * u + (2 * seq + 1) * u) * reach * scale;
  for (int64_t t = 0; t < seq; ++t)
    for (int64_t c = 0; c < dim; ++c) {
      ASSERT_NEAR(r.grads[in(0, t, c)], dq[t * dim + c], outer * maxK) << t;
      ASSERT_NEAR(r.grads[in(1, t, c)], dk[t * dim + c],
                  outer * maxQ * columnSum)
          << t;
      ASSERT_NEAR(r.grads[in(2, t, c)], dv[t * dim + c],
                  (eP + (seq + 1) * u) * 1.5 * columnSum)
          << t;
    }
}

TEST(Attention, FarScoresHaveTheGradientOfTheirSoftmax) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (bool causal : {false, true})
    for (int64_t seq : {1, 40, 64, 150})
      for (int64_t dim : {16, 20}) {
        Case x = makeCase(1, seq, 1, dim, causal);
        const auto size = float(5000. / std::sqrt(std::sqrt(dim / 16.)));
        for (int64_t t = 0; t < seq; ++t)
          for (int64_t c = 0; c < dim; ++c) {
            x.inputs[t * 3 * dim + c] =
                (size + 7.f * float(t)) * (t % 3 ? 1.f : -1.f);
            x.inputs[t * 3 * dim + dim + c] = t % 5 < 2 ? size : -size;
          }
        for (int set = 0; set < count; ++set)
          ASSERT_NO_FATAL_FAILURE(expectFarScores(x, runKernels(*sets[set], x)))
              << sets[set]->name << " seq " << seq << " causal " << causal;
        CpuDevice device(maxThreads);
        ASSERT_NO_FATAL_FAILURE(expectFarScores(x, runDevice(device, x)));
      }
}

/// Scores of all sizes: each row of P sums to 1, so the sum of dV equals the
/// sum of dout, within the rounding of s^2 terms of at most |dout|.
TEST(Attention, ProbabilitiesSumToOneAtEveryScale) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (double size : {1., 1e2, 1e4, 1e6, 1e8, 1e12})
    for (bool causal : {false, true}) {
      Case x = makeCase(1, 150, 1, 16, causal);
      for (int64_t t = 0; t < x.desc.seq; ++t)
        for (int64_t c = 0; c < 32; ++c)
          x.inputs[t * 48 + c] *= float(std::sqrt(size));
      for (int set = 0; set < count; ++set) {
        Result r = runKernels(*sets[set], x);
        for (int64_t c = 0; c < 16; ++c) {
          double found = 0, expected = 0, magnitude = 0;
          for (int64_t t = 0; t < x.desc.seq; ++t) {
            found += r.grads[t * 48 + 32 + c];
            expected += x.dout[t * 16 + c];
            magnitude += std::abs(x.dout[t * 16 + c]);
          }
          // Of P, where lse is in f32: 2^-10, or what the scores' size
          // explains.
          const double ofLse = std::min(0x1p-10, 8 * u * (size * 9 + 8));
          ASSERT_NEAR(found, expected, (ofLse + 3 * x.desc.seq * u) * magnitude)
              << sets[set]->name << " size " << size << " channel " << c;
        }
      }
    }
}

TEST(Attention, NotANumberShows) {
  Case x = makeCase(1, 70, 1, 8, true);
  x.inputs[66 * 24] = std::numeric_limits<float>::quiet_NaN();
  CpuDevice device(1);
  Result r = runDevice(device, x);
  EXPECT_TRUE(std::isnan(r.out[66 * 8]));
  EXPECT_TRUE(std::isfinite(r.out[65 * 8]));
}

TEST(Attention, PreparedScratchIsEnoughAndWithinItsBound) {
  Case x = makeCase(2, 90, 2, 40, true);
  CpuDevice device(maxThreads);
  EXPECT_EQ(device.scratchBytes(), 0u);
  Workload workload;
  workload.attentions = workload.attentionGrads = {{x.desc, ""}};
  ASSERT_TRUE(device.prepare(workload).ok());
  size_t reserved = device.scratchBytes();
  EXPECT_GT(reserved, 0u);
  int64_t bound = 0;
  for (bool isGradient : {false, true})
    bound = std::max(bound, *optimus_support::attentionScratchBytes(
                                 {x.desc.seq, x.desc.head_dim, isGradient,
                                  /*isNarrow=*/false, /*hasFirstKeys=*/false})
                                 .get());
  EXPECT_LE(int64_t(reserved), maxThreads * bound);
  runDevice(device, x);
  EXPECT_EQ(device.scratchBytes(), reserved);
}

/// Nothing grows while programs run.
TEST(Attention, MoreThanWasPreparedIsRefused) {
  Case x = makeCase(2, 90, 2, 40, true);
  CpuDevice device(1);
  Workload workload;
  workload.attentions = {{x.desc, ""}};
  workload.attentions[0].desc.seq = 10;
  ASSERT_TRUE(device.prepare(workload).ok());
  float *p = x.inputs.data();
  Status status =
      device.attention(kCompute, x.desc, {p, p, p, nullptr, p, p, nullptr});
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_NE(status.message().find("bytes of scratch memory"),
            std::string::npos)
      << status.message();
}

/// The bound is for every set of kernels.
TEST(Attention, ScratchIsWithinItsBound) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (int i = 0; i != count; ++i)
    for (int64_t seq : {1, 63, 64, 65, 1000})
      for (int64_t headDim : {1, 7, 64, 80}) {
        AttentionHead head{seq, headDim, headDim, headDim, headDim, true, seq};
        for (bool isGradient : {false, true}) {
          const int64_t bound =
              *optimus_support::attentionScratchBytes({seq, headDim, isGradient,
                                                       /*isNarrow=*/false,
                                                       /*hasFirstKeys=*/false})
                   .get();
          const int64_t bytes = 4 * (isGradient ? sets[i]->backwardScratch(head)
                                                : sets[i]->forwardScratch(head));
          EXPECT_LE(bytes, bound) << sets[i]->name << " " << seq << " " << headDim;
          // Whole vectors of any kernels: nothing is said in vain.
          if (headDim % optimus_support::kMostLanes == 0) {
            EXPECT_EQ(bytes, bound) << sets[i]->name << " " << seq;
          }
        }
      }
}

TEST(Attention, WrongDescriptorsAreRefused) {
  CpuDevice device(1);
  float x[64] = {};
  auto run = [&](optrt_attention_desc d, float *out) {
    return device.attention(kCompute, d, {x, x, x, nullptr, out, x, nullptr});
  };
  optrt_attention_desc good = {1, 2, 2, 1, 4, 16, 16, 1, OPTRT_F32, 0, 0, 0, 0};
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
  refuses([](auto &d) { d.window = -1; });
  // No lengths and positions.
  refuses([](auto &d) { d.capacity = 2; });
  // No cache of whole pages, as many for each sequence.
  refuses([](auto &d) { d.pool = 2; });
  refuses([](auto &d) { d.causal = 0, d.window = 1; });
  // Products that do not fit 64 bits, or are more than any memory.
  constexpr int64_t kMany = int64_t(1) << 40;
  refuses([](auto &d) { d.batch = d.seq = kMany; });
  refuses([](auto &d) { d.heads = d.head_dim = kMany; });
  refuses([](auto &d) { d.q_ld = INT64_MAX; });
  refuses([](auto &d) { d.kv_ld = int64_t(1) << 50; });
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
