//===- CpuKernels.cpp - Kernels of vector code ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CPU/CpuKernels.h"

#include "KernelBuilder.h"

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::optimus;

CpuKernels::CpuKernels(ModuleOp module) : module(module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(exec::ExecDialect::kKernel))
      known.insert(function.getSymName());
}

void CpuKernels::getDependentDialects(DialectRegistry &registry) {
  registry
      .insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
              memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect>();
}

FlatSymbolRefAttr
CpuKernels::getOrBuild(StringRef name, ArrayRef<Type> operands,
                       llvm::function_ref<void(KernelBuilder &)> body) {
  MLIRContext *context = module.getContext();
  if (known.insert(name).second) {
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    SmallVector<Type> inputs(2, b.getIndexType());
    llvm::append_range(inputs, operands);
    Location loc = NameLoc::get(b.getStringAttr(name));
    auto function =
        func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, {}));
    function.setPrivate();
    function->setAttr(exec::ExecDialect::kKernel, b.getUnitAttr());
    b.setInsertionPointToEnd(function.addEntryBlock());
    func::ReturnOp::create(b, loc);
    KernelBuilder kernel(function);
    body(kernel);
  }
  return FlatSymbolRefAttr::get(context, name);
}
