//===- Progress.h - Signs of life of what takes long ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_PLANNING_PROGRESS_H
#define OPTIMUS_LIB_PLANNING_PROGRESS_H

#include "optimus/Planning/LayoutChoice.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <chrono>
#include <string>

namespace mlir::optimus {

/// Says how far a search is, once it has taken a few seconds, and every few
/// seconds from there on. What is chosen never depends on it.
class Progress {
public:
  /// `listener` may be empty: nobody listens.
  explicit Progress(ProgressFn listener) : listener(std::move(listener)) {}

  /// Says a line, if it is time for one.
  void say(llvm::function_ref<std::string()> line);

private:
  using Clock = std::chrono::steady_clock;

  ProgressFn listener;
  Clock::time_point last = Clock::now();
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_PLANNING_PROGRESS_H
