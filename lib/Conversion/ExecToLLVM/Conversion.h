//===- Conversion.h - The parts of --optimus-exec-to-llvm -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_EXECTOLLVM_CONVERSION_H
#define OPTIMUS_LIB_CONVERSION_EXECTOLLVM_CONVERSION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::optimus {

/// Constants of the module, one for each distinct content.
class ModuleConstants {
public:
  explicit ModuleConstants(ModuleOp module) : module(module) {}

  /// A null-terminated string.
  LLVM::GlobalOp getString(StringRef text);
  /// A struct of integers; `fields` pairs a bit width with a value.
  LLVM::GlobalOp getStruct(StringRef prefix,
                           ArrayRef<std::pair<unsigned, int64_t>> fields);
  /// An optrt_launch_desc.
  LLVM::GlobalOp getLaunch(StringRef kernel, int64_t extent, int64_t grain);

  int64_t getNumDescriptors() const { return numDescriptors; }

private:
  ModuleOp module;
  llvm::StringMap<LLVM::GlobalOp> known;
  int64_t numDescriptors = 0;
};

/// A constant of the module whose value `initialize` builds and returns.
LLVM::GlobalOp createConstant(ModuleOp module, StringRef name, Type type,
                              function_ref<Value(OpBuilder &)> initialize);

/// A struct value with these members.
Value buildStruct(OpBuilder &builder, Location loc, LLVM::LLVMStructType type,
                  ArrayRef<Value> members);

/// The global that holds the runtime's table.
LLVM::GlobalOp getOrCreateApiGlobal(ModuleOp module);

/// Replaces a function of commands by one with the type of
/// optimus_function::run and an internal name; returns it. Counts the calls to
/// the runtime.
FailureOr<LLVM::LLVMFuncOp> convertStep(func::FuncOp function,
                                        ModuleConstants &constants,
                                        int64_t &numCalls);

/// The name of the wrapper of a kernel.
std::string getWrapperName(StringRef kernel);

/// Converts all that is left, the kernels, to the LLVM dialect and writes
/// their wrappers.
LogicalResult convertKernels(ModuleOp module);

/// Writes optimus_model_query and the tables behind it; `functions` pairs
/// names with what convertStep returned.
void createModelQuery(
    ModuleOp module,
    ArrayRef<std::pair<std::string, LLVM::LLVMFuncOp>> functions,
    StringRef manifest);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_EXECTOLLVM_CONVERSION_H
