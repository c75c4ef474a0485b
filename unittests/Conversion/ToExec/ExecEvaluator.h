//===- ExecEvaluator.h - Computes device programs of all ranks --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_UNITTESTS_CONVERSION_TOEXEC_EXECEVALUATOR_H
#define OPTIMUS_UNITTESTS_CONVERSION_TOEXEC_EXECEVALUATOR_H

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

/// Computes copies, packing, products and collectives on all ranks of a mesh at once, in
/// f64, one command after the other. Memory that nothing wrote is NaN.
class ExecEvaluator {
public:
  explicit ExecEvaluator(mlir::func::FuncOp function);

  /// What an argument holds on a rank, to fill before and to read after.
  std::vector<double> &getArgument(unsigned number, int64_t rank) {
    return memory[function.getArgument(number)][rank];
  }
  /// One without a mesh.
  int64_t getNumRanks() { return mesh ? mesh.getNumRanks() : 1; }

  void run();

private:
  /// An element of the buffer that a view is a view of, on a rank.
  double &at(mlir::Value buffer, int64_t rank, int64_t element);
  int64_t getCoordinate(int64_t rank, mlir::StringRef axis);
  int64_t evaluate(const mlir::exec::RankNumber &number, int64_t rank);
  void allocate(mlir::Value buffer);
  void compute(mlir::exec::CopyOp op, int64_t rank);
  void compute(mlir::exec::PackOp op, int64_t rank);
  void compute(mlir::exec::GemmOp op, int64_t rank);
  void compute(mlir::exec::CollectiveStartOp op);

  mlir::func::FuncOp function;
  mlir::optimus::MeshOp mesh;
  llvm::DenseMap<mlir::Value, std::vector<std::vector<double>>> memory;
};

#endif // OPTIMUS_UNITTESTS_CONVERSION_TOEXEC_EXECEVALUATOR_H
