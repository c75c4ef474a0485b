//===- ReductionKernelsTest.cpp - What ranks have, added in order ---------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every bit is that of the host's reductions (runtime/ccl).
//
//===----------------------------------------------------------------------===//

#include "KernelTest.h"

using namespace mlir::optimus;
using namespace mlir::optimus::kernel_test;

namespace {

constexpr int64_t kElements = 1003;

float maximumOf(float sum, float x) {
  return x > sum || std::isnan(x) ? x : sum;
}

template <typename Element>
float toFloat(Element x) {
  if constexpr (std::is_same_v<Element, float>)
    return x;
  else
    return widen(x);
}
template <typename Element>
Element fromFloat(float x) {
  if constexpr (std::is_same_v<Element, float>)
    return x;
  else
    return narrow(x);
}

/// Of each rank, one element behind where tensors begin if they are not
/// aligned; some are NaN.
template <typename Element>
std::vector<std::vector<Element>> operandsOf(int64_t ranks) {
  std::vector<std::vector<Element>> operands(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    for (float value : random(kElements + 1))
      operands[rank].push_back(fromFloat<Element>(value));
    operands[rank][17 * (rank + 1)] =
        fromFloat<Element>(std::numeric_limits<float>::quiet_NaN());
  }
  return operands;
}

template <typename Element>
void check(CompiledKernels &kernels, size_t number, const ReduceRanks &kernel,
           bool inPlace) {
  const int64_t offset = kernel.isAligned ? 0 : 1;
  const auto before = operandsOf<Element>(kernel.ranks);
  auto operands = before;
  auto results = inPlace ? operands : operandsOf<Element>(kernel.ranks);
  results.resize(kernel.toAll ? kernel.ranks : 1);
  std::vector<void *> buffers;
  for (std::vector<Element> &operand : operands)
    buffers.push_back(operand.data() + offset);
  for (size_t i = 0; i != results.size(); ++i)
    buffers.push_back((inPlace ? operands : results)[i].data() + offset);
  kernels.run(number, buffers, 3);
  for (const auto &result :
       inPlace ? std::span(operands).first(results.size()) : std::span(results))
    for (int64_t i = offset; i < kElements + offset; ++i) {
      float expected = toFloat(before[0][i]);
      for (int64_t rank = 1; rank < kernel.ranks; ++rank) {
        const float x = toFloat(before[rank][i]);
        expected = kernel.maximum ? maximumOf(expected, x) : expected + x;
      }
      const float found = toFloat(result[i]);
      ASSERT_EQ(std::isnan(found), std::isnan(expected)) << i;
      if (!std::isnan(expected))
        ASSERT_EQ(found, toFloat(fromFloat<Element>(expected))) << i;
    }
}

void checkAll(CompiledKernels &kernels, bool isAligned) {
  std::vector<ReduceRanks> all;
  std::vector<size_t> wide, halves;
  for (int64_t ranks : {2, 3, 6})
    for (bool toAll : {false, true})
      for (bool maximum : {false, true}) {
        const ReduceRanks kernel{ranks, kElements, toAll, maximum, isAligned};
        std::vector<std::string> names;
        for (int64_t rank = 0; rank < ranks; ++rank)
          names.push_back("x" + std::to_string(rank));
        for (int64_t result = 0; result < (toAll ? ranks : 1); ++result)
          names.push_back("result" + std::to_string(result));
        all.push_back(kernel);
        wide.push_back(kernels.add(kernel));
        halves.push_back(kernels.add(kernel, {}, names));
      }
  ASSERT_EQ(kernels.compile(), "");
  for (size_t i = 0; i != all.size(); ++i)
    for (bool inPlace : {false, true}) {
      SCOPED_TRACE(kernels.getName(all[i]));
      check<float>(kernels, wide[i], all[i], inPlace);
      check<uint16_t>(kernels, halves[i], all[i], inPlace);
    }
}

} // namespace

TEST_P(KernelTest, RanksAreAddedInOrder) { checkAll(kernels, true); }

TEST_P(KernelTest, RanksAreAddedWhereverTheyBegin) { checkAll(kernels, false); }

TEST_P(KernelTest, OneReductionServesEverySize) {
  EXPECT_EQ(kernels.getName(ReduceRanks{4, 8, true, false, true}),
            "sum_of_ranks_to_all_4");
  EXPECT_EQ(kernels.getName(ReduceRanks{4, 600, false, true, false}),
            "max_of_ranks_4");
}
