//===- NarrowTest.cpp - bf16 by products in f32 --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Gemm.h"
#include "../NarrowProducts.h"
#include "MaxThreads.h"
#include "optimus-runtime/CpuDevice.h"
#include "optimus-support/BFloat16.h"
#include "optimus-support/DeviceScratch.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace optrt;
using optimus_support::ElementType;
using optimus_support::fromBFloat16;
using optimus_support::kNarrowCols;
using optimus_support::kNarrowDepth;
using optimus_support::kNarrowRows;
using optimus_support::toBFloat16;

namespace {

constexpr double kUnit = 0x1p-24, kNarrowUnit = 0x1p-8;

class NarrowTest : public ::testing::Test {
protected:
  std::vector<uint16_t> drawNarrow(int64_t count) {
    std::vector<uint16_t> values(count);
    for (uint16_t &value : values)
      value = toBFloat16(uniform(random));
    return values;
  }
  std::vector<float> draw(int64_t count) {
    std::vector<float> values(count);
    for (float &value : values)
      value = uniform(random);
    return values;
  }

  NarrowProducts::Gemm multiply() {
    return [this](const optrt_gemm_desc &desc, const void *a, const void *b,
                  float *c) {
      return device.gemm(kCompute, desc, a, b, c, nullptr, nullptr);
    };
  }

  /// Multiplies with C of f32 or bf16 in all ways that there are, and holds it
  /// against loops in f64.
  void check(optrt_gemm_desc d, bool isNarrow) {
    for (int64_t gap : {0, 1})
      checkWithGaps(d, isNarrow, gap);
  }
  void checkWithGaps(optrt_gemm_desc d, bool isNarrow, int64_t gap) {
    SCOPED_TRACE(::testing::Message()
                 << d.m << " x " << d.n << " x " << d.k << " trans "
                 << d.trans_a << d.trans_b << " accumulate " << d.accumulate
                 << " epilogue " << d.epilogue << " narrow " << isNarrow
                 << " gap " << gap);
    d.lda = (d.trans_a ? d.m : d.k) + 3 * gap;
    d.ldb = (d.trans_b ? d.k : d.n) + gap;
    d.ldc = d.n + 2 * gap;
    d.ld_extra = d.n;
    d.factor_type = d.extra_type = OPTRT_BF16;
    d.result_type = isNarrow ? OPTRT_BF16 : OPTRT_F32;
    auto a = drawNarrow((d.trans_a ? d.k : d.m) * d.lda);
    auto b = drawNarrow((d.trans_b ? d.n : d.k) * d.ldb);
    auto bias = draw(d.n);
    auto extra = drawNarrow(d.m * d.n);
    auto wide = draw(d.m * d.ldc);
    auto narrow = drawNarrow(d.m * d.ldc);
    auto valueOf = [&](int64_t i) {
      return isNarrow ? fromBFloat16(narrow[i]) : wide[i];
    };
    std::vector<double> expected(d.m * d.ldc), magnitudes(d.m * d.ldc);
    for (int64_t i = 0; i != d.m * d.ldc; ++i)
      expected[i] = valueOf(i);
    for (int64_t i = 0; i != d.m; ++i)
      for (int64_t j = 0; j != d.n; ++j) {
        double sum = d.accumulate ? expected[i * d.ldc + j] : 0;
        double magnitude = std::abs(sum);
        auto add = [&](double term) {
          sum += term;
          magnitude += std::abs(term);
        };
        for (int64_t k = 0; k != d.k; ++k)
          add(double(fromBFloat16(a[d.trans_a ? k * d.lda + i : i * d.lda + k])) *
              fromBFloat16(b[d.trans_b ? j * d.ldb + k : k * d.ldb + j]));
        if (d.has_bias)
          add(bias[j]);
        double more = fromBFloat16(extra[i * d.n + j]);
        if (d.epilogue == OPTRT_EPILOGUE_ADD)
          add(more);
        if (d.epilogue == OPTRT_EPILOGUE_MUL) {
          sum *= more;
          magnitude *= std::abs(more);
        }
        expected[i * d.ldc + j] = sum;
        // Sums of k + 4 terms in f32, in any order, and what is stored.
        magnitudes[i * d.ldc + j] =
            (d.k + 4) * kUnit * magnitude +
            (isNarrow ? kNarrowUnit * std::abs(sum) * 1.01 : 0);
      }
    const std::vector<uint16_t> narrowBefore = narrow;
    const std::vector<float> wideBefore = wide;
    auto holds = [&](const char *how, auto compute) {
      SCOPED_TRACE(how);
      narrow = narrowBefore;
      wide = wideBefore;
      const Status status =
          compute(isNarrow ? static_cast<void *>(narrow.data()) : wide.data());
      ASSERT_TRUE(status.ok()) << status.message();
      for (int64_t i = 0; i != d.m * d.ldc; ++i)
        ASSERT_LE(std::abs(valueOf(i) - expected[i]), magnitudes[i] + 1e-30)
            << "element " << i;
    };
    holds("the device", [&](void *c) {
      return device.gemm(kCompute, d, a.data(), b.data(), c, bias.data(),
                         extra.data());
    });
    for (bool widens : {true, false}) {
      if (!widens && !GemmEngine::takesNarrow())
        continue;
      Buffer scratch;
      NarrowProducts narrows(team, scratch, widens);
      holds(widens ? "blocks, widened" : "blocks", [&](void *c) {
        return narrows.gemm(
            d, a.data(), b.data(),
            {c, d.ldc, isNarrow ? ElementType::BF16 : ElementType::F32},
            {bias.data(), d.n}, {extra.data(), d.n, ElementType::BF16},
            multiply());
      });
      EXPECT_LE(int64_t(scratch.size()),
                (optimus_support::narrowProductScratchBytes({d.m, d.n, d.k},
                                                            isNarrow, widens) +
                 63) /
                    64 * 64);
    }
  }

  std::mt19937 random{7};
  std::uniform_real_distribution<float> uniform{-1, 1};
  Team team{maxThreads};
  CpuDevice device{maxThreads};
};

TEST_F(NarrowTest, ProductsAreThoseOfWidenedOperands) {
  for (bool isNarrow : {false, true})
    for (int transposed = 0; transposed != 4; ++transposed)
      for (int32_t epilogue :
           {OPTRT_EPILOGUE_NONE, OPTRT_EPILOGUE_ADD, OPTRT_EPILOGUE_MUL})
        for (int32_t accumulates : {0, 1}) {
          optrt_gemm_desc d = {};
          d.m = 9;
          d.n = 13;
          d.k = 7;
          d.trans_a = transposed & 1;
          d.trans_b = transposed >> 1;
          d.epilogue = epilogue;
          d.accumulate = accumulates;
          d.has_bias = accumulates ^ (transposed & 1);
          check(d, isNarrow);
        }
}

TEST_F(NarrowTest, ATransposedIsCopied) {
  for (bool isNarrow : {false, true}) {
    optrt_gemm_desc d = {};
    d.m = 40;
    d.n = 260;
    d.k = 70;
    d.trans_a = 1;
    check(d, isNarrow);
    d.accumulate = d.has_bias = d.trans_b = 1;
    check(d, isNarrow);
  }
}

TEST_F(NarrowTest, BlocksMakeUpTheProduct) {
  // More than a block of rows, of columns and of depth.
  for (auto [m, n, k] :
       {std::tuple<int64_t, int64_t, int64_t>{kNarrowRows + 5, 3, 4},
        {3, kNarrowCols + 5, 4},
        {3, 4, 2 * kNarrowDepth + 5},
        {kNarrowRows + 1, kNarrowCols + 1, 2}})
    for (bool isNarrow : {false, true})
      for (int transposed = 0; transposed != 4; ++transposed) {
        optrt_gemm_desc d = {};
        d.m = m;
        d.n = n;
        d.k = k;
        d.trans_a = transposed & 1;
        d.trans_b = transposed >> 1;
        d.accumulate = transposed == 3;
        d.has_bias = transposed == 2;
        check(d, isNarrow);
      }
}

TEST_F(NarrowTest, TheDeviceTakesTypesThatItKnows) {
  optrt_gemm_desc d = {};
  d.m = d.n = d.k = d.lda = d.ldb = d.ldc = 2;
  d.factor_type = static_cast<int32_t>(ElementType::BF16);
  d.has_bias = 1;
  const auto a = drawNarrow(4), b = drawNarrow(4);
  const auto bias = draw(2);
  std::vector<float> c(4);
  ASSERT_TRUE(device
                  .gemm(kCompute, d, a.data(), b.data(), c.data(), bias.data(),
                        nullptr)
                  .ok());
  for (int i = 0; i != 4; ++i) {
    double sum = bias[i % 2];
    for (int k = 0; k != 2; ++k)
      sum += double(fromBFloat16(a[i / 2 * 2 + k])) *
             fromBFloat16(b[k * 2 + i % 2]);
    EXPECT_NEAR(c[i], sum, 6 * kUnit * 3);
  }
  auto refuses = [&](ElementType factors, ElementType result,
                     const char *message) {
    d.factor_type = static_cast<int32_t>(factors);
    d.result_type = static_cast<int32_t>(result);
    EXPECT_EQ(device
                  .gemm(kCompute, d, a.data(), b.data(), c.data(), bias.data(),
                        nullptr)
                  .message(),
              message);
  };
  refuses(ElementType::F16, ElementType::F32,
          "gemm expects elements of f32 or bf16; found f16");
  refuses(ElementType::F32, ElementType::BF16,
          "gemm of f32 expects all operands to be f32");
  d.ldc = 1;
  refuses(ElementType::BF16, ElementType::F32,
          "gemm of m 2, n 2, k 2: the leading dimension of C must be at least "
          "2, found 1");
}

/// Attention in f32 of the widened operands, sequence by sequence and with
/// heads that share keys.
TEST_F(NarrowTest, AttentionIsThatOfWidenedOperands) {
  optrt_attention_desc d = {};
  d.batch = 3;
  d.seq = 10;
  d.heads = 4;
  d.kv_heads = 2;
  d.head_dim = 8;
  d.q_ld = 40;
  d.kv_ld = 24;
  d.causal = 1;
  const int64_t tokens = d.batch * d.seq, queries = d.heads * d.head_dim;
  const std::vector<int32_t> lengths{10, 4, 7};
  auto q = drawNarrow(tokens * d.q_ld), k = drawNarrow(tokens * d.kv_ld),
       v = drawNarrow(tokens * d.kv_ld), dout = drawNarrow(tokens * queries);
  auto widened = [](const std::vector<uint16_t> &narrow) {
    std::vector<float> wide;
    for (uint16_t bits : narrow)
      wide.push_back(fromBFloat16(bits));
    return wide;
  };
  auto narrowed = [](const std::vector<float> &wide) {
    std::vector<uint16_t> narrow;
    for (float value : wide)
      narrow.push_back(toBFloat16(value));
    return narrow;
  };
  std::vector<float> expected(tokens * queries), expectedLse(d.batch * d.heads * d.seq);
  ASSERT_TRUE(device
                  .attention(kCompute, d,
                             {widened(q).data(), widened(k).data(),
                              widened(v).data(), lengths.data(),
                              expected.data(), expectedLse.data(), nullptr})
                  .ok());
  optrt_attention_desc narrow = d;
  narrow.type = OPTRT_BF16;
  std::vector<uint16_t> out(tokens * queries);
  std::vector<float> lse(expectedLse.size());
  ASSERT_TRUE(device
                  .attention(kCompute, narrow,
                             {q.data(), k.data(), v.data(), lengths.data(),
                              out.data(), lse.data(), nullptr})
                  .ok());
  EXPECT_EQ(out, narrowed(expected));
  EXPECT_EQ(lse, expectedLse);

  std::vector<float> dq(tokens * d.q_ld), dk(tokens * d.kv_ld),
      dv(tokens * d.kv_ld);
  ASSERT_TRUE(device
                  .attentionGrad(
                      kCompute, d,
                      {widened(q).data(), widened(k).data(), widened(v).data(),
                       lengths.data(), widened(out).data(), lse.data(), nullptr,
                       widened(dout).data(), dq.data(), dk.data(), dv.data()})
                  .ok());
  std::vector<uint16_t> foundDq(dq.size()), foundDk(dk.size()),
      foundDv(dv.size());
  ASSERT_TRUE(
      device
          .attentionGrad(kCompute, narrow,
                         {q.data(), k.data(), v.data(), lengths.data(),
                          out.data(), lse.data(), nullptr, dout.data(),
                          foundDq.data(), foundDk.data(), foundDv.data()})
          .ok());
  EXPECT_EQ(foundDq, narrowed(dq));
  EXPECT_EQ(foundDk, narrowed(dk));
  EXPECT_EQ(foundDv, narrowed(dv));
}

/// One query a slot, of caches of which one is empty.
TEST_F(NarrowTest, ATokenSeesNarrowCachesAsWideOnes) {
  optrt_attention_desc d = {};
  d.batch = 3;
  d.seq = 1;
  d.heads = 4;
  d.kv_heads = 2;
  d.head_dim = 36;
  d.q_ld = d.heads * d.head_dim;
  d.kv_ld = d.kv_heads * d.head_dim;
  d.causal = d.has_lengths = d.has_positions = 1;
  d.capacity = 50;
  const std::vector<int32_t> lengths{50, 0, 7}, positions{49, -1, 6};
  const auto q = drawNarrow(d.batch * d.q_ld),
             k = drawNarrow(d.batch * d.capacity * d.kv_ld),
             v = drawNarrow(d.batch * d.capacity * d.kv_ld);
  auto widened = [](const std::vector<uint16_t> &narrow) {
    std::vector<float> wide;
    for (uint16_t value : narrow)
      wide.push_back(fromBFloat16(value));
    return wide;
  };
  const std::vector<float> wideQ = widened(q), wideK = widened(k),
                           wideV = widened(v);
  std::vector<float> expected(q.size(), 7), lse(12), wideLse(12);
  std::vector<uint16_t> found(q.size(), 7);
  auto attend = [&](const void *ofQ, const void *ofK, const void *ofV,
                    void *out, float *sums) {
    Workload workload;
    workload.attentions = {{d, ""}};
    ASSERT_TRUE(device.prepare(workload).ok());
    const Status status = device.attention(
        kCompute, d,
        {ofQ, ofK, ofV, lengths.data(), out, sums, nullptr, nullptr, nullptr,
         nullptr, nullptr, positions.data()});
    ASSERT_TRUE(status.ok()) << status.message();
  };
  attend(wideQ.data(), wideK.data(), wideV.data(), expected.data(),
         wideLse.data());
  d.type = OPTRT_BF16;
  attend(q.data(), k.data(), v.data(), found.data(), lse.data());
  EXPECT_EQ(lse, wideLse);
  for (std::size_t i = 0; i != found.size(); ++i)
    ASSERT_EQ(found[i], toBFloat16(expected[i])) << i;
}

/// A token for each slot of a text that is generated: few rows, and deep.
TEST_F(NarrowTest, ScratchOfFewRowsIsBounded) {
  for (int64_t m : {1, 7, 16, 17, 33, 64, 65, 128})
    for (bool isNarrow : {false, true})
      for (int flags = 0; flags != 8; ++flags) {
        optrt_gemm_desc d = {};
        d.m = m;
        d.n = 768;
        d.k = 8192;
        d.trans_b = flags & 1;
        d.has_bias = flags >> 1 & 1;
        d.accumulate = flags >> 2 & 1;
        d.lda = d.k;
        d.ldb = d.trans_b ? d.k : d.n;
        d.ldc = d.ld_extra = d.n;
        d.factor_type = d.extra_type = isNarrow ? OPTRT_BF16 : OPTRT_F32;
        d.result_type = isNarrow && !d.accumulate ? OPTRT_BF16 : OPTRT_F32;
        Workload workload;
        workload.products = {d};
        const Status status = device.prepare(workload);
        EXPECT_TRUE(status.ok()) << status.message();
      }
}

/// What a program of bf16 says it needs is enough, and is bounded.
TEST_F(NarrowTest, PreparedScratchIsEnoughAndWithinItsBound) {
  Workload workload;
  optimus_support::ScratchBound bound;
  for (int flags = 0; flags != 64; ++flags) {
    optrt_gemm_desc d = {};
    d.m = 300;
    d.n = flags & 2 ? 70 : 270;
    d.k = 90;
    d.trans_a = flags & 1;
    d.trans_b = flags >> 1 & 1;
    d.has_bias = flags >> 2 & 1;
    d.epilogue = flags >> 3 & 1 ? OPTRT_EPILOGUE_MUL : OPTRT_EPILOGUE_NONE;
    d.lda = (d.trans_a ? d.m : d.k) + 2;
    d.ldb = d.trans_b ? d.k : d.n;
    d.ldc = d.ld_extra = d.n + 5 * (flags >> 4 & 1);
    d.factor_type = d.extra_type = OPTRT_BF16;
    d.result_type = flags >> 5 & 1 ? OPTRT_BF16 : OPTRT_F32;
    bound.product({d.m, d.n, d.k, d.trans_a != 0}, true,
                  d.result_type == OPTRT_BF16);
    workload.products.push_back(d);
  }
  optrt_attention_desc attention = {};
  attention.batch = attention.heads = 2;
  attention.kv_heads = 1;
  attention.seq = 70;
  attention.head_dim = 9;
  attention.q_ld = 18;
  attention.kv_ld = 9;
  attention.type = OPTRT_BF16;
  workload.attentions = workload.attentionGrads = {{attention, ""}};
  for (bool isGradient : {false, true})
    bound.attention({attention.seq, attention.head_dim, isGradient,
                     /*isNarrow=*/true, /*hasFirstKeys=*/false});
  ASSERT_TRUE(device.prepare(workload).ok());
  const size_t prepared = device.scratchBytes();
  EXPECT_GT(prepared, 0u);
  EXPECT_LE(int64_t(prepared), bound.get().bytes(maxThreads));
  const auto values = drawNarrow(300 * 300);
  auto out = values;
  std::vector<float> c(300 * 300), lse(400);
  std::vector<uint16_t> dq(1 << 13), dk(1 << 13), dv(1 << 13);
  for (const optrt_gemm_desc &d : workload.products) {
    const Status status = device.gemm(kCompute, d, values.data(), values.data(),
                                      c.data(), lse.data(), values.data());
    ASSERT_TRUE(status.ok()) << status.message();
  }
  ASSERT_TRUE(device
                  .attention(kCompute, attention,
                             {values.data(), values.data(), values.data(),
                              nullptr, dq.data(), lse.data(), nullptr})
                  .ok());
  ASSERT_TRUE(
      device
          .attentionGrad(kCompute, attention,
                         {values.data(), values.data(), values.data(), nullptr,
                          out.data(), lse.data(), nullptr, values.data(),
                          dq.data(), dk.data(), dv.data()})
          .ok());
  EXPECT_EQ(device.scratchBytes(), prepared);
}

} // namespace
