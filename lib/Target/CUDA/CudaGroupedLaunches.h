//===- CudaGroupedLaunches.h - Several pieces in a launch -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel of many pieces takes the addresses of all buffers as one array, by
// value: parameters are constant memory, where a number that is known at run
// time finds an address. Where each piece begins is a table of the code.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CUDA_CUDAGROUPEDLAUNCHES_H
#define OPTIMUS_LIB_TARGET_CUDA_CUDAGROUPEDLAUNCHES_H

#include "optimus/Kernels/GroupedLaunchSchedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

class CudaGroupedLaunches final : public GroupedLaunchSchedule {
public:
  /// The iterations of pieces of elements: a block does so many elements each.
  static int64_t getNumChunks(const IterationSpace &space);

  bool takes(const IterationSpace &space) const override;
  /// Parameters have 4 KiB on every GPU, and one of them is a number.
  int64_t getMostBuffers() const override { return 511; }

  void
  forGrouped(KernelBuilder &k,
             function_ref<void(const GroupedIteration &)> body) const override;
  void forElements(KernelBuilder &k, const GroupedIteration &piece,
                   ElementsFn body) const override;
  Value choose(KernelBuilder &k, ArrayRef<Value> arguments,
               Value number) const override;
};

/// Gives a kernel of pieces, which takes the number of its iterations and then
/// these buffers, their addresses as one array.
void takeBuffersByTable(func::FuncOp kernel, ArrayRef<KernelOperand> operands);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CUDA_CUDAGROUPEDLAUNCHES_H
