//===- CodeGen.h - From the LLVM dialect to a shared library ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CPU_CODEGEN_H
#define OPTIMUS_TARGET_CPU_CODEGEN_H

#include "optimus/Target/LLVMCode.h"

#include "optimus-support/ScratchFolder.h"
#include "optimus-support/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

#include <memory>
#include <string>
#include <vector>

namespace mlir::optimus {

/// The processor that code is for.
struct CpuTarget {
  /// The machine's architecture and system: this one's, as a rule.
  llvm::Triple triple;
  /// LLVM's name, never "native".
  std::string cpu;
  /// As LLVM's target machines want it: "+avx2,-avx512f,…"; empty if the
  /// processor's name says it all.
  std::string features;
  /// The features of the instruction set, by LLVM's names and sorted, without
  /// which the code cannot run.
  std::vector<std::string> required;

  /// `name` is a processor that LLVM knows, or "native", this machine; of
  /// another architecture with its triple, as "aarch64-linux-gnu:neoverse-n1".
  /// The error of an unknown one lists those known.
  static llvm::Expected<CpuTarget> get(StringRef name);

  /// A machine that writes position-independent code for this target.
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createMachine() const;
};

class ObjectCache;

/// Writes model libraries. Its needs of the machine are looked up at creation,
/// before any compilation.
class LibraryWriter {
public:
  /// `tool` begins the name of the folder for temporary files. Errors name what
  /// the machine lacks: a linker for `triple` in PATH, or a TMPDIR that can be
  /// written.
  static optimus_support::StatusOr<LibraryWriter>
  create(const std::string &tool, const llvm::Triple &triple);

  /// Compiles a module of the LLVM dialect, as --optimus-exec-to-llvm leaves
  /// it, optimised for `target` to a shared library at `path`, which appears
  /// complete or not at all. `kernels` are the object files of its kernels,
  /// where they were compiled before; `check` has the last word before the
  /// library appears, and its failure is returned; `cache`, if any, has code
  /// that is in all libraries. Else the error is Internal if the
  /// module is not what it must be, and Unavailable if the machine cannot (a
  /// full disk).
  optimus_support::Status
  write(ModuleOp module, const CpuTarget &target, const std::string &path,
        std::vector<std::string> kernels = {},
        llvm::function_ref<optimus_support::Status()> check = nullptr,
        const ObjectCache *cache = nullptr);

  /// Compiles the kernels of a library, as --optimus-kernels-to-llvm leaves
  /// them, and returns the path of the object file. Another thread may write
  /// the module of another context meanwhile.
  optimus_support::StatusOr<std::string>
  compileKernels(ModuleOp kernels, const CpuTarget &target) const {
    return compile(kernels, target, "optimus-kernels");
  }

  /// Makes a shared library of other code for this machine's kind of processor
  /// and returns its bytes.
  optimus_support::StatusOr<std::string> build(LLVMCode &code);

private:
  /// These return the path of what they wrote, among the temporary files.
  optimus_support::StatusOr<std::string>
  compile(ModuleOp module, const CpuTarget &target, StringRef name) const;
  optimus_support::StatusOr<std::string>
  compileMemoryFunctions(const CpuTarget &target) const;
  optimus_support::StatusOr<std::string> writeObject(LLVMCode &code,
                                                     StringRef name) const;
  optimus_support::StatusOr<std::string>
  link(const std::vector<std::string> &objects,
       const std::vector<StringRef> &flags);

  /// Whether the linker is run by way of a compiler, which has flags of its
  /// own.
  bool isCompiler() const;

  std::string linker; ///< found in PATH
  std::unique_ptr<optimus_support::ScratchFolder> scratch;
};

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CPU_CODEGEN_H
