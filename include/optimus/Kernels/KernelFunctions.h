//===- KernelFunctions.h - Kernels in a module ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_KERNELFUNCTIONS_H
#define OPTIMUS_KERNELS_KERNELFUNCTIONS_H

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Kernels/KernelSchedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::optimus {

/// Declares the kernels that a module launches.
class KernelDeclarations {
public:
  /// Kernels go to the end of `module`, which must outlive this.
  explicit KernelDeclarations(ModuleOp module);

  /// The function of a kernel, described by its `exec.computes`; equal kernels
  /// share it.
  func::FuncOp declare(const Kernel &kernel,
                       const KernelDescription &description);

  /// A launch of a kernel on buffers of such elements as it has a form for.
  /// `description` is the kernel's.
  exec::LaunchOp launch(OpBuilder &b, Location location, const Kernel &kernel,
                        KernelDescription description, ValueRange buffers,
                        ValueRange scalars = {});

  /// Takes over the kernels of a module apart, in their order, but for those
  /// that are here already.
  void take(ModuleOp apart);

  /// Erases the kernels that nobody launches any more.
  void eraseUnused();

private:
  ModuleOp module;
  llvm::StringMap<func::FuncOp> known;
};

/// A function's kernel, with its operands and their element types.
struct DeclaredKernel {
  Kernel kernel;
  KernelDescription description;
};

/// A kernel as a schedule divides it.
struct ScheduledKernel {
  KernelDescription description;
  KernelExtent extent;
};

/// What a kernel's function is to compute. Fails with an error on the function
/// where that does not say so, or has other operands.
FailureOr<DeclaredKernel> readKernel(func::FuncOp function);

/// Writes the body that a declared kernel lacks. Fails as readKernel().
FailureOr<ScheduledKernel> buildKernel(func::FuncOp function,
                                       const KernelSchedule &schedule);

} // namespace mlir::optimus

#endif // OPTIMUS_KERNELS_KERNELFUNCTIONS_H
