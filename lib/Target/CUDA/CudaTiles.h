//===- CudaTiles.h - Products of a warp -------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warp has 16 rows of its own and multiplies them with rows that its block
// shares. What it sums lies as mma.sync has it: of each 8 columns a lane has
// two neighbours in two rows,
//
//   row = lane/4,     column = 2 (lane%4) and the next
//   row = lane/4 + 8, the same
//
// Products here are of f32, by fused multiply-add; those of bf16 are
// CudaTensorCores.h's.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CUDA_CUDATILES_H
#define OPTIMUS_LIB_TARGET_CUDA_CUDATILES_H

#include "CudaThreads.h"

namespace mlir::optimus {

class CudaTiles {
public:
  static constexpr int64_t kWarpRows = 16;
  /// The columns of which a lane has four sums.
  static constexpr int64_t kTile = 8;
  /// Rows that the block shares at a time.
  static constexpr int64_t kSharedRows = 32;

  /// Of rows of `dim` elements, a multiple of 16.
  CudaTiles(KernelBuilder &k, int64_t dim);

  /// A lane's sums: four for every 8 columns.
  using Sums = SmallVector<Value>;
  Sums getZeros(int64_t cols) {
    return Sums(cols / 2, k.constant(0, k.f32()).value);
  }
  /// Goes through `sums`: the row, one of the lane's two, and the column.
  void forEach(Sums &sums, function_ref<Num(Num, int64_t, Value)> body);

  /// The number of the lane's first row in the block; the second is 8 more.
  Value getRow();
  /// What the lanes of a row have, combined.
  Num combineRow(Num value, function_ref<Num(Num, Num)> combine) {
    return threads.combineNeighbours(value, kRowLanes, combine);
  }
  /// Calls `body` in one lane of each row.
  void oncePerRow(function_ref<void()> body);

  /// The rows of a warp, in memory: where those of a lane begin.
  struct Own {
    KernelBuffer memory;
    Value begins[2];
  };
  /// Rows that the block shares, each of `stride` elements.
  struct Shared {
    KernelBuffer memory;
    int64_t stride;
  };
  Shared allocate(StringRef name);
  /// Copies rows [first, first + kSharedRows), which begin at `getBegin`; those
  /// from `limit` on are zeros. All threads of the block must come here.
  void copy(KernelBuffer from, Value first, Value limit,
            function_ref<Value(Value)> getBegin, const Shared &to);

  /// The products of the warp's rows and those of the block.
  Sums multiply(const Own &own, const Shared &others);
  /// sums += weights * others, where `weights` has a column for each of the
  /// block's rows.
  Sums accumulate(Sums sums, const Sums &weights, const Shared &others);
  /// Sums of products of the elements of a lane's row, which begin there.
  Num dotRow(KernelBuffer a, KernelBuffer c, Value begin);
  /// Writes the columns that a lane has of one of its rows.
  void store(const Sums &sums, int64_t half, Num factor, KernelBuffer to,
             Value begin);

  Value getLane();   ///< in the warp
  Value getGroup();  ///< lane / 4
  Value getMember(); ///< lane % 4
  Value divide(Value value, int64_t divisor);
  Value remainder(Value value, int64_t divisor);

private:
  static constexpr int64_t kRowLanes = 4;

  Value addTo(Value value, int64_t number) {
    return k.addIndex(value, k.index(number));
  }
  Value extract(Value vector, int64_t lane);
  Value pack(ArrayRef<Value> elements);

  KernelBuilder &k;
  ImplicitLocOpBuilder &b;
  CudaThreads threads;
  int64_t dim;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CUDA_CUDATILES_H
