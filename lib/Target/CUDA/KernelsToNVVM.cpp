//===- KernelsToNVVM.cpp - Kernels as a GPU takes them ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaGroupedLaunches.h"

#include "optimus/Target/CUDA/CodeGen.h"
#include "optimus/Target/CUDA/CudaSchedule.h"
#include "optimus/Target/CUDA/Passes.h"

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Kernels/KernelFunctions.h"
#include "optimus/Target/LowerKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-kernels-to-nvvm"

namespace mlir::optimus {
#define GEN_PASS_DEF_KERNELSTONVVMPASS
#include "optimus/Target/CUDA/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;
using exec::ExecDialect;

std::string mlir::optimus::getCudaName(StringRef kernel) {
  std::string name = kernel.str();
  for (char &c : name)
    if (!llvm::isAlnum(c) && c != '_')
      c = '$';
  return name;
}

/// Gives a kernel the operands of a launch: how many iterations there are, and
/// its buffers and scalars. A grid begins with the first iteration.
static void dropBegin(func::FuncOp kernel) {
  OpBuilder b = OpBuilder::atBlockBegin(&kernel.getBody().front());
  kernel.getArgument(0).replaceAllUsesWith(
      arith::ConstantIndexOp::create(b, kernel.getLoc(), 0));
  (void)kernel.eraseArgument(0);
}

LogicalResult mlir::optimus::convertKernelsToNVVM(ModuleOp module) {
  struct Entry {
    std::string name;
    KernelDescription description;
  };
  std::vector<Entry> entries;
  for (Operation &op : llvm::make_early_inc_range(module.getOps())) {
    auto kernel = dyn_cast<func::FuncOp>(op);
    if (isa<memref::GlobalOp>(op))
      continue;
    if (!kernel || !kernel->hasAttr(ExecDialect::kKernel)) {
      op.erase();
      continue;
    }
    auto emitError = [&] { return kernel.emitOpError(); };
    auto computes =
        kernel->getAttrOfType<DictionaryAttr>(ExecDialect::kComputes);
    if (kernel.isExternal() || !computes)
      return emitError() << "expected a body and '" << ExecDialect::kComputes
                         << "', as --optimus-build-kernels=target=cuda leaves "
                            "them";
    FailureOr<Kernel> parameters = Kernel::read(computes, emitError);
    if (failed(parameters))
      return failure();
    KernelDescription description = parameters->describe(module.getContext());
    SmallVector<Type> types;
    for (Type type : kernel.getArgumentTypes())
      if (auto buffer = dyn_cast<MemRefType>(type))
        types.push_back(buffer.getElementType());
    if (failed(description.setElementTypes(types)))
      return emitError() << "has other operands than '"
                         << ExecDialect::kComputes << "' says";
    kernel->removeAttr(ExecDialect::kKernel);
    kernel->removeAttr(ExecDialect::kComputes);
    kernel.setName(getCudaName(kernel.getSymName()));
    kernel.setVisibility(SymbolTable::Visibility::Public);
    dropBegin(kernel);
    if (!description.getSpace().pieces.empty())
      takeBuffersByTable(kernel, description.getOperands());
    entries.push_back({kernel.getSymName().str(), std::move(description)});
  }
  for (NamedAttribute attribute : llvm::to_vector(module->getAttrs()))
    module->removeAttr(attribute.getName());
  if (failed(lowerKernelsToLLVM(module)))
    return failure();
  SmallVector<UnrealizedConversionCastOp> casts;
  module.walk([&](UnrealizedConversionCastOp cast) { casts.push_back(cast); });
  reconcileUnrealizedCasts(casts);
  Builder b(module.getContext());
  for (const auto &[name, description] : entries) {
    CudaBlock block = getCudaBlock(description.getSpace());
    LDBG() << name << ": " << block.threads << " threads a block";
    auto kernel = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
    kernel.setLinkage(LLVM::Linkage::External);
    kernel->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    b.getUnitAttr());
    kernel->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    b.getDenseI32ArrayAttr({int32_t(block.threads)}));
    // Else ptxas spills a few registers where that lets more threads run. Some
    // kernels say more themselves.
    StringRef blocks = NVVM::NVVMDialect::getMinctasmAttrName();
    if (!kernel->hasAttr(blocks))
      kernel->setAttr(blocks, b.getI32IntegerAttr(1));
    // The number of iterations comes first.
    if (!description.getSpace().pieces.empty()) {
      Type table = LLVM::LLVMArrayType::get(b.getI64Type(),
                                            description.getOperands().size());
      kernel.setArgAttr(1, LLVM::LLVMDialect::getByValAttrName(),
                        TypeAttr::get(table));
      kernel.setArgAttr(1, LLVM::LLVMDialect::getAlignAttrName(),
                        b.getI64IntegerAttr(alignof(int64_t)));
      continue;
    }
    for (auto [number, operand] : llvm::enumerate(description.getOperands()))
      kernel.setArgAttr(number + 1, LLVM::LLVMDialect::getAlignAttrName(),
                        b.getI64IntegerAttr(operand.getAlignment(
                            CudaSchedule().getTensorAlignment())));
  }
  return success();
}

namespace {
struct KernelsToNVVMPass
    : optimus::impl::KernelsToNVVMPassBase<KernelsToNVVMPass> {
  void runOnOperation() override {
    if (failed(convertKernelsToNVVM(getOperation())))
      signalPassFailure();
  }
};
} // namespace
