//===- ExecToLLVM.cpp - From the device program to LLVM ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Conversion.h"

#include "optimus/Conversion/ExecToLLVM/Passes.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Target/CPU/KernelLibrary.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"

namespace mlir::optimus {
#define GEN_PASS_DEF_EXECTOLLVMPASS
#include "optimus/Conversion/ExecToLLVM/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

namespace {
struct ExecToLLVM : optimus::impl::ExecToLLVMPassBase<ExecToLLVM> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> steps;
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      if (function->hasAttr(KernelLibrary::kKernelAttr))
        continue;
      // Serial functions that nothing runs any more.
      if (function.isDeclaration()) {
        function.erase();
        continue;
      }
      steps.push_back(function);
    }

    ModuleConstants constants(module);
    SmallVector<std::pair<std::string, LLVM::LLVMFuncOp>> functions;
    int64_t calls = 0;
    for (func::FuncOp step : steps) {
      std::string name = step.getSymName().str();
      auto function = convertStep(step, constants, calls);
      if (failed(function))
        return signalPassFailure();
      functions.emplace_back(std::move(name), *function);
    }
    numCalls += calls;
    numDescriptors += constants.getNumDescriptors();

    if (auto mesh = getMesh(module))
      mesh.erase();
    if (failed(convertKernels(module)))
      return signalPassFailure();
    auto manifest = module->getAttrOfType<StringAttr>(kManifestAttr);
    createModelQuery(module, functions, manifest ? manifest.getValue() : "");
    module->removeAttr(kManifestAttr);
  }
};
} // namespace
