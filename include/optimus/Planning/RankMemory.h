//===- RankMemory.h - What a rank holds -------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PLANNING_RANKMEMORY_H
#define OPTIMUS_PLANNING_RANKMEMORY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <algorithm>

namespace mlir::optimus {

/// What the largest rank holds to call a function, all its lanes, in bytes, as
/// the runtime allocates it.
struct RankMemory {
  int64_t parameters = 0; ///< and what is prepared of them
  int64_t state = 0; ///< the optimizer's
  int64_t gradients = 0;
  int64_t inputs = 0; ///< and outputs
  int64_t arena = 0;  ///< of a thread, whose lanes share it
  /// Of a device with one thread, at most; of a GPU, the workspace of products.
  int64_t scratch = 0;
  /// The largest of the parameters that are held only while weights are
  /// prepared of them, one after the other.
  int64_t staging = 0;
  /// Buffers of collectives among processes, over TCP; threads have none, and
  /// it is not in the total. Over MPI only the runtime knows.
  int64_t communication = 0;
  int64_t offloaded = 0; ///< in files, beside the total
  /// For a GPU, host memory that is pinned, beside the total: what is offloaded
  /// there, and the rooms of collectives, where these go by way of the host.
  int64_t pinned = 0, staged = 0;

  int64_t getTotal() const {
    return parameters + state + gradients + inputs + arena + scratch + staging;
  }
  /// What a function and another one need if either is called.
  void include(const RankMemory &other) {
    for (auto part :
         {&RankMemory::parameters, &RankMemory::state, &RankMemory::gradients,
          &RankMemory::inputs, &RankMemory::arena, &RankMemory::scratch,
          &RankMemory::staging, &RankMemory::communication,
          &RankMemory::offloaded, &RankMemory::pinned, &RankMemory::staged})
      this->*part = std::max(this->*part, other.*part);
  }
};

/// Of a device program: to the byte where its memory is placed, else as if its
/// arena had no fragments.
RankMemory getRankMemory(func::FuncOp function, bool isForGpu);

/// What the largest rank holds for whatever is called of a module.
struct RankMemoryTable {
  struct Row {
    StringRef name;
    RankMemory memory;
    /// Whether a budget holds for it. The gradients of a program that trains
    /// are for `optimus-run verify` alone.
    bool isJudged = true;
  };

  /// For each function, and as "microbatches" for those that the microbatches
  /// of a step need together. Functions of generation and their preparers are
  /// "generation" together; the latter have no rows of their own.
  SmallVector<Row> rows;

  /// The most bytes that any judged row needs.
  int64_t getMost() const;
  /// How many lanes such bytes hold of a program that was compiled for `lanes`,
  /// by the judged rows.
  int64_t countFitting(int64_t bytes, int64_t lanes) const;
  /// The most of each part.
  RankMemory getMostOfEach() const;
};

/// Of a module of device programs whose memory is placed.
RankMemoryTable getRankMemoryTable(ModuleOp module, bool isForGpu);

} // namespace mlir::optimus

#endif // OPTIMUS_PLANNING_RANKMEMORY_H
