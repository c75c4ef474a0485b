//===- Finite.cpp - Whether a model is fit to be kept ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Finite.h"

#include <algorithm>
#include <bit>
#include <cstdint>

/// All bits of the exponent set: infinity or NaN. In integers, so that no
/// compiler flag changes its meaning.
static bool isNotFinite(float element) {
  return (std::bit_cast<uint32_t>(element) & 0x7f800000) == 0x7f800000;
}

const float *optrt::findNotFinite(std::span<const float> elements) {
  constexpr size_t kBlock = 1024;
  for (size_t begin = 0; begin < elements.size(); begin += kBlock) {
    std::span<const float> block =
        elements.subspan(begin, std::min(kBlock, elements.size() - begin));
    // Without branches: it is vectorized.
    uint32_t found = 0;
    for (float element : block)
      found |= isNotFinite(element);
    if (found)
      return &*std::find_if(block.begin(), block.end(), isNotFinite);
  }
  return nullptr;
}
