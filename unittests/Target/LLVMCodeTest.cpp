//===- LLVMCodeTest.cpp - LLVM's code generators --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/LLVMCode.h"

#include "llvm/MC/TargetRegistry.h"
#include "llvm/TargetParser/Host.h"
#include "gtest/gtest.h"

#include <barrier>
#include <thread>
#include <vector>

using namespace mlir::optimus;

// Whoever comes first adds them to LLVM's list, which others search meanwhile.
TEST(LLVMCode, ThreadsFindCodeGeneratorsAtOnce) {
  const std::string triples[] = {llvm::sys::getDefaultTargetTriple(),
                                 "nvptx64-nvidia-cuda", "aarch64-linux-gnu"};
  constexpr int kEach = 4;
  std::barrier start(kEach * std::ssize(triples));
  std::vector<std::thread> threads;
  for (const std::string &name : triples)
    for (int i = 0; i != kEach; ++i)
      threads.emplace_back([&] {
        start.arrive_and_wait();
        auto found = lookupCodeGenerator(llvm::Triple(name));
        ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
        EXPECT_TRUE((*found)->hasTargetMachine()) << name;
      });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(LLVMCode, AnUnknownProcessorHasNoCodeGenerator) {
  auto found = lookupCodeGenerator(llvm::Triple("abacus-linux-gnu"));
  ASSERT_FALSE(bool(found));
  EXPECT_NE(llvm::toString(found.takeError()).find("abacus"),
            std::string::npos);
}
