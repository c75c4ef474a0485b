//===- OperandsTest.cpp - Memory for what is timed -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "measure/Operands.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

using namespace optrt;

namespace {

/// Calls read and write in turn, as products and kernels do. Whatever was
/// written, the next ones read what they were given at first.
TEST(Operands, AreNeverWhatACallHasWritten) {
  auto factory = DeviceFactory::open("cpu");
  ASSERT_TRUE(factory.ok()) << factory.status().toString();
  auto device = factory->create(1);
  ASSERT_TRUE(device.ok()) << device.status().toString();
  auto operands = Operands::allocate(**device);
  ASSERT_TRUE(operands.ok()) << operands.status().toString();
  std::mt19937 random(7);
  auto draw = [&](int64_t end) {
    return std::uniform_int_distribution<int64_t>(1, end)(random);
  };
  for (int call = 0; call != 200; ++call) {
    operands->begin(/*rotates=*/draw(2) == 1);
    for (int one = 0; one != 3; ++one) {
      const int64_t elements = draw(1 << 22);
      const char *from = operands->read(elements, OPTRT_F32);
      for (int64_t at : {int64_t(0), elements / 2, elements - 1}) {
        uint32_t word = 0;
        std::memcpy(&word, from + at * sizeof(word), sizeof(word));
        ASSERT_EQ(word, 0x3f003f00u) << "call " << call << ", word " << at;
      }
    }
    const int64_t written = draw(1 << 19);
    std::memset(operands->write(written, OPTRT_F32), 0, written * 4);
  }
}

} // namespace
