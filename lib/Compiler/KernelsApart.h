//===- KernelsApart.h - Kernels compiled beside the rest --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_COMPILER_KERNELSAPART_H
#define OPTIMUS_LIB_COMPILER_KERNELSAPART_H

#include "optimus-support/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/Timing.h"

#include <functional>
#include <future>

namespace mlir::optimus {

/// The kernels of a module and the tables that they read, as bytecode: whoever
/// compiles them has a context of its own, so that nobody waits for another's
/// types and attributes.
class KernelBytecode {
public:
  explicit KernelBytecode(ModuleOp module);

  /// Reads them in a context without threads, and hands them to `build`.
  optimus_support::Status
  read(llvm::function_ref<optimus_support::Status(ModuleOp)> build) const;

private:
  DialectRegistry registry;
  std::string bytes;
};

/// The machine code of a program's kernels, made on a thread of its own: the
/// kernels are known once a program is lowered to commands, and its later use
/// does not change them.
template <typename Code>
class KernelsApart {
public:
  using BuildFn = std::function<optimus_support::StatusOr<Code>(ModuleOp)>;

  /// Begins with the kernels of `module`, which the caller may change at once;
  /// waits with them for wait() in a context without threads. What `build`
  /// takes is counted below `timing`, by the thread. Both outlive this.
  KernelsApart(ModuleOp module, TimingScope &timing, BuildFn build) {
    bool hasThreads = module.getContext()->isMultithreadingEnabled();
    code =
        std::async(hasThreads ? std::launch::async : std::launch::deferred,
                   [kernels = KernelBytecode(module), build = std::move(build),
                    &timing]() -> optimus_support::StatusOr<Code> {
                     TimingScope compiling = timing.nest("Kernels");
                     Code result;
                     OPTRT_RETURN_IF_ERROR(kernels.read(
                         [&](ModuleOp module) -> optimus_support::Status {
                           OPTRT_ASSIGN_OR_RETURN(result, build(module));
                           return optimus_support::okStatus();
                         }));
                     return result;
                   });
  }

  /// Returns the code once it is there.
  optimus_support::StatusOr<Code> wait() { return code.get(); }

private:
  std::future<optimus_support::StatusOr<Code>> code;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_COMPILER_KERNELSAPART_H
