//===- CudnnAttentionTest.cpp - Attention by the fake cuDNN ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

#include "optimus-support/BFloat16.h"

#include <cmath>

using namespace optrt;
using namespace optrt::cuda;
using optimus_support::fromBFloat16;
using optimus_support::toBFloat16;
using testing::HasSubstr;

namespace {
constexpr int64_t kSeq = 4, kHeads = 2, kSize = 8, kWidth = kHeads * kSize;
/// Of a token: heads of queries, then one of keys and one of values.
constexpr int64_t kKeys = kWidth, kValues = kKeys + kSize,
                  kToken = kValues + kSize;

/// Queries of zeros, which attend alike to all their keys.
class CudnnAttentionTest : public FakeGpuTest {
protected:
  CudnnAttentionTest() {
    setenv("OPTIMUS_CUDNN_LIBRARY", OPTIMUS_FAKE_CUDNN, 1);
    desc = {1, kSeq,       kHeads, 1, kSize, kToken, kToken,
            1, OPTRT_BF16, 0,      0, 0,     1 << 20};
    tokens.resize(kSeq * kToken);
    for (int64_t token = 0; token != kSeq; ++token)
      for (int64_t i = 0; i != kSize; ++i) {
        at(tokens, token, kKeys + i) = toBFloat16(float(i + 1));
        at(tokens, token, kValues + i) = toBFloat16(float(token * 8 + i));
      }
  }

  template <typename T>
  static T &at(std::vector<T> &values, int64_t token, int64_t i) {
    return values[size_t(token * kToken + i)];
  }
  Status prepare(bool isGradient = false) {
    Workload workload;
    (isGradient ? workload.attentionGrads
                : workload.attentions) = {{desc, "h.0.attn"}};
    return device->prepare(workload);
  }
  /// How many tokens one sees.
  int64_t seenBy(int64_t token) const {
    const int64_t length = desc.has_lengths ? kLength : kSeq;
    return desc.causal ? std::min(token + 1, length) : length;
  }
  void checkAgainstMeans();

  static constexpr int32_t kLength = 3;
  optrt_attention_desc desc;
  std::vector<uint16_t> tokens;
};

/// Within bf16's rounding of weights, sums and results: an eighth of a percent
/// each.
void expectClose(float found, double expected, const std::string &what) {
  EXPECT_NEAR(found, expected,
              3 * std::ldexp(1, -8) * std::abs(expected) + 1e-6)
      << what;
}

void CudnnAttentionTest::checkAgainstMeans() {
  DeviceMemory there = upload(tokens), out = allocate(kSeq * kWidth * 2),
               lse = allocate(kHeads * kSeq * 4),
               workspace = allocate(desc.workspace_bytes),
               lengths = upload(std::vector<int32_t>{kLength}),
               ones =
                   upload(std::vector<uint16_t>(kSeq * kWidth, toBFloat16(1))),
               gradient = upload(std::vector<uint16_t>(tokens.size(), 0x7fc0));
  ASSERT_TRUE(prepare().ok()) << prepare().message();
  ASSERT_TRUE(prepare(/*isGradient=*/true).ok());
  auto *q = reinterpret_cast<uint16_t *>(there.data()),
       *dq = reinterpret_cast<uint16_t *>(gradient.data());
  const auto *ends = desc.has_lengths
                         ? reinterpret_cast<const int32_t *>(lengths.data())
                         : nullptr;
  auto *sums = reinterpret_cast<float *>(lse.data());
  ASSERT_TRUE(device
                  ->attention(kCompute, desc,
                              {q, q + kKeys, q + kValues, ends, out.data(),
                               sums, workspace.data()})
                  .ok());
  ASSERT_TRUE(device
                  ->attentionGrad(kCompute, desc,
                                  {q, q + kKeys, q + kValues, ends, out.data(),
                                   sums, workspace.data(), ones.data(), dq,
                                   dq + kKeys, dq + kValues})
                  .ok());
  const auto results = read<uint16_t>(out.data(), kSeq * kWidth);
  const auto logarithms = read(lse.data(), kHeads * kSeq);
  auto gradients = read<uint16_t>(gradient.data(), tokens.size());
  for (int64_t token = 0; token != kSeq; ++token) {
    const std::string where = concat("token ", token);
    const auto seen = double(seenBy(token));
    for (int64_t i = 0; i != kWidth; ++i)
      expectClose(fromBFloat16(results[size_t(token * kWidth + i)]),
                  double(i % kSize) + 4 * (seen - 1), where);
    for (int64_t head = 0; head != kHeads; ++head)
      expectClose(logarithms[size_t(head * kSeq + token)], std::log(seen),
                  where);
    double weights = 0; // of both heads that share it
    for (int64_t other = 0; other != kSeq; ++other)
      weights += token < seenBy(other) ? kHeads / double(seenBy(other)) : 0;
    for (int64_t i = 0; i != kSize; ++i) {
      expectClose(fromBFloat16(at(gradients, token, kValues + i)), weights,
                  where);
      // Queries are zero, and so are the gradients of keys.
      EXPECT_EQ(fromBFloat16(at(gradients, token, kKeys + i)), 0) << where;
    }
  }
}

TEST_F(CudnnAttentionTest, AddsWhatATokenSees) { checkAgainstMeans(); }

TEST_F(CudnnAttentionTest, SequencesEndWhereTheirLengthsSay) {
  for (int32_t causal : {0, 1})
    for (int32_t deterministic : {0, 1}) {
      start(1);
      desc.causal = causal;
      desc.deterministic = deterministic;
      desc.has_lengths = 1;
      checkAgainstMeans();
    }
}

TEST_F(CudnnAttentionTest, WhatIsNotForCudnnIsRefused) {
  auto refuses = [&](auto change, const char *message) {
    const optrt_attention_desc good = desc;
    change();
    Status status = prepare();
    EXPECT_EQ(status.code(), StatusCode::Unavailable);
    EXPECT_THAT(status.message(), HasSubstr(message));
    EXPECT_THAT(status.message(), HasSubstr("h.0.attn: "));
    desc = good;
  };
  refuses([&] { desc.type = OPTRT_F32; }, "cuDNN computes attention in bf16");
  refuses([&] { desc.head_dim = 6; }, "heads of 6; expected a multiple of 8");
  refuses([&] { desc.kv_ld = 36; },
          "rows that do not begin at multiples of 16");
  refuses([&] { desc.window = 2; },
          "cuDNN is not asked for attention in a window");
  refuses([&] { desc.workspace_bytes = 4095; },
          "takes 4096 bytes of workspace; expected at most 4095");
}

TEST_F(CudnnAttentionTest, OperandsAreAligned) {
  DeviceMemory there = upload(tokens),
               workspace = allocate(desc.workspace_bytes);
  ASSERT_TRUE(prepare().ok());
  char *q = there.data();
  Status status =
      device->attention(kCompute, desc,
                        {q + 2, q, q, nullptr, q, reinterpret_cast<float *>(q),
                         workspace.data()});
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(),
              HasSubstr("expected operands at multiples of 16 bytes"));
}
} // namespace
