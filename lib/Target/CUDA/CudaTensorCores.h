//===- CudaTensorCores.h - Products of tensor cores -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products of a warp's 16 rows of bf16, in registers, with rows that its block
// shares: mma.sync.m16n8k16. What is summed lies as CudaTiles.h says.
//
// Shared rows come in tiles, two of which there are: while the block multiplies
// with one, the next is copied into the other.
//
//   copy(first, stage 0)
//   loop:  await()  copy(next, stage 1)  multiply(stage 0)
//          await()  copy(next, stage 0)  multiply(stage 1)   ...
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CUDA_CUDATENSORCORES_H
#define OPTIMUS_LIB_TARGET_CUDA_CUDATENSORCORES_H

#include "CudaTiles.h"

namespace mlir::optimus {

class CudaTensorCores {
public:
  using Sums = CudaTiles::Sums;

  /// Of rows of `dim` elements, a multiple of 16, and tiles of so many rows, a
  /// multiple of 16 that divides 64.
  CudaTensorCores(KernelBuilder &k, CudaTiles &tiles, int64_t dim,
                  int64_t tileRows);

  /// The warp's rows, as first factors.
  struct Own {
    KernelBuffer memory;
    Value begins[2];
    SmallVector<Value> held; ///< four registers for 16 columns, or empty
  };
  /// Those of a lane begin at `first` and `second`. With `hold`, they are
  /// loaded once, into registers.
  Own getOwn(KernelBuffer memory, Value first, Value second, bool hold);

  /// Two tiles that the block shares.
  struct Shared {
    KernelBuffer memory;
  };
  Shared allocate(StringRef name);
  /// Rows of a tensor from `first` on, of which those before `limit` exist.
  struct Rows {
    KernelBuffer memory;
    Value begin; ///< the first element of row `first`
    int64_t stride;
    Value first, limit;
    bool isWhole; ///< whether all of a tile exist
  };
  /// Begins to copy a tile. Rows that do not exist are zeros.
  void copy(const Rows &rows, const Shared &to, Value stage);
  /// The same for a number a row, of four bytes: the kind `place` of so many,
  /// which make up no more rows than there are threads.
  void copyNumbers(KernelBuffer from, Value begin, Value first, Value limit,
                   KernelBuffer to, Value stage, int64_t place, int64_t kinds);
  /// What was begun to be copied belongs together.
  void commit();
  /// All threads have copied what they began to copy, and have done with the
  /// tile before.
  void await();

  /// The products of the warp's rows and those of a tile.
  Sums multiply(const Own &own, const Shared &others, Value stage);
  /// Sums as first factors, rounded: four registers for 16 columns.
  SmallVector<Value> round(const Sums &weights);
  /// sums += weights * others, where `weights` has a column for each row of a
  /// tile.
  void accumulate(MutableArrayRef<Value> sums, ArrayRef<Value> weights,
                  const Shared &others, Value stage);

  int64_t getTileRows() const { return tileRows; }
  /// The tile of the two that rows from `first` on are in.
  Value getStage(Value first) {
    return tiles.remainder(tiles.divide(first, tileRows), 2);
  }

private:
  Value addTo(Value value, int64_t number) {
    return k.addIndex(value, k.index(number));
  }
  Value loadPair(KernelBuffer memory, Value at);
  SmallVector<Value> loadOwn(const Own &own, int64_t column);
  /// The address of an element.
  Value getAddress(KernelBuffer memory, Value at);
  /// An element behind it, of these.
  Value addAddress(Value address, Type element, int64_t number);
  /// Four matrices of eight rows, whose addresses eight lanes each have.
  SmallVector<Value> loadMatrices(Value address, bool transposed);
  /// The lane's address for loadMatrices() in a tile: one bit of its number
  /// selects the upper eight rows, another the upper eight columns.
  Value getMatrixAddress(const Shared &others, Value stage, int64_t rowBit,
                         int64_t columnBit);
  void multiplyAdd(MutableArrayRef<Value> sums, ValueRange a, ValueRange c);
  /// The fewest elements from a row to the next that put eight of them in
  /// different banks.
  int64_t getStride() const { return dim + kPiece; }
  /// So many if it is there, and else none.
  Value getBytes(Value isThere, int64_t bytes);
  void copyAsync(Value to, Value from, int64_t bytes, Value some = {});

  static constexpr int64_t kTile = CudaTiles::kTile;
  /// Elements that a thread copies at a time.
  static constexpr int64_t kPiece = kLoadBytes / 2;

  KernelBuilder &k;
  ImplicitLocOpBuilder &b;
  CudaThreads threads;
  CudaTiles &tiles;
  Type element;
  int64_t dim, tileRows;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CUDA_CUDATENSORCORES_H
