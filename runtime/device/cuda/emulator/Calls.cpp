//===- Calls.cpp - What an emulated image calls --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedBlock.h"

#include <bit>
#include <cmath>
#include <limits>

// Images look for them by name.
#pragma GCC visibility push(default)
#include "optimus-support/emulator_abi.h"

using optrt::emulator::EmulatedBlock;

int32_t optimus_emulated_thread(void) {
  return EmulatedBlock::getCurrent().getThread();
}
int32_t optimus_emulated_block(void) {
  return EmulatedBlock::getCurrent().getBlockIndex();
}
int32_t optimus_emulated_num_blocks(void) {
  return EmulatedBlock::getCurrent().getNumBlocks();
}
void optimus_emulated_barrier(int32_t) {
  EmulatedBlock::getCurrent().waitForBlock();
}
void optimus_emulated_warp_barrier(int32_t mask) {
  EmulatedBlock::getCurrent().waitForWarp(mask);
}
int32_t optimus_emulated_shuffle(int32_t mask, int32_t value, int32_t bits,
                                 int32_t clamp) {
  return EmulatedBlock::getCurrent().exchange(mask, value, bits, clamp);
}
float optimus_emulated_shuffle_float(int32_t mask, float value, int32_t bits,
                                     int32_t clamp) {
  return std::bit_cast<float>(EmulatedBlock::getCurrent().exchange(
      mask, std::bit_cast<uint32_t>(value), bits, clamp));
}
void optimus_emulated_product(const uint32_t *words, float *result) {
  EmulatedBlock::getCurrent().multiply(words, result);
}
void optimus_emulated_matrices(const void *row, int32_t is_transposed,
                               uint32_t *words) {
  EmulatedBlock::getCurrent().loadMatrices(row, is_transposed != 0, words);
}
void optimus_emulated_copy(void *to, const void *from, int32_t bytes,
                           int32_t some) {
  EmulatedBlock::getCurrent().beginCopy(
      {to, from, size_t(bytes), size_t(some)});
}
void optimus_emulated_copy_commit(void) {
  EmulatedBlock::getCurrent().commitCopies();
}
void optimus_emulated_copy_wait(int32_t groups) {
  EmulatedBlock::getCurrent().waitForCopies(size_t(groups));
}
float optimus_emulated_exp2(float x) {
  float result = std::exp2(x);
  return result < std::numeric_limits<float>::min() ? 0 : result;
}
void optimus_emulated_access(const void *address, int64_t bytes,
                             int32_t is_write, int64_t alignment) {
  EmulatedBlock::getCurrent().access(address, bytes, is_write, alignment);
}

#pragma GCC visibility pop
