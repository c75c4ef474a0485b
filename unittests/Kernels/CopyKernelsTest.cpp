//===- CopyKernelsTest.cpp - Rows that lie apart, copied --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTest.h"

using namespace mlir::optimus;
using namespace mlir::optimus::kernel_test;

namespace {

/// Panels of a matrix, a matrix of panels, single elements, long rows, rows of
/// no whole loads, and a single one.
constexpr CopyRows kCopies[] = {
    {70, 32, 96, 32, 4},      {70, 32, 32, 96, 4}, {33, 7, 21, 9, 1},
    {9, 5000, 5008, 5000, 8}, {16, 6, 12, 8, 2},   {1, 40, 40, 40, 8},
};

/// Any bits, those of NaNs too.
template <typename Element>
std::vector<Element> drawBits(size_t n) {
  static std::mt19937 generator(11);
  std::vector<Element> elements(n);
  for (Element &element : elements) {
    const uint32_t bits = generator();
    if constexpr (std::is_same_v<Element, float>)
      element = llvm::bit_cast<float>(bits);
    else
      element = static_cast<Element>(bits);
  }
  // Signalling.
  if constexpr (!std::is_same_v<Element, float>)
    elements.front() = 0x7F81;
  return elements;
}

template <typename Element>
void check(CompiledKernels &kernels, size_t number, const CopyRows &copy) {
  const int64_t rows = copy.rows, cols = copy.cols;
  auto src = drawBits<Element>((rows - 1) * copy.srcLd + cols);
  const auto before = drawBits<Element>((rows - 1) * copy.dstLd + cols);
  auto found = before, expected = before;
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(src.begin() + row * copy.srcLd, cols,
                expected.begin() + row * copy.dstLd);
  kernels.run(number, {src.data(), found.data()}, 3);
  EXPECT_EQ(std::memcmp(found.data(), expected.data(),
                        found.size() * sizeof(Element)),
            0)
      << rows << " rows of " << cols;
}

} // namespace

TEST_P(KernelTest, CopiesRowsBitByBit) {
  std::vector<size_t> wides, narrows;
  for (const CopyRows &copy : kCopies) {
    wides.push_back(kernels.add(copy));
    narrows.push_back(kernels.add(copy, {}, {"src", "dst"}));
  }
  ASSERT_EQ(kernels.compile(), "");
  for (size_t i = 0; i != std::size(kCopies); ++i) {
    check<float>(kernels, wides[i], kCopies[i]);
    check<uint16_t>(kernels, narrows[i], kCopies[i]);
  }
}

// The number of rows is the launch's.
TEST_P(KernelTest, CopiesOfOneWidthShareCode) {
  EXPECT_EQ(kernels.getName(CopyRows{70, 32, 96, 32, 4}, {"src", "dst"}),
            "copy_rows_bf16_32_96_32_4");
  EXPECT_EQ(kernels.getName(CopyRows{9, 32, 96, 32, 4}),
            kernels.getName(CopyRows{70, 32, 96, 32, 4}));
  EXPECT_NE(kernels.getName(CopyRows{70, 32, 96, 32, 4}),
            kernels.getName(CopyRows{70, 32, 32, 96, 4}));
}
