//===- TransferPlan.h - When copies between memories run --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program computes on a time line; fetches from another memory, and stores to
// it, run meanwhile, each direction one copy after the other. A fetch begins as
// late as it can to be done in time, and never before there is room in the
// window; a store begins at once, and keeps its memory while the window has
// room. Copies get a quarter of their time to spare. With commands of 1 s each
// and a window with room:
//
//   fetch of 2 s, used by command 8  ->  begins before command 5
//   store of 2 s, used by command 1  ->  its memory stays up to command 5
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_TRANSFERPLAN_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_TRANSFERPLAN_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mlir::exec {

struct Fetch {
  /// The first command that uses the fetched buffer.
  int64_t use;
  int64_t bytes;
  double seconds;
  /// Where it may begin at the earliest, before a command.
  int64_t earliest = 0;
  /// The store that writes its source, if any.
  std::optional<size_t> store = {};

  /// Before which command it begins.
  int64_t begin = 0;
};

struct Store {
  /// The last command that uses the stored buffer.
  int64_t use;
  int64_t bytes;
  double seconds;

  /// Up to which command, exclusive, its memory stays in place.
  int64_t end = 0;
};

struct PagingPrediction {
  int64_t fetchedBytes = 0, storedBytes = 0;
  double fetchSeconds = 0, storeSeconds = 0;
  /// What the program waits for copies.
  double exposedSeconds = 0;
};

/// The copies of a program.
struct TransferPlan {
  /// When each command begins if nothing waits, and when the last one ends.
  std::vector<double> times;
  std::vector<Fetch> fetches;
  std::vector<Store> stores;

  /// Says when fetches begin and how long what is stored stays in place. No
  /// more than `window` bytes are fetched ahead, and as many wait to be stored,
  /// but for what one command needs together.
  void schedule(int64_t window);
  PagingPrediction predict() const;

  int64_t getNumCommands() const {
    return static_cast<int64_t>(times.size()) - 1;
  }

private:
  void scheduleFetches(int64_t window);
  void scheduleStores(int64_t window);
};

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_TRANSFERPLAN_H
