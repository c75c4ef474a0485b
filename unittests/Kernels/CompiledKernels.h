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

#ifndef OPTIMUS_UNITTESTS_KERNELS_COMPILEDKERNELS_H
#define OPTIMUS_UNITTESTS_KERNELS_COMPILEDKERNELS_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Kernels/AttentionKernels.h"
#include "optimus/Kernels/CopyKernels.h"
#include "optimus/Kernels/ElementwiseKernels.h"
#include "optimus/Kernels/HeadLossKernels.h"
#include "optimus/Kernels/KernelFunctions.h"
#include "optimus/Kernels/NormKernels.h"
#include "optimus/Kernels/OptimizerKernels.h"
#include "optimus/Kernels/ReductionKernels.h"
#include "optimus/Kernels/TokenKernels.h"
#include "optimus/Target/CPU/CpuSchedule.h"

#include "optimus-support/Program.h"
#include "optimus-support/model_abi.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

class CompiledKernels {
public:
  /// The schedule must outlive this.
  explicit CompiledKernels(const mlir::optimus::KernelSchedule &schedule);
  virtual ~CompiledKernels();

  mlir::MLIRContext &getContext() { return context; }

  /// The kernel of an operation whose operands have these numbers of elements.
  template <typename OpT>
  mlir::optimus::Kernel elementwise(llvm::ArrayRef<int64_t> operands,
                                    bool exact = false) {
    mlir::Builder b(&context);
    mlir::NamedAttrList attributes;
    if (exact)
      attributes.set("exact", b.getUnitAttr());
    return mlir::optimus::kernels::elementwise(
        b.getStringAttr(OpT::getOperationName()),
        attributes.getDictionary(&context), operands,
        OpT::template hasTrait<mlir::OpTrait::OneResult>() ? 1 : 2);
  }

  /// The step of an optimizer on n elements; `all` of the numbers that it may
  /// be given, or one.
  template <typename OpT>
  mlir::optimus::Kernel step(int64_t n, bool decay = false, bool all = true) {
    mlir::Builder b(&context);
    mlir::NamedAttrList attributes;
    if (decay)
      attributes.set("decay", b.getUnitAttr());
    return mlir::optimus::kernels::elementwise(
        b.getStringAttr(OpT::getOperationName()),
        attributes.getDictionary(&context), n,
        std::size(OpT::kTensors) + (all ? std::size(OpT::kNumbers) : 1));
  }

  /// The name of a kernel's function; operands named in `narrow` are bf16.
  std::string getName(const mlir::optimus::Kernel &kernel,
                      const std::vector<std::string> &narrow = {}) {
    return describe(kernel, narrow).getName();
  }
  /// Adds a launch with these i64 scalars; returns its number.
  size_t add(const mlir::optimus::Kernel &kernel,
             std::vector<int64_t> scalars = {},
             const std::vector<std::string> &narrow = {});
  /// Compiles and loads all that was added; returns an error, or nothing.
  virtual std::string compile();
  /// Runs a launch on these buffers, its iterations split into `parts` tasks
  /// that run last to first.
  virtual void run(size_t number, std::vector<void *> buffers, int parts);

  const optimus_model *getModel() const { return model; }
  const optimus_support::program::TargetT &getTarget() const {
    return *programs.targets.front();
  }
  const optimus_support::program::ProgramTableT &getTable() const {
    return *getTarget().tables.front();
  }

protected:
  /// What was added, in the order of its numbers.
  struct Launch {
    mlir::optimus::ScheduledKernel scheduled;
    std::vector<int64_t> scalars;
  };
  const Launch &getLaunch(size_t number) const { return launches[number]; }
  mlir::ModuleOp getModule() { return *module; }

private:
  mlir::optimus::KernelDescription
  describe(const mlir::optimus::Kernel &kernel,
           const std::vector<std::string> &narrow);

  const mlir::optimus::KernelSchedule &schedule;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::optimus::KernelDeclarations declarations;
  std::vector<Launch> launches;
  std::string path;
  void *handle = nullptr;
  const optimus_model *model = nullptr;
  optimus_support::program::ProgramsT programs;
};

#endif // OPTIMUS_UNITTESTS_KERNELS_COMPILEDKERNELS_H
