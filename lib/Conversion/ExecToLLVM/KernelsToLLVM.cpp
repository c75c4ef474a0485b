//===- KernelsToLLVM.cpp - Kernels and their wrappers -----------*- C++ -*-===//
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
#include "optimus/Target/LowerKernels.h"

#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-kernels-to-llvm"

namespace mlir::optimus {
#define GEN_PASS_DEF_KERNELSTOLLVMPASS
#include "optimus/Conversion/ExecToLLVM/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

std::string mlir::optimus::getWrapperName(StringRef kernel) {
  return ("optimus.kernel." + kernel).str();
}

OwningOpRef<ModuleOp> mlir::optimus::takeCommands(ModuleOp module) {
  OwningOpRef<ModuleOp> taken = ModuleOp::create(module.getLoc());
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (!function->hasAttr(exec::ExecDialect::kKernel))
      function->moveBefore(taken->getBody(), taken->getBody()->end());
  if (auto mesh = getMesh(module))
    mesh->moveBefore(taken->getBody(), taken->getBody()->begin());
  return taken;
}

LLVM::LLVMFuncOp mlir::optimus::declareWrapper(OpBuilder &b, Location loc,
                                               StringRef kernel) {
  MLIRContext *context = b.getContext();
  Type ptr = LLVM::LLVMPointerType::get(context);
  Type i64 = IntegerType::get(context, 64);
  auto wrapper = LLVM::LLVMFuncOp::create(
      b, loc, getWrapperName(kernel),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                  {i64, i64, ptr}));
  wrapper.setVisibility_(LLVM::Visibility::Hidden);
  return wrapper;
}

/// void wrapper(i64 begin, i64 end, ptr args): calls the kernel with the
/// pointers in args, and with what they point to for its scalars.
static void createWrapper(LLVM::LLVMFuncOp kernel) {
  Location loc = kernel.getLoc();
  OpBuilder b(kernel.getContext());
  b.setInsertionPointAfter(kernel);
  LLVM::LLVMFuncOp wrapper = declareWrapper(b, loc, kernel.getSymName());
  Type ptr = LLVM::LLVMPointerType::get(kernel.getContext());
  Block *entry = wrapper.addEntryBlock(b);
  b.setInsertionPointToEnd(entry);
  SmallVector<Value> operands{entry->getArgument(0), entry->getArgument(1)};
  ArrayRef<Type> types = kernel.getArgumentTypes();
  for (auto [i, type] : llvm::enumerate(types.drop_front(2))) {
    Value slot =
        LLVM::GEPOp::create(b, loc, ptr, ptr, entry->getArgument(2),
                            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    Value operand = LLVM::LoadOp::create(b, loc, ptr, slot);
    if (!isa<LLVM::LLVMPointerType>(type))
      operand = LLVM::LoadOp::create(b, loc, type, operand);
    operands.push_back(operand);
  }
  LLVM::CallOp::create(b, loc, kernel, operands);
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

/// Writes conversions between bf16 and f32 with integers: where the processor
/// has no instruction for them, LLVM would call a function that a model library
/// has not.
static void expandBFloat16(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  arith::populateExpandBFloat16Patterns(patterns);
  walkAndApplyPatterns(module, std::move(patterns));
}

/// Loads and stores bf16 as integers. On vectors of it whose number of lanes is
/// no power of two, LLVM would go through f32, by a call of its function.
static void moveBFloat16AsIntegers(ModuleOp module) {
  auto getIntegers = [](Type type) -> Type {
    if (!getElementTypeOrSelf(type).isBF16())
      return {};
    Type integer = IntegerType::get(type.getContext(), 16);
    auto vector = dyn_cast<VectorType>(type);
    return vector ? vector.clone(integer) : integer;
  };
  OpBuilder b(module.getContext());
  module.walk([&](LLVM::StoreOp store) {
    Type integers = getIntegers(store.getValue().getType());
    if (!integers)
      return;
    b.setInsertionPoint(store);
    store.getValueMutable().assign(
        LLVM::BitcastOp::create(b, store.getLoc(), integers, store.getValue()));
  });
  module.walk([&](LLVM::LoadOp load) {
    Type type = load.getType(), integers = getIntegers(type);
    if (!integers)
      return;
    b.setInsertionPointAfter(load);
    load.getResult().setType(integers);
    auto cast =
        LLVM::BitcastOp::create(b, load.getLoc(), type, load.getResult());
    load.getResult().replaceAllUsesExcept(cast, cast);
  });
}

LogicalResult mlir::optimus::convertKernels(ModuleOp module) {
  expandBFloat16(module);
  SmallVector<std::string> names;
  for (auto kernel : module.getOps<func::FuncOp>())
    names.push_back(kernel.getSymName().str());
  if (failed(lowerKernelsToLLVM(module)))
    return failure();
  moveBFloat16AsIntegers(module);
  for (StringRef name : names) {
    LDBG() << "wrapper " << getWrapperName(name);
    auto kernel = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
    kernel.setLinkage(LLVM::Linkage::Internal);
    createWrapper(kernel);
  }
  return success();
}

namespace {
class KernelsToLLVM
    : public optimus::impl::KernelsToLLVMPassBase<KernelsToLLVM> {
public:
  void runOnOperation() override {
    ModuleOp module = getOperation();
    takeCommands(module);
    module->removeAttr(kManifestAttr);
    if (failed(convertKernels(module)))
      signalPassFailure();
  }
};
} // namespace
