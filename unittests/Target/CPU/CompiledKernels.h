//===- CompiledKernels.h - Kernels compiled and called ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes kernels all the way that a model takes: a function with one launch
// each, --optimus-exec-to-llvm, a shared library, its query, the table of the
// function, and a call of the kernel that it names, as a runtime would.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_UNITTESTS_TARGET_CPU_COMPILEDKERNELS_H
#define OPTIMUS_UNITTESTS_TARGET_CPU_COMPILEDKERNELS_H

#include "optimus/Target/CPU/CpuKernels.h"

#include "optimus-support/Program.h"
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
  /// that run last to first.
  void run(size_t number, std::vector<void *> buffers, int parts);

  const optimus_model *getModel() const { return model; }
  const optimus_support::program::TargetT &getTarget() const {
    return *programs.targets.front();
  }
  const optimus_support::program::ProgramTableT &getTable() const {
    return *getTarget().tables.front();
  }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::optimus::CpuKernels library;
  size_t count = 0;
  std::string path;
  void *handle = nullptr;
  const optimus_model *model = nullptr;
  optimus_support::program::ProgramsT programs;
};

#endif // OPTIMUS_UNITTESTS_TARGET_CPU_COMPILEDKERNELS_H
