//===- CudaSchedule.h - Kernels of threads and blocks -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CUDA_CUDASCHEDULE_H
#define OPTIMUS_TARGET_CUDA_CUDASCHEDULE_H

#include "optimus/Kernels/KernelSchedule.h"

namespace mlir::optimus {

/// The threads of a block. Those that share an iteration are a team.
struct CudaBlock {
  int64_t threads;
  int64_t team;

  /// How many iterations a block does at a time.
  int64_t getTeams() const { return threads / team; }
};

/// How the iterations of a space are divided among threads. A grid may have any
/// number of blocks: each goes on where the grid ends.
CudaBlock getCudaBlock(const IterationSpace &space);

/// For NVIDIA's GPUs. Of elements, a thread does 16 bytes at a time; a row of
/// up to 4096 elements is a warp's and a longer one a block's; an item is a
/// thread's; a block sums a few columns, first in its threads and then among
/// them. The order in which sums are added depends on extents alone, not on the
/// grid.
class CudaSchedule : public KernelSchedule {
public:
  /// The grain is what a block does at a time.
  KernelExtent getExtent(const IterationSpace &space) const override;
  /// What a thread loads at a time.
  int64_t getTensorAlignment() const override { return 16; }

  void forElements(KernelBuilder &k, int64_t rows, int64_t cols,
                   ElementsFn body) const override;
  void forRows(KernelBuilder &k, IndexFn body) const override;
  void forColumns(KernelBuilder &k, int64_t cols, LanesFn body) const override;

  void lanes(KernelBuilder &k, int64_t n, LanesFn body) const override;
  void lanes(KernelBuilder &k, Value n, LanesFn body) const override;
  void each(KernelBuilder &k, Value from, Value to,
            IndexFn body) const override;
  Terms sums(KernelBuilder &k, int64_t n, int64_t count, TermsFn terms,
             bool wide) const override;
  Terms sums(KernelBuilder &k, Value n, int64_t count,
             TermsFn terms) const override;
  Num maximum(KernelBuilder &k, Value n,
              function_ref<Num(Value, Type)> term) const override;
  std::unique_ptr<HeldRow> holdRow(KernelBuilder &k, KernelBuffer buffer,
                                   Value begin, int64_t cols,
                                   Value n) const override;
  int64_t getMostHeld(const IterationSpace &space) const override;
  Num roughExp(KernelBuilder &k, Num x, Num most) const override;
  Num narrowExp(KernelBuilder &k, Num x) const override;
  Num narrowQuotient(KernelBuilder &k, Num a, Num c) const override;
  void once(KernelBuilder &k, function_ref<void()> body) const override;
  void separate(KernelBuilder &k) const override;
  Value allocateShared(KernelBuilder &k, int64_t extent) const override;
  Terms columnSums(KernelBuilder &k, int64_t rows, int64_t count, Type type,
                   TermsFn terms) const override;
  bool writeAttention(KernelBuilder &k,
                      const kernels::AttentionExtents &extents,
                      kernels::AttentionPart part) const override;
  bool takesChains(const IterationSpace &space) const override;
  const GroupedLaunchSchedule *getGroupedLaunches() const override;
  const RowGroups *getRowGroups() const override;
};

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CUDA_CUDASCHEDULE_H
