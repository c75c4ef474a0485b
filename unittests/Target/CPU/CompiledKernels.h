//===- CompiledKernels.h - Kernels compiled and called ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes kernels all the way that a model takes: a function with one launch
// each, --optimus-exec-to-llvm, a shared library, its query, a call through a table of
// the runtime's functions that this class stands in for.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_UNITTESTS_TARGET_CPU_COMPILEDKERNELS_H
#define OPTIMUS_UNITTESTS_TARGET_CPU_COMPILEDKERNELS_H

#include "optimus/Target/CPU/KernelLibrary.h"

#include "optimus-support/model_abi.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

class CompiledKernels {
public:
  CompiledKernels();
  ~CompiledKernels();

  mlir::optimus::KernelLibrary &getLibrary() { return library; }

  /// Adds a launch with these i64 scalars; returns its number.
  size_t add(mlir::optimus::KernelLaunch launch,
             std::vector<int64_t> scalars = {});
  /// Compiles and loads all that was added; returns an error, or nothing.
  std::string compile();
  /// Runs a launch on these buffers, its iterations split into `parts` tasks
  /// that run last to first; returns the status. With 0 parts the launch fails
  /// with status 77.
  int32_t run(size_t number, std::vector<void *> buffers, int parts);

  const optimus_model *getModel() const { return model; }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::optimus::KernelLibrary library;
  size_t count = 0;
  std::string path;
  void *handle = nullptr;
  const optimus_model *model = nullptr;
};

#endif // OPTIMUS_UNITTESTS_TARGET_CPU_COMPILEDKERNELS_H
