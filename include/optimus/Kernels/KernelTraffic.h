//===- KernelTraffic.h - What kernels move ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_KERNELTRAFFIC_H
#define OPTIMUS_KERNELS_KERNELTRAFFIC_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace mlir::optimus {

class KernelSchedule;

/// What a launch of a kernel moves, in bytes.
struct KernelTraffic {
  /// Each input read once and each output written once.
  int64_t least = 0;
  /// What its body loads and stores, whoever has it then: a row that is read
  /// again is in a cache. Nothing where a target may have a body of its own.
  std::optional<int64_t> touched = 0;

  KernelTraffic &operator+=(const KernelTraffic &other);
  KernelTraffic &operator*=(int64_t launches);
};

/// Of a function that describes its kernel (`exec.computes`), on a target with
/// such a schedule; its pieces count one by one.
FailureOr<KernelTraffic> countTraffic(func::FuncOp kernel,
                                      const KernelSchedule &schedule);

} // namespace mlir::optimus

#endif // OPTIMUS_KERNELS_KERNELTRAFFIC_H
