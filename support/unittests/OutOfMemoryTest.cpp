//===- OutOfMemoryTest.cpp - How a tool ends without memory ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/OutOfMemory.h"

#include "FolderTest.h"
#include "optimus-support/TemporaryPath.h"

#include <cstdlib>
#include <new>
#include <sys/resource.h>

using namespace optimus_support;

namespace {

class OutOfMemoryTest : public FolderTest {};

// More than an address has bits for; opaque, or compilers warn of it.
volatile size_t tooMuch = size_t(1) << 60;
void *volatile memory;

TEST_F(OutOfMemoryTest, SaysWhatWasAskedFor) {
  EXPECT_EXIT(memory = operator new(tooMuch), testing::ExitedWithCode(1),
              "error: out of memory: 1152921504606846976 bytes were asked for "
              "when the process had [0-9]+ MiB, and the machine has no more");
  EXPECT_EXIT(memory = new char[tooMuch], testing::ExitedWithCode(1),
              "1152921504606846976 bytes");
  EXPECT_EXIT(memory = operator new(tooMuch, std::align_val_t(64)),
              testing::ExitedWithCode(1), "1152921504606846976 bytes");
}

void limitMemory() {
  rlimit limit = {size_t(1) << 30, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
  memory = operator new(size_t(1) << 31);
}

TEST_F(OutOfMemoryTest, NamesTheLimit) {
  EXPECT_EXIT(limitMemory(), testing::ExitedWithCode(1),
              "`ulimit -v` allows 1024 MiB");
}

TEST_F(OutOfMemoryTest, LeavesNothingBehind) {
  EXPECT_EXIT(
      {
        TemporaryPath file(put("file", "text"));
        memory = operator new(tooMuch);
      },
      testing::ExitedWithCode(1), "out of memory");
  EXPECT_TRUE(names().empty());
}

TEST_F(OutOfMemoryTest, HearsOfEveryWayToAsk) {
  const char *bytes = "1152921504606846976 bytes";
  EXPECT_EXIT(memory = malloc(tooMuch), testing::ExitedWithCode(1), bytes);
  EXPECT_EXIT(memory = calloc(tooMuch / 8, 8), testing::ExitedWithCode(1),
              bytes);
  EXPECT_EXIT(memory = calloc(tooMuch, 64), testing::ExitedWithCode(1),
              "18446744073709551615 bytes");
  EXPECT_EXIT(memory = realloc(nullptr, tooMuch), testing::ExitedWithCode(1),
              bytes);
}

TEST_F(OutOfMemoryTest, LetsBeWhoCanDoWithout) {
  EXPECT_EQ(operator new(tooMuch, std::nothrow), nullptr);
  EXPECT_EQ(new (std::nothrow) char[tooMuch], nullptr);
}

TEST_F(OutOfMemoryTest, GivesMemory) {
  for (size_t bytes : {0, 1, 100000}) {
    void *memory = operator new(bytes);
    EXPECT_NE(memory, nullptr);
    operator delete(memory);
    memory = operator new(bytes, std::align_val_t(256));
    EXPECT_EQ(size_t(memory) % 256, 0u);
    operator delete(memory, std::align_val_t(256));
  }
}

} // namespace
