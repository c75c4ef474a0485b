//===- Progress.cpp - Signs of life of what takes long ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Progress.h"

using namespace mlir::optimus;

/// Who waits no longer needs no line.
static constexpr std::chrono::seconds kPatience(4);

void Progress::say(llvm::function_ref<std::string()> line) {
  Clock::time_point now = Clock::now();
  if (!listener || now - last < kPatience)
    return;
  last = now;
  listener(line());
}
