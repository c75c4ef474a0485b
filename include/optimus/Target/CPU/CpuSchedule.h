//===- CpuSchedule.h - Kernels of vector code -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CPU_CPUSCHEDULE_H
#define OPTIMUS_TARGET_CPU_CPUSCHEDULE_H

#include "optimus/Kernels/KernelSchedule.h"

namespace mlir::optimus {

/// For any processor: iterations are blocks of elements, rows and blocks of
/// columns, and loops within them go over vectors. These are written rather
/// than left to a vectoriser: so in-place kernels need no promise about
/// aliasing, and every element goes through the same instructions whatever the
/// split among threads. Sums are added in 16 lanes on every processor.
class CpuSchedule final : public KernelSchedule {
public:
  KernelExtent getExtent(const IterationSpace &space) const override;

  void forElements(KernelBuilder &k, int64_t rows, int64_t cols,
                   ElementsFn body) const override;
  void forRows(KernelBuilder &k, IndexFn body) const override;
  void forColumns(KernelBuilder &k, int64_t cols, LanesFn body) const override;

  void lanes(KernelBuilder &k, int64_t n, LanesFn body) const override;
  void lanes(KernelBuilder &k, Value n, LanesFn body) const override;
  void each(KernelBuilder &k, Value from, Value to,
            IndexFn body) const override;
  /// Two registers a sum hide the latency of addition.
  Terms sums(KernelBuilder &k, int64_t n, int64_t count, TermsFn terms,
             bool wide) const override;
  Terms sums(KernelBuilder &k, Value n, int64_t count,
             TermsFn terms) const override;
  Num maximum(KernelBuilder &k, Value n,
              function_ref<Num(Value, Type)> term) const override;
  /// Rows are summed in groups of 256 and the groups' sums then added, which
  /// keeps the rounding error of a sum over many rows small.
  Terms columnSums(KernelBuilder &k, int64_t rows, int64_t count, Type type,
                   TermsFn terms) const override;
};

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CPU_CPUSCHEDULE_H
