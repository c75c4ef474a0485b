//===- ScalarSchedule.h - Kernels without vectors ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_UNITTESTS_KERNELS_SCALARSCHEDULE_H
#define OPTIMUS_UNITTESTS_KERNELS_SCALARSCHEDULE_H

#include "optimus/Kernels/KernelSchedule.h"

/// The plainest schedule that there can be: an iteration is one element, one
/// row or one column, and everything in it is a loop over numbers. What bodies
/// owe to the vectors and blocks of the CPU would show.
class ScalarSchedule final : public mlir::optimus::KernelSchedule {
  using KernelBuilder = mlir::optimus::KernelBuilder;
  using Num = mlir::optimus::Num;
  using Terms = mlir::optimus::Terms;

public:
  mlir::optimus::KernelExtent
  getExtent(const mlir::optimus::IterationSpace &space) const override;

  void forElements(KernelBuilder &k, int64_t rows, int64_t cols,
                   mlir::optimus::ElementsFn body) const override;
  void forRows(KernelBuilder &k, mlir::optimus::IndexFn body) const override;
  void forColumns(KernelBuilder &k, int64_t cols,
                  mlir::optimus::LanesFn body) const override;
  void lanes(KernelBuilder &k, int64_t n,
             mlir::optimus::LanesFn body) const override;
  void lanes(KernelBuilder &k, mlir::Value n,
             mlir::optimus::LanesFn body) const override;
  void each(KernelBuilder &k, mlir::Value from, mlir::Value to,
            mlir::optimus::IndexFn body) const override;
  Terms sums(KernelBuilder &k, int64_t n, int64_t count,
             mlir::optimus::TermsFn terms, bool wide) const override;
  Terms sums(KernelBuilder &k, mlir::Value n, int64_t count,
             mlir::optimus::TermsFn terms) const override;
  Num maximum(
      KernelBuilder &k, mlir::Value n,
      llvm::function_ref<Num(mlir::Value, mlir::Type)> term) const override;
  Terms columnSums(KernelBuilder &k, int64_t rows, int64_t count,
                   mlir::Type type,
                   mlir::optimus::TermsFn terms) const override;
};

#endif // OPTIMUS_UNITTESTS_KERNELS_SCALARSCHEDULE_H
