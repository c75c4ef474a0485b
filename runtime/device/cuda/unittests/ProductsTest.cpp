//===- ProductsTest.cpp - Products, on a fake cuBLASLt --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

#include "optimus-support/BFloat16.h"

#include <random>

using namespace optrt;
using testing::HasSubstr;

namespace {

class ProductsTest : public FakeGpuTest {
protected:
  /// Numbers that bf16 and f32 have exactly, and their products and sums, too.
  std::vector<float> draw(int64_t count) {
    std::vector<float> numbers(size_t(count), 0);
    for (float &number : numbers)
      number = float(int(random() % 9) - 4);
    return numbers;
  }
  static std::vector<uint16_t> narrow(const std::vector<float> &numbers) {
    std::vector<uint16_t> result;
    for (float number : numbers)
      result.push_back(optimus_support::toBFloat16(number));
    return result;
  }
  DeviceMemory uploadAs(int32_t type, const std::vector<float> &numbers) {
    return type == OPTRT_F32 ? upload(numbers) : upload(narrow(numbers));
  }
  std::vector<float> readAs(int32_t type, const DeviceMemory &from,
                            size_t count) {
    if (type == OPTRT_F32)
      return read(from.data(), count);
    std::vector<float> numbers;
    for (uint16_t bits : read<uint16_t>(from.data(), count))
      numbers.push_back(optimus_support::fromBFloat16(bits));
    return numbers;
  }

  /// Holds a product against three loops.
  void check(optrt_gemm_desc d) {
    d.lda = (d.trans_a ? d.m : d.k) + 1;
    d.ldb = (d.trans_b ? d.k : d.n) + 2;
    d.ldc = d.n + 3;
    d.ld_extra = d.n + 1;
    const std::vector<float> a = draw((d.trans_a ? d.k : d.m) * d.lda),
                             b = draw((d.trans_b ? d.n : d.k) * d.ldb),
                             c = draw(d.m * d.ldc), bias = draw(d.n),
                             extra = draw(d.m * d.ld_extra);
    DeviceMemory left = uploadAs(d.factor_type, a),
                 right = uploadAs(d.factor_type, b),
                 result = uploadAs(d.result_type, c),
                 row = uploadAs(d.bias_type, bias),
                 matrix = uploadAs(d.extra_type, extra);
    Status status = device->gemm(kCompute, d, left.data(), right.data(),
                                 result.data(), row.data(), matrix.data());
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<float> expected = c;
    for (int64_t i = 0; i != d.m; ++i)
      for (int64_t j = 0; j != d.n; ++j) {
        float sum = d.accumulate ? c[i * d.ldc + j] : 0;
        for (int64_t l = 0; l != d.k; ++l)
          sum += a[d.trans_a ? l * d.lda + i : i * d.lda + l] *
                 b[d.trans_b ? j * d.ldb + l : l * d.ldb + j];
        sum += d.has_bias ? bias[j] : 0;
        sum += d.epilogue ? extra[i * d.ld_extra + j] : 0;
        expected[i * d.ldc + j] = sum;
      }
    EXPECT_EQ(readAs(d.result_type, result, c.size()), expected);
  }

  static optrt_gemm_desc shape(int64_t m, int64_t n, int64_t k) {
    optrt_gemm_desc d{};
    d.m = m;
    d.n = n;
    d.k = k;
    return d;
  }
  Status refuse(optrt_gemm_desc d) {
    d.lda = d.k;
    d.ldb = d.ldc = d.ld_extra = d.n;
    char *x = memory.data();
    return device->gemm(kCompute, d, x, x, x, x, x);
  }

  std::mt19937 random{7};
};

TEST_F(ProductsTest, EveryFormIsRight) {
  for (int transA : {0, 1})
    for (int transB : {0, 1})
      for (int bias : {0, 1})
        for (int added : {0, 1, 2})
          for (int types : {0, 1, 2}) {
            optrt_gemm_desc d = shape(5, 7, 3);
            d.trans_a = transA;
            d.trans_b = transB;
            d.has_bias = bias;
            d.accumulate = added == 1;
            d.epilogue = added == 2 ? OPTRT_EPILOGUE_ADD : OPTRT_EPILOGUE_NONE;
            d.factor_type = types ? OPTRT_BF16 : OPTRT_F32;
            d.result_type = d.bias_type = d.extra_type =
                types == 1 ? OPTRT_BF16 : OPTRT_F32;
            SCOPED_TRACE(concat(transA, transB, bias, added, types));
            check(d);
          }
}

TEST_F(ProductsTest, SizesOfOneAreRight) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 9, 4}, {9, 1, 4}, {4, 9, 1}})
    check(shape(m, n, k));
}

TEST_F(ProductsTest, AnExtraAddendMayBeTheResult) {
  optrt_gemm_desc d = shape(2, 2, 2);
  d.lda = d.ldb = d.ldc = d.ld_extra = 2;
  d.epilogue = OPTRT_EPILOGUE_ADD;
  DeviceMemory a = upload<float>({1, 2, 3, 4}), b = upload<float>({1, 0, 0, 1}),
               c = upload<float>({10, 20, 30, 40});
  ASSERT_TRUE(
      device->gemm(kCompute, d, a.data(), b.data(), c.data(), nullptr, c.data())
          .ok());
  EXPECT_THAT(read(c.data(), 4), testing::ElementsAre(11, 22, 33, 44));
}

TEST_F(ProductsTest, WhatCublasLtHasNotIsRefused) {
  optrt_gemm_desc d = shape(2, 2, 2);
  d.epilogue = OPTRT_EPILOGUE_MUL;
  EXPECT_THAT(refuse(d).message(), HasSubstr("a launch after the product"));
  d = shape(2, 2, 2);
  d.packed_b = 1;
  EXPECT_THAT(refuse(d).message(), HasSubstr("no packed layout"));
  d = shape(2, 2, 2);
  d.accumulate = 1;
  d.epilogue = OPTRT_EPILOGUE_ADD;
  EXPECT_THAT(refuse(d).message(), HasSubstr("adds one matrix"));
  d = shape(2, 2, 2);
  d.factor_type = d.result_type = OPTRT_BF16;
  d.has_bias = 1;
  EXPECT_THAT(refuse(d).message(), HasSubstr("bias of the result's type"));
  d = shape(2, 2, 0);
  EXPECT_EQ(refuse(d).code(), StatusCode::InvalidArgument);
}

TEST_F(ProductsTest, AProductWithoutAnAlgorithmIsNamed) {
  // It says so in one of two ways.
  for (const char *without : {"4x2x3", "4x2x3:0"}) {
    setenv("OPTIMUS_FAKE_CUBLASLT_WITHOUT", without, 1);
    const Status status = refuse(shape(2, 4, 3));
    unsetenv("OPTIMUS_FAKE_CUBLASLT_WITHOUT");
    EXPECT_EQ(status.code(), StatusCode::Unavailable);
    EXPECT_THAT(status.message(),
                HasSubstr("cublasLtMatmulAlgoGetHeuristic names no algorithm "
                          "for it with a workspace of 32 MiB"));
  }
  EXPECT_TRUE(refuse(shape(1, 1, 1)).ok()) << "another one";
}

// By the product's epilogue, or by its kernel where cuBLASLt has none.
TEST_F(ProductsTest, ABiasGradientIsTheSumOfRows) {
  for (const char *without : {"", "bias_grad"}) {
    setenv("OPTIMUS_FAKE_CUBLASLT_WITHOUT", without, 1);
    start(0);
    optrt_gemm_desc d = shape(2, 3, 4);
    d.trans_a = 1;
    d.lda = 2;
    d.ldb = d.ldc = 3;
    d.epilogue = OPTRT_EPILOGUE_BIAS_GRAD;
    d.has_bias = 1;
    d.row_sum_kernel = &sumRows;
    DeviceMemory a = upload<float>({1, 0, 0, 1, 1, 1, 0, 2}),
                 b = upload<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
                 c = upload<float>(std::vector<float>(6)),
                 bias = upload<float>({-1, -1, -1});
    const Status status = device->gemm(kCompute, d, a.data(), b.data(),
                                       c.data(), bias.data(), nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_THAT(read(c.data(), 6), testing::ElementsAre(8, 10, 12, 31, 35, 39))
        << without;
    EXPECT_THAT(read(bias.data(), 3), testing::ElementsAre(22, 26, 30))
        << without;
  }
  unsetenv("OPTIMUS_FAKE_CUBLASLT_WITHOUT");
}

TEST_F(ProductsTest, FactorsOfF32MayBeRoundedToTF32) {
  optrt_gemm_desc d = shape(1, 2, 1);
  d.lda = 1;
  d.ldb = d.ldc = 2;
  // 10 bits behind the point, of two that are as near the even one.
  const float whole = 1 + 0x1p-10f, halfway = 1 + 0x1.8p-10f;
  auto product = [&](float factor) {
    DeviceMemory a = upload<float>({factor}), b = upload<float>({1, 3}),
                 c = upload<float>({0, 0});
    EXPECT_TRUE(
        device
            ->gemm(kCompute, d, a.data(), b.data(), c.data(), nullptr, nullptr)
            .ok());
    return read(c.data(), 2);
  };
  EXPECT_THAT(product(halfway), testing::ElementsAre(halfway, 3 * halfway));
  start(0, 16, {.tf32 = true});
  EXPECT_THAT(product(whole), testing::ElementsAre(whole, 3 * whole));
  EXPECT_THAT(product(halfway),
              testing::ElementsAre(1 + 0x1p-9f, 3 * (1 + 0x1p-9f)));
}

TEST_F(ProductsTest, NarrowFactorsAreNotOfTF32) {
  start(0, 16, {.tf32 = true});
  for (int32_t result : {OPTRT_BF16, OPTRT_F32}) {
    optrt_gemm_desc d = shape(5, 7, 3);
    d.factor_type = OPTRT_BF16;
    d.result_type = d.bias_type = d.extra_type = result;
    check(d);
  }
}

TEST_F(ProductsTest, ScratchIsTheWorkspace) {
  EXPECT_EQ(device->scratchBytes(), size_t(cuda::kProductWorkspaceBytes));
}

} // namespace
