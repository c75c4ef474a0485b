//===- GemmTest.cpp - Products against plain loops ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MaxThreads.h"
#include "optimus-runtime/CpuDevice.h"
#include "optimus-support/DeviceScratch.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <optional>
#include <random>
#include <utility>
#include <vector>

using namespace optrt;

namespace {

struct Operands {
  std::vector<float> a, b, c, bias, extra;
};

std::vector<float> randomValues(size_t count, std::mt19937 &random) {
  std::uniform_real_distribution<float> uniform(-1.f, 1.f);
  std::vector<float> values(count);
  for (float &value : values)
    value = uniform(random);
  return values;
}

/// Vectors that end with the descriptor's last element: a sanitizer sees every
/// access beyond.
Operands operandsFor(const optrt_gemm_desc &d, std::mt19937 &random) {
  auto reach = [](int64_t rows, int64_t cols, int64_t ld) {
    return (rows - 1) * ld + cols;
  };
  Operands x;
  x.a = randomValues(
      d.trans_a ? reach(d.k, d.m, d.lda) : reach(d.m, d.k, d.lda), random);
  x.b = randomValues(
      d.trans_b ? reach(d.n, d.k, d.ldb) : reach(d.k, d.n, d.ldb), random);
  x.c = randomValues(reach(d.m, d.n, d.ldc), random);
  x.bias = randomValues(d.n, random);
  x.extra = randomValues(reach(d.m, d.n, d.ld_extra), random);
  return x;
}

/// Compares `found` with loops in f64. A sum of t products in f32, in any
/// order and with or without FMA, errs by at most gamma = t u / (1 - t u)
/// times the sum of their magnitudes, u = 2^-24; here t = k + 4 counts the
/// addition of C and bias and the epilogue's operation.
void expectProduct(const optrt_gemm_desc &d, const Operands &x,
                   const std::vector<float> &found) {
  double u = std::ldexp(1., -24), gamma = (d.k + 4) * u / (1 - (d.k + 4) * u);
  for (int64_t i = 0; i < d.m; ++i) {
    for (int64_t j = 0; j < d.n; ++j) {
      double sum = 0, magnitude = 0;
      auto add = [&](double value) {
        sum += value;
        magnitude += std::abs(value);
      };
      if (d.accumulate)
        add(x.c[i * d.ldc + j]);
      for (int64_t l = 0; l < d.k; ++l)
        add(double(x.a[d.trans_a ? l * d.lda + i : i * d.lda + l]) *
            x.b[d.trans_b ? j * d.ldb + l : l * d.ldb + j]);
      if (d.has_bias)
        add(x.bias[j]);
      double extra = x.extra[i * d.ld_extra + j];
      if (d.epilogue == OPTRT_EPILOGUE_ADD)
        add(extra);
      if (d.epilogue == OPTRT_EPILOGUE_MUL) {
        sum *= extra;
        magnitude *= std::abs(extra);
      }
      ASSERT_NEAR(found[i * d.ldc + j], sum, gamma * magnitude + 1e-38)
          << "at " << i << ", " << j << " of m " << d.m << " n " << d.n << " k "
          << d.k << " lda " << d.lda << " ldb " << d.ldb << " ldc " << d.ldc
          << " ta " << d.trans_a << " tb " << d.trans_b << " acc "
          << d.accumulate << " epilogue " << d.epilogue << " bias "
          << d.has_bias << " packed " << d.packed_b;
    }
    // Columns between n and the leading dimension are not C's.
    for (int64_t j = d.n; i + 1 < d.m && j < d.ldc; ++j)
      ASSERT_EQ(found[i * d.ldc + j], x.c[i * d.ldc + j]);
  }
}

optrt_gemm_desc denseDesc(int64_t m, int64_t n, int64_t k, bool transA = false,
                          bool transB = false) {
  optrt_gemm_desc d = {};
  d.m = m, d.n = n, d.k = k;
  d.lda = transA ? m : k;
  d.ldb = transB ? k : n;
  d.ldc = d.ld_extra = n;
  d.trans_a = transA, d.trans_b = transB;
  return d;
}

/// B of a product, packed with just the room that it needs anywhere.
class PackedB {
public:
  PackedB(CpuDevice &device, const optrt_gemm_desc &d, const float *b)
      : desc{d.k, d.n, d.ldb, (d.k + 15) / 16 * 16 * ((d.n + 63) / 64 * 64),
             d.trans_b} {
    auto allocated =
        device.allocate(desc.elements * int64_t(sizeof(float)), "a packed B");
    EXPECT_TRUE(allocated.ok());
    memory = std::move(*allocated);
    Status status = device.pack(kCompute, desc, b, data());
    EXPECT_TRUE(status.ok()) << status.toString();
  }

  float *data() const { return reinterpret_cast<float *>(memory.data()); }
  /// The product that reads it.
  optrt_gemm_desc readBy(optrt_gemm_desc d) const {
    d.packed_b = 1;
    d.trans_b = 0;
    d.ldb = desc.elements;
    return d;
  }

private:
  optrt_pack_desc desc;
  DeviceMemory memory;
};

/// With packed_b, B lies as the descriptor says before it is packed.
void runAndCheck(CpuDevice &device, optrt_gemm_desc d, std::mt19937 &random) {
  const bool packs = std::exchange(d.packed_b, 0);
  Operands x = operandsFor(d, random);
  std::vector<float> c = x.c;
  std::optional<PackedB> packed;
  if (packs)
    packed.emplace(device, d, x.b.data());
  Status status =
      device.gemm(kCompute, packs ? packed->readBy(d) : d, x.a.data(),
                  packs ? packed->data() : x.b.data(), c.data(),
                  d.has_bias ? x.bias.data() : nullptr,
                  d.epilogue != OPTRT_EPILOGUE_NONE ? x.extra.data() : nullptr);
  ASSERT_TRUE(status.ok()) << status.toString();
  d.packed_b = packs;
  expectProduct(d, x, c);
}

/// Every combination of flags and operand layouts, on small sizes.
void runEveryFlag(int threads) {
  std::mt19937 random(7);
  CpuDevice device(threads);
  int64_t sizes[][3] = {{1, 1, 1}, {7, 5, 3}, {33, 17, 40}, {64, 48, 32}};
  for (auto [m, n, k] : sizes)
    for (int flags = 0; flags < 16; ++flags)
      for (int epilogue = 0; epilogue < 3; ++epilogue)
        for (int packed : {0, 1})
          for (int padding = 0; padding < 3; ++padding) {
            optrt_gemm_desc d = denseDesc(m, n, k, flags & 1, flags & 2);
            d.accumulate = (flags & 4) != 0;
            d.has_bias = (flags & 8) != 0;
            d.epilogue = epilogue;
            d.packed_b = packed;
            // Padded operands; then C's layout and extra's differ too.
            if (padding > 0) {
              d.lda += 3, d.ldb += 5, d.ldc += 7;
              d.ld_extra = padding == 1 ? d.ldc : d.n + 2;
            }
            ASSERT_NO_FATAL_FAILURE(runAndCheck(device, d, random));
          }
}

TEST(Gemm, EveryFlagAndLayout) { runEveryFlag(1); }
TEST(Gemm, EveryFlagAndLayoutOnTwoThreads) {
  if (maxThreads < 2)
    GTEST_SKIP() << "GNU OpenMP is not instrumented for the thread sanitizer";
  runEveryFlag(2);
}

TEST(Gemm, ShapesOfATrainingStep) {
  std::mt19937 random(11);
  CpuDevice device(maxThreads);
  struct Shape {
    int64_t m, n, k;
    bool transA, transB;
    int packed, bias, epilogue, accumulate;
  } shapes[] = {
      {96, 288, 96, 0, 0, 1, 1, OPTRT_EPILOGUE_NONE, 0},
      {96, 96, 384, 0, 0, 1, 1, OPTRT_EPILOGUE_ADD, 0},
      {96, 384, 96, 0, 1, 1, 0, OPTRT_EPILOGUE_MUL, 0},
      {96, 96, 288, 0, 1, 1, 0, OPTRT_EPILOGUE_NONE, 0},
      {288, 96, 512, 1, 0, 0, 0, OPTRT_EPILOGUE_NONE, 0},
      {64, 1031, 96, 0, 1, 1, 0, OPTRT_EPILOGUE_NONE, 0},
      {64, 96, 1031, 0, 0, 1, 0, OPTRT_EPILOGUE_NONE, 0},
      {1031, 96, 64, 1, 0, 0, 0, OPTRT_EPILOGUE_NONE, 1},
  };
  for (const Shape &s : shapes) {
    optrt_gemm_desc d = denseDesc(s.m, s.n, s.k, s.transA, s.transB);
    d.packed_b = s.packed, d.has_bias = s.bias, d.epilogue = s.epilogue;
    d.accumulate = s.accumulate;
    ASSERT_NO_FATAL_FAILURE(runAndCheck(device, d, random));
  }
}

TEST(Gemm, EmptySums) {
  std::mt19937 random(3);
  CpuDevice device(1);
  for (int accumulate : {0, 1}) {
    optrt_gemm_desc d = denseDesc(3, 4, 0);
    d.accumulate = accumulate;
    d.has_bias = 1;
    d.epilogue = OPTRT_EPILOGUE_MUL;
    Operands x;
    x.c = randomValues(12, random);
    x.bias = randomValues(4, random);
    x.extra = randomValues(12, random);
    std::vector<float> c = x.c;
    ASSERT_TRUE(device
                    .gemm(kCompute, d, nullptr, nullptr, c.data(),
                          x.bias.data(), x.extra.data())
                    .ok());
    expectProduct(d, x, c);
  }
}

TEST(Gemm, ExtraAddendMayBeC) {
  std::mt19937 random(5);
  CpuDevice device(1);
  optrt_gemm_desc plain = denseDesc(20, 30, 40);
  plain.epilogue = OPTRT_EPILOGUE_ADD;
  plain.has_bias = 1;
  Operands x = operandsFor(plain, random);
  PackedB packed(device, plain, x.b.data());
  for (bool packs : {false, true}) {
    optrt_gemm_desc d = packs ? packed.readBy(plain) : plain;
    const float *b = packs ? packed.data() : x.b.data();
    std::vector<float> c = x.extra;
    ASSERT_TRUE(device
                    .gemm(kCompute, d, x.a.data(), b, c.data(), x.bias.data(),
                          c.data())
                    .ok());
    expectProduct(plain, x, c);
    d.epilogue = OPTRT_EPILOGUE_MUL;
    EXPECT_EQ(device
                  .gemm(kCompute, d, x.a.data(), b, c.data(), x.bias.data(),
                        c.data())
                  .code(),
              StatusCode::InvalidArgument);
  }
}

/// A packed operand is what was packed, whatever becomes of the matrix, for
/// products of any number of rows; and nothing of it stays in the device.
TEST(Gemm, PackedMatricesAreMemory) {
  std::mt19937 random(13);
  CpuDevice device(1);
  optrt_gemm_desc d = denseDesc(24, 40, 56, false, true);
  Operands x = operandsFor(d, random), y = operandsFor(d, random);
  PackedB ofX(device, d, x.b.data()), ofY(device, d, y.b.data());
  const std::vector<float> before = x.b;
  std::fill(x.b.begin(), x.b.end(), 0.f);
  const size_t bytes = device.scratchBytes();
  for (int64_t rows : {24, 7, 1}) {
    d.m = rows;
    for (auto [packed, operands] : {std::pair(&ofX, &x), {&ofY, &y}}) {
      std::vector<float> c(d.m * d.n);
      ASSERT_TRUE(device
                      .gemm(kCompute, packed->readBy(d), operands->a.data(),
                            packed->data(), c.data(), nullptr, nullptr)
                      .ok());
      Operands expected = *operands;
      if (packed == &ofX)
        expected.b = before;
      expectProduct(d, expected, c);
    }
  }
  EXPECT_LT(device.scratchBytes(), bytes + d.n * d.k * sizeof(float));
}

/// A buffer with room for a matrix takes it; else the error names the room
/// missing.
TEST(Gemm, PackingKeepsToItsRoom) {
  std::mt19937 random(17);
  CpuDevice device(1);
  optrt_pack_desc d{7, 5, 5, 35, 0};
  auto memory = device.allocate(36 * sizeof(float), "a packed matrix");
  ASSERT_TRUE(memory.ok());
  float *packed = reinterpret_cast<float *>(memory->data());
  packed[35] = 42;
  std::vector<float> x = randomValues(35, random);
  if (Status status = device.pack(kCompute, d, x.data(), packed); !status.ok()) {
    EXPECT_EQ(status.code(), StatusCode::Unavailable);
    EXPECT_NE(status.message().find("and the program has planned 35"),
              std::string::npos)
        << status.message();
  }
  EXPECT_EQ(packed[35], 42);
}

/// What was prepared runs without more memory, and so do its like.
TEST(Gemm, PreparedProductsNeedNoMore) {
  std::mt19937 random(23);
  CpuDevice device(maxThreads);
  Workload workload;
  int64_t bound = 0;
  for (int flags = 0; flags < 32; ++flags) {
    optrt_gemm_desc d = denseDesc(300, 70, 90, flags & 1, flags & 2);
    d.has_bias = (flags & 4) != 0;
    d.accumulate = (flags & 16) != 0;
    bound = std::max(
        bound, optimus_support::productScratch({d.m, d.n, d.k, d.trans_a != 0,
                                                d.has_bias && d.accumulate})
                   .bytes(maxThreads));
    d.epilogue = flags & 8 ? OPTRT_EPILOGUE_ADD : OPTRT_EPILOGUE_NONE;
    workload.products.push_back(d);
  }
  ASSERT_TRUE(device.prepare(workload).ok());
  const size_t bytes = device.scratchBytes();
  EXPECT_GT(bytes, 0u);
  EXPECT_LE(int64_t(bytes), bound);
  for (const optrt_gemm_desc &d : workload.products)
    ASSERT_NO_FATAL_FAILURE(runAndCheck(device, d, random));
  EXPECT_EQ(device.scratchBytes(), bytes);
}

TEST(Gemm, WrongPacksAreRefused) {
  CpuDevice device(1);
  std::vector<float> x(64);
  auto refused = [&](optrt_pack_desc d, const char *text, float *to) {
    Status status = device.pack(kCompute, d, x.data(), to);
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_NE(status.message().find(text), std::string::npos)
        << status.message();
  };
  refused({0, 4, 4, 16, 0}, "sizes of at least 1", x.data());
  refused({4, 2, 3, 16, 1}, "leading dimension of src must be at least 4, found 3",
          x.data());
  refused({4, 4, 4, 16, 0}, "an operand is null", nullptr);
  refused({4, 4, 4, 15, 0}, "a packed B has at least 16 elements, found 15",
          x.data());
  refused({int64_t(1) << 40, int64_t(1) << 40, int64_t(1) << 40, INT64_MAX, 0},
          "src ends more than 2^63 elements after it begins", x.data());
}

TEST(Gemm, WrongDescriptorsAreRefused) {
  CpuDevice device(1);
  std::vector<float> x(64);
  optrt_gemm_desc good = denseDesc(4, 4, 4);
  auto refused = [&](optrt_gemm_desc d, const char *text) {
    Status status = device.gemm(kCompute, d, x.data(), x.data() + 16,
                                x.data() + 32, nullptr, nullptr);
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_NE(status.message().find(text), std::string::npos)
        << status.message();
  };
  optrt_gemm_desc d = good;
  d.m = -1;
  refused(d, "sizes of at least 0");
  d = good;
  d.lda = 3;
  refused(d, "leading dimension of A must be at least 4, found 3");
  d = good;
  d.ldc = 3;
  refused(d, "leading dimension of C");
  d = good;
  d.epilogue = 9;
  refused(d, "unknown epilogue 9");
  d = good;
  d.lda = INT64_MAX;
  refused(d, "A ends more than 2^63 elements after it begins");
  d = good;
  d.ldb = int64_t(1) << 50;
  refused(d, "B ends 3377699720527876 elements after it begins");
  d = good;
  d.packed_b = 1;
  d.ldb = 15;
  refused(d, "a packed B has at least 16 elements, found 15");
  d.ldb = 16;
  d.trans_b = 1;
  refused(d, "a packed B is not transposed");
  d = good;
  d.has_bias = 1;
  refused(d, "an operand is null");
  d = good;
  d.epilogue = OPTRT_EPILOGUE_ADD;
  refused(d, "an operand is null");
}

} // namespace
