//===- Passes.td - Kernels for NVIDIA's GPUs ---------------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CUDA_PASSES
#define OPTIMUS_TARGET_CUDA_PASSES

include "mlir/Pass/PassBase.td"

def KernelsToNVVMPass : Pass<"optimus-kernels-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "Lowers the kernels of a module to LLVM and NVVM";
  let description = [{
    Runs after `--optimus-build-kernels=target=cuda`, and leaves nothing but the
    kernels and their tables. A kernel takes the number of its iterations, then
    pointers to its buffers, which begin at multiples of 16 bytes, and its scalars. One of
    several pieces takes these pointers as one array, by value.

    ```mlir
    func.func private @gelu_4096(index, index, memref<4096xf32>, memref<4096xf32>)
      attributes {exec.kernel, exec.computes = {…}} {…}
    // becomes
    llvm.func @gelu_4096(i64, !llvm.ptr {llvm.align = 16 : i64}, !llvm.ptr {llvm.align = 16 : i64})
      attributes {nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 256>} {…}
    ```
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::cf::ControlFlowDialect", "::mlir::optimus::OptimusDialect"
  ];
}

#endif // OPTIMUS_TARGET_CUDA_PASSES
