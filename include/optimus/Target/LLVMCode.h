//===- LLVMCode.h - LLVM IR for one kind of machine -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last part of the way that all targets go: from the LLVM dialect to what a
// machine, or its assembler, reads.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_LLVMCODE_H
#define OPTIMUS_TARGET_LLVMCODE_H

#include "optimus-support/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

#include <memory>
#include <string>

namespace mlir::optimus {

/// LLVM's code generator for a triple: the host's, a GPU's, or one of all that
/// the packaged LLVM has. LLVM's list of them is global and without a lock, so
/// compilations on several threads add to it and search it here alone.
///
/// Errors: LLVM's sentence where it has none.
llvm::Expected<const llvm::Target *>
lookupCodeGenerator(const llvm::Triple &triple);

/// A module of LLVM IR whose functions are compiled for one machine. Errors are
/// Internal: the IR is ours.
class LLVMCode {
public:
  /// Translates a module of the LLVM dialect, with operations of NVVM in it
  /// where the machine is a GPU; `name` is the IR's.
  static optimus_support::StatusOr<LLVMCode>
  translate(ModuleOp module, StringRef name,
            std::unique_ptr<llvm::TargetMachine> machine);

  /// Takes IR that is there already. It is of `context`.
  static optimus_support::StatusOr<LLVMCode>
  create(std::unique_ptr<llvm::LLVMContext> context,
         std::unique_ptr<llvm::Module> module,
         std::unique_ptr<llvm::TargetMachine> machine);

  /// Runs LLVM's passes of -O3.
  void optimize();

  /// As text.
  std::string print() const;

  /// Writes an object file or assembly.
  optimus_support::Status emit(llvm::CodeGenFileType type,
                               llvm::raw_pwrite_stream &stream);

private:
  LLVMCode() = default;

  std::unique_ptr<llvm::LLVMContext> context; ///< outlives the module
  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<llvm::TargetMachine> machine;
};

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_LLVMCODE_H
