//===- RecomputeModel.h - A step as its chooser sees it ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_PLANNING_RECOMPUTEMODEL_H
#define OPTIMUS_LIB_PLANNING_RECOMPUTEMODEL_H

#include "optimus/Analysis/CostModel.h"
#include "optimus/Dialect/CCL/Transforms/Recomputation.h"
#include "optimus/Planning/RecomputeChoice.h"

namespace mlir::optimus {

/// A function that differentiates, for `chooseValues`.
struct RecomputeModel {
  RecomputeProgram program;
  /// By value of the program; those of arguments are empty.
  std::vector<std::string> ids;

  RepeatedValues getRepeated(const ccl::Recomputation &recomputation,
                             ccl::RecomputePolicy policy,
                             size_t layersPerCut) const;
  /// As the option of --optimus-recompute names them: with one pattern for what
  /// is alike, where it names nothing else.
  std::string describe(const RepeatedValues &repeated) const;

  /// By number of the program.
  llvm::DenseMap<Value, unsigned> numbers;
};

/// Of `function`, as --optimus-fuse made it, and the device program that it
/// became without recomputation: scheduled and with its memory placed, for its
/// times, and unscheduled, for the bytes beside its values. In a schedule these
/// fill whatever the peak of the activations leaves elsewhere.
RecomputeModel buildRecomputeModel(const ccl::Recomputation &recomputation,
                                   func::FuncOp function, func::FuncOp placed,
                                   func::FuncOp unscheduled,
                                   const CostModel &costs);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_PLANNING_RECOMPUTEMODEL_H
