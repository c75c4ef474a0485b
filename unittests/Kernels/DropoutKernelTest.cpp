//===- DropoutKernelTest.cpp - Compiled dropout against its rule ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTest.h"

#include "optimus-support/Dropout.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace optimus_support;

using namespace mlir::optimus;
using namespace mlir::optimus::kernels;
using mlir::optimus::kernel_test::KernelTest;

namespace {

constexpr double kRate = 0.3;
constexpr uint32_t kStream = 0x01000007;
// Every bit of the words matters: halves that a sign extension would spoil.
constexpr uint64_t kSeed = 0x8123456789ABCDEF, kStep = 0x9ABC87654321;
constexpr uint32_t kMicrobatch = 3;

/// A part of a tensor: [begin, begin + local) of each dimension.
struct Part {
  std::vector<int64_t> local, whole, begin;

  int64_t size() const {
    int64_t n = 1;
    for (int64_t extent : local)
      n *= extent;
    return n;
  }
  /// The index in the whole tensor of element i of the part.
  int64_t index(int64_t i) const {
    int64_t element = 0, stride = 1;
    for (size_t dim = local.size(); dim-- > 0;) {
      element += (i % local[dim] + begin[dim]) * stride;
      i /= local[dim];
      stride *= whole[dim];
    }
    return element;
  }
  /// What the lowering adds up: the beginning of each dimension.
  std::vector<int64_t> addends() const {
    std::vector<int64_t> result;
    int64_t stride = 1;
    for (size_t dim = local.size(); dim-- > 0;) {
      result.push_back(begin[dim] * stride);
      stride *= whole[dim];
    }
    return result;
  }
};

// Rows of whole groups, of less than one, with any begin, of padding at the
// end, and a tensor whose block numbers do not fit 32 bits.
const Part kParts[] = {
    {{2, 3, 128}, {2, 3, 128}, {0, 0, 0}},
    {{2, 3, 64}, {4, 6, 256}, {2, 3, 64}},
    {{1, 4, 35}, {5, 4, 70}, {3, 0, 35}},
    {{7}, {21}, {14}},
    {{3, 1}, {3, 1}, {0, 0}},
    {{2, 5}, {3, 8}, {2, 5}},
    {{200}, {1000}, {800}},
    {{2, 100}, {int64_t(1) << 28, 1000}, {(int64_t(1) << 27) + 1, 77}},
};

/// The whole tensor's elements, as 64 bits hold them.
uint64_t wholeSize(const Part &part) {
  uint64_t n = 1;
  for (int64_t extent : part.whole)
    n *= extent;
  return n;
}

TEST_P(KernelTest, DropsWhatTheRuleSays) {
  std::vector<size_t> numbers;
  for (const Part &part : kParts) {
    std::vector<int64_t> scalars = part.addends();
    scalars.insert(scalars.begin(), kStream);
    numbers.push_back(kernels.add(
        Dropout{.local = llvm::to_vector(part.local),
                .whole = llvm::to_vector(part.whole),
                .addends = static_cast<int64_t>(part.addends().size()),
                .rate = kRate},
        scalars));
  }
  ASSERT_EQ(kernels.compile(), "");

  auto words = randomWords(kSeed, kStep, kMicrobatch);
  const float scale = 1 / (1 - kRate);
  for (size_t number = 0; number < numbers.size(); ++number) {
    const Part &part = kParts[number];
    std::vector<float> x(part.size()), expected(part.size());
    for (int64_t i = 0; i < part.size(); ++i) {
      x[i] = 1.0f + i;
      uint64_t index = kMicrobatch * wholeSize(part) + part.index(i);
      bool kept =
          dropoutDraw(kSeed, kStream, kStep, index) >= dropoutThreshold(kRate);
      expected[i] = kept ? x[i] * scale : 0;
    }
    for (int parts : {1, 5}) {
      std::vector<float> result(part.size(), -1);
      kernels.run(numbers[number], {x.data(), words.data(), result.data()},
                  parts);
      EXPECT_EQ(result, expected) << "part " << number;
    }
    // In place.
    kernels.run(numbers[number], {x.data(), words.data(), x.data()}, 3);
    EXPECT_EQ(x, expected) << "part " << number;
  }
}

TEST_P(KernelTest, DropsWhatIsNotFinite) {
  constexpr int64_t n = 150;
  size_t number = kernels.add(Dropout{{n}, {n}, 0, kRate}, {int64_t(kStream)});
  ASSERT_EQ(kernels.compile(), "");
  auto words = randomWords(kSeed, kStep);
  std::vector<float> x(n, std::numeric_limits<float>::infinity());
  kernels.run(number, {x.data(), words.data(), x.data()}, 1);
  for (int64_t i = 0; i < n; ++i) {
    bool kept =
        dropoutDraw(kSeed, kStream, kStep, i) >= dropoutThreshold(kRate);
    EXPECT_EQ(x[i], kept ? std::numeric_limits<float>::infinity() : 0.0f) << i;
  }
}

} // namespace
