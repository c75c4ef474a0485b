//===- Passes.td - What a target makes of the program ------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_PASSES
#define OPTIMUS_TARGET_PASSES

include "mlir/Pass/PassBase.td"

def BuildKernelsPass : Pass<"optimus-build-kernels", "::mlir::ModuleOp"> {
  let summary = "Writes the kernels that launches name";
  let description = [{
    Runs after `--optimus-to-exec`, which declares kernels: `exec.computes` says what
    each is to compute. The target's schedule says how: the pass writes the bodies,
    and gives every launch its extent and grain. A launch must touch its buffers as
    its kernel does, and name one buffer twice only where the kernel works in place.

    ```mlir
    exec.launch @gelu_4096(read %x : memref<4096xf32>, write %y : memref<4096xf32>)
    func.func private @gelu_4096(index, index, memref<4096xf32>, memref<4096xf32>)
      attributes {exec.kernel, exec.computes = {kind = "elementwise", op = "optimus.gelu",
        rows = 1 : i64, cols = 4096 : i64, repeats = array<i64: 0>, results = 1 : i64}}
    // becomes
    exec.launch @gelu_4096 extent 1 grain 4(read %x : memref<4096xf32>, write %y : memref<4096xf32>)
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::exec::ExecDialect",
    "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::optimus::OptimusDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"",
           "The device that the kernels are for: cpu or cuda">
  ];
  let statistics = [
    Statistic<"numKernels", "kernels", "Number of kernels written">,
    Statistic<"numLaunches", "launches", "Number of launches">
  ];
}

#endif // OPTIMUS_TARGET_PASSES
