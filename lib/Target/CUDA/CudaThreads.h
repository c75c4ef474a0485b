//===- CudaThreads.h - What a thread knows of itself ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where a thread stands in its block and team, and what it tells the others.
// Blocks have one dimension, and so have grids.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CUDA_CUDATHREADS_H
#define OPTIMUS_LIB_TARGET_CUDA_CUDATHREADS_H

#include "optimus/Kernels/KernelBuilder.h"
#include "optimus/Target/CUDA/CudaSchedule.h"

namespace mlir::optimus {

inline constexpr int64_t kWarpThreads = 32;
/// The number of the memory that buffers are in.
inline constexpr unsigned kGlobalMemory = 1;
/// The number of the memory that the threads of a block share.
inline constexpr int64_t kSharedMemory = 3;
/// Small tables, read at one place by all threads of a warp.
inline constexpr int64_t kConstantMemory = 4;

/// What a thread loads at a time where it can.
inline constexpr int64_t kLoadBytes = 16;

/// Writes what a kernel's threads need. Numbers are written where they are
/// asked for; equal ones become one later.
class CudaThreads {
public:
  explicit CudaThreads(KernelBuilder &k)
      : k(k), space(k.getSpace()), block(getCudaBlock(space)) {}

  const CudaBlock &getBlock() const { return block; }

  Value getThread();     ///< in the block
  Value getBlockIndex(); ///< in the grid
  Value getNumBlocks();
  /// The number of the thread's team in the block, and the thread's in the
  /// team.
  Value getTeam();
  Value getRank();

  /// How many elements of the narrowest buffer a thread loads at a time.
  int64_t getMostLanes();
  /// The type of so many.
  Type getLanes(int64_t count);
  /// The greatest multiple of so many in [0, n].
  Value getWhole(Value n, int64_t lanes);
  /// A loop whose step is known at run time only.
  void stride(Value from, Value to, Value step, IndexFn body);

  /// All threads of the team have come here, and see what the others wrote.
  void synchronize();
  /// The same for the whole block; all of its threads must come here.
  void synchronizeBlock();
  /// The same for the thread's warp.
  void synchronizeWarp();
  /// Combines what so many neighbours have, where all threads of the block are;
  /// all know the result.
  Num combineNeighbours(Num value, int64_t count,
                        function_ref<Num(Num, Num)> combine);
  /// Combines what the threads of a team of rows have; all know the result.
  Terms combine(Terms values, function_ref<Num(Num, Num)> combine);
  /// Memory of the block, the same for the same name, at the builder's place.
  Value getShared(StringRef name, int64_t extent, Type element);

  /// 2^x by ex2.approx, of f32 and vectors of it: to 2^-22.5 of its value, 0
  /// where that is denormal.
  Num exp2(Num x);
  /// The greater; the other one if one is NaN.
  Num max(Num a, Num c);

private:
  /// The value of the thread whose number in the warp differs in these bits.
  Num exchange(Num value, int64_t bits, Value mask);
  Num combineWarp(Num value, int64_t threads, Value mask,
                  function_ref<Num(Num, Num)> combine);
  /// The threads of the team, as a bit each of the warp's.
  Value getMask();
  Value divide(Value value, int64_t divisor);
  Value remainder(Value value, int64_t divisor);

  KernelBuilder &k;
  const IterationSpace &space;
  CudaBlock block;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CUDA_CUDATHREADS_H
