//===- KernelFunctions.h - Kernels in a module ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_KERNELFUNCTIONS_H
#define OPTIMUS_KERNELS_KERNELFUNCTIONS_H

#include "optimus/Kernels/KernelSchedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::optimus {

/// Declares the kernels that a module launches.
class KernelDeclarations {
public:
  /// Kernels go to the end of `module`, which must outlive this.
  explicit KernelDeclarations(ModuleOp module);

  /// The function of a kernel, which says in `exec.computes` what it is to
  /// compute; equal kernels share it.
  func::FuncOp declare(const Kernel &kernel,
                       const KernelDescription &description);

private:
  ModuleOp module;
  llvm::StringMap<func::FuncOp> known;
};

/// A kernel as a schedule divides it.
struct ScheduledKernel {
  KernelDescription description;
  KernelExtent extent;
};

/// What a declared kernel computes, with the elements of its function. Fails
/// with an error on the function where that does not say so, or has other
/// operands.
FailureOr<KernelDescription> describeKernel(func::FuncOp function);

/// Writes the body that a declared kernel lacks. Fails as describeKernel().
FailureOr<ScheduledKernel> buildKernel(func::FuncOp function,
                                       const KernelSchedule &schedule);

} // namespace mlir::optimus

#endif // OPTIMUS_KERNELS_KERNELFUNCTIONS_H
