//===- KernelTest.h - Runs kernels on arrays --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every kernel against its formula in f64, under each schedule. Tolerances:
// with u = 2^-24 the unit roundoff, an expression of k roundings is off by at
// most about k·u of the sum of the magnitudes it adds up, and a sum of n terms
// by n·u of the sum of their magnitudes, in any order. Each check passes that
// number of roundings and magnitude.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_UNITTESTS_KERNELS_KERNELTEST_H
#define OPTIMUS_UNITTESTS_KERNELS_KERNELTEST_H

#include "CompiledKernels.h"
#include "ScalarSchedule.h"

#include "llvm/ADT/bit.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

namespace mlir::optimus::kernel_test {

using namespace kernels;

using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

inline constexpr double kRoundoff = 1.0 / (1 << 24);

inline Floats random(size_t n, double mean = 0, double spread = 1) {
  static std::mt19937 generator(7);
  std::normal_distribution<float> distribution(mean, spread);
  Floats values(n);
  for (float &value : values)
    value = distribution(generator);
  return values;
}

inline Floats unset(size_t n) {
  return Floats(n, std::numeric_limits<float>::quiet_NaN());
}

/// Of bf16.
using Halves = std::vector<uint16_t>;

inline float widen(uint16_t half) {
  return llvm::bit_cast<float>(uint32_t(half) << 16);
}

/// To the nearest, ties to even; NaN stays NaN.
inline uint16_t narrow(float value) {
  uint32_t bits = llvm::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return (bits >> 16) | 0x40;
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

inline Halves narrow(const Floats &values) {
  Halves halves;
  for (float value : values)
    halves.push_back(narrow(value));
  return halves;
}

inline Floats widen(const Halves &halves) {
  Floats values;
  for (uint16_t half : halves)
    values.push_back(widen(half));
  return values;
}

inline Halves unsetHalves(size_t n) { return Halves(n, 0x7FC0); }

inline void expectNear(float actual, double expected, double roundings,
                       double magnitude, const std::string &where) {
  EXPECT_LE(std::abs(actual - expected),
            roundings * kRoundoff * magnitude + 1e-37)
      << where << ": " << actual << " for " << expected;
  EXPECT_FALSE(std::isnan(actual)) << where;
}

inline std::string at(int64_t rows, int64_t cols, size_t element) {
  return std::to_string(rows) + "x" + std::to_string(cols) + " element " +
         std::to_string(element);
}

struct Size {
  int64_t rows, cols;
};
/// Multiples of vectors and of blocks, and sizes with ends of every kind.
inline const Size kSizes[] = {{1, 1},   {3, 5},   {7, 16},   {5, 37},  {4, 64},
                              {9, 100}, {2, 130}, {600, 40}, {3, 5000}};

/// Compiles one launch, runs it in one task and in several, and checks that
/// all results have the same bits. `buffers` hold the results afterwards.
inline void runLaunch(CompiledKernels &kernels, size_t number,
                      const std::vector<void *> &buffers,
                      const std::vector<size_t> &bytes) {
  std::vector<std::vector<char>> before, whole;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const char *data = static_cast<const char *>(buffers[i]);
    before.emplace_back(data, data + bytes[i]);
  }
  kernels.run(number, buffers, 1);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const char *data = static_cast<const char *>(buffers[i]);
    whole.emplace_back(data, data + bytes[i]);
    std::memcpy(buffers[i], before[i].data(), bytes[i]);
  }
  kernels.run(number, buffers, 5);
  for (size_t i = 0; i < buffers.size(); ++i)
    EXPECT_EQ(std::memcmp(buffers[i], whole[i].data(), bytes[i]), 0)
        << "buffer " << i << " depends on the split";
}

/// A way to compile and run kernels, as it is called in the names of tests.
struct NamedKernels {
  const char *name;
  std::unique_ptr<CompiledKernels> (*make)();
};

/// One kernel over all sizes: `make` gives the launch, and `check` runs it on
/// data of its own through the function it is given.
class KernelTest : public testing::TestWithParam<NamedKernels> {
protected:
  template <typename... Buffers>
  void run(size_t number, Buffers &...buffers) {
    runLaunch(kernels, number, {static_cast<void *>(buffers.data())...},
              {buffers.size() * sizeof(buffers[0])...});
  }

  /// Whether narrow results may be approximate before they are rounded.
  bool isApproximate() const {
    return llvm::StringRef(GetParam().name) == "Cuda";
  }

  template <typename Make, typename Check>
  void forSizes(Make make, Check check) {
    std::vector<size_t> numbers;
    for (Size size : kSizes)
      numbers.push_back(make(size.rows, size.cols));
    ASSERT_EQ(kernels.compile(), "");
    for (size_t i = 0; i < std::size(kSizes); ++i)
      check(numbers[i], kSizes[i].rows, kSizes[i].cols);
  }

private:
  std::unique_ptr<CompiledKernels> owner = GetParam().make();

protected:
  CompiledKernels &kernels = *owner;
};

} // namespace mlir::optimus::kernel_test

#endif // OPTIMUS_UNITTESTS_KERNELS_KERNELTEST_H
