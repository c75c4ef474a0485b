//===- CudaRowGroups.h - Rows that a block does together --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CUDA_CUDAROWGROUPS_H
#define OPTIMUS_LIB_TARGET_CUDA_CUDAROWGROUPS_H

#include "optimus/Kernels/RowGroups.h"

namespace mlir::optimus {

/// A block does a group: a warp a row, and a thread some columns.
class CudaRowGroups final : public RowGroups {
public:
  int64_t getTogether(int64_t rows) const override;

  void forGroups(KernelBuilder &k, int64_t rows, int64_t together,
                 function_ref<void(const RowGroup &)> body) const override;
  void forTurns(KernelBuilder &k, const RowGroup &group, int64_t together,
                function_ref<void(const RowGroup &)> body) const override;
  void forRows(KernelBuilder &k, const RowGroup &group,
               IndexFn body) const override;
  void forColumns(KernelBuilder &k, int64_t cols, LanesFn body) const override;
  void separate(KernelBuilder &k) const override;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CUDA_CUDAROWGROUPS_H
