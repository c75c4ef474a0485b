//===- Mutators.cpp - What libFuzzer calls to change an input -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenMutator.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

static size_t put(const std::string &text, uint8_t *to, size_t most) {
  size_t size = std::min(text.size(), most);
  std::memcpy(to, text.data(), size);
  return size;
}

static std::string_view view(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t mostBytes, unsigned seed) {
  return put(optimus_fuzz::mutate(view(data, size), seed), data, mostBytes);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *first,
                                            size_t firstSize,
                                            const uint8_t *second,
                                            size_t secondSize, uint8_t *out,
                                            size_t mostBytes, unsigned seed) {
  return put(optimus_fuzz::cross(view(first, firstSize),
                                 view(second, secondSize), seed),
             out, mostBytes);
}
