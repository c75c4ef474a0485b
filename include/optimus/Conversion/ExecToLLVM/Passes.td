//===- Passes.td - From the device program to LLVM ---------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_EXECTOLLVM_PASSES
#define OPTIMUS_CONVERSION_EXECTOLLVM_PASSES

include "mlir/Pass/PassBase.td"

def ExecToLLVMPass : Pass<"optimus-exec-to-llvm", "::mlir::ModuleOp"> {
  let summary = "Lowers the device program and its kernels to the LLVM dialect";
  let description = [{
    The result has the binary interface of
    `support/include/optimus-support/model_abi.h`:

    * a public function of commands becomes `i32 (ptr rank, ptr arena, ptr args)`. Every
      command is a call through the runtime's table; its descriptor is a
      constant, and a status other than 0 is returned at once;
    * a kernel, a function with `exec.kernel`, takes plain pointers, and a
      wrapper with the type of `optrt_kernel` unpacks its arguments;
    * `optimus_model_query` checks the version, keeps the table and returns the
      model: the functions, in the module's order, and the manifest, which is the text of the module
      attribute `exec.manifest`, empty where that is absent.

    Fails on a command without number, on a buffer without place in the arena,
    and on a mesh axis that the module's `optimus.mesh` lacks.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::cf::ControlFlowDialect"];
  let statistics = [
    Statistic<"numCalls", "calls", "Number of calls to the runtime">,
    Statistic<"numDescriptors", "descriptors", "Number of distinct descriptors">
  ];
}

#endif // OPTIMUS_CONVERSION_EXECTOLLVM_PASSES
