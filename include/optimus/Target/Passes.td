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

def ChainLaunchesPass : Pass<"optimus-chain-launches", "::mlir::ModuleOp"> {
  let summary = "Lets one launch do what launches after each other do to the same rows";
  let description = [{
    Runs after `--optimus-to-exec`, where the target has a row in a cache while a launch does
    it. Consecutive launches become one where each reads rows written by an
    earlier one, row by row: dropout, the residual's sum and the norm of a
    transformer. A launch of elements does them as rows then. What is passed on
    is stored as before; who reads it has it from the cache. What is computed
    has the same bits.

    A sum of columns joins launches whose rows it reads, if the target does a few rows by turns as rows and as
    columns: the launch stores the sums of each few rows, and another one adds these, in another order than before.

    ```mlir
    exec.launch @add_64(read %x : memref<64xf32>, read %r : memref<64xf32>, write %s : memref<64xf32>)
    exec.launch @rms_norm_8x8_3ee4f8b588e368f1(read %s : memref<64xf32>, read %g : memref<8xf32>,
      write %y : memref<64xf32>, write %rstd : memref<8xf32>)
    // becomes
    exec.launch @chain_add_8x8_rms_norm_8x8_3ee4f8b588e368f1_0123456789ABCDEF(read %x : memref<64xf32>,
      read %r : memref<64xf32>, write %s : memref<64xf32>, read %g : memref<8xf32>,
      write %y : memref<64xf32>, write %rstd : memref<8xf32>)
    ```
  }];
  let dependentDialects = [
    "::mlir::exec::ExecDialect", "::mlir::func::FuncDialect", "::mlir::optimus::OptimusDialect"
  ];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"",
           "The device that the program is for: cpu or cuda">
  ];
  let statistics = [
    Statistic<"numChained", "chained", "Number of launches that became part of another">,
    Statistic<"numChains", "chains", "Number of launches of several kernels">,
    Statistic<"savedBytes", "saved-bytes", "Bytes that a cache has instead of memory">
  ];
}

def SumInProductsPass : Pass<"optimus-sum-in-products", "::mlir::ModuleOp"> {
  let summary = "Has the product of a weight's gradient sum the gradient of the bias";
  let description = [{
    Runs after `--optimus-chain-launches`, where the target's products have such an
    epilogue. A launch that does nothing but sum the rows of dY becomes part of the
    product behind it with dY as B: dW = Xᵀ·dY reads the rows anyway. Its kernel stays
    with the product, for a library without the epilogue.

    Products of f32 are left as they are.

    ```mlir
    exec.launch @sum_leading_x_bf16_512x192(read %dy : memref<98304xbf16>, write %db : memref<192xf32>)
    exec.gemm %x, %dy, %dw {m = 64, n = 192, k = 512, …, trans_a} : …
    // becomes
    exec.gemm %x, %dy, %dw bias(%db : memref<192xf32>) {m = 64, n = 192, k = 512, …, trans_a,
      epilogue = #exec<epilogue bias_grad>, kernel = @sum_leading_x_bf16_512x192} : …
    ```
  }];
  let dependentDialects = ["::mlir::exec::ExecDialect"];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"",
           "The device that the program is for: cpu or cuda">
  ];
  let statistics = [
    Statistic<"numSums", "sums", "Number of launches that became part of a product">
  ];
}

def GroupLaunchesPass : Pass<"optimus-group-launches", "::mlir::ModuleOp"> {
  let summary = "Lets one launch do what many launches do to a tensor each";
  let description = [{
    Runs after `--optimus-to-exec`, where the target's launches take several
    pieces: launches of kernels that differ in their extents alone, and are
    independent, become one. Each piece keeps its buffers, those read by all are
    handed over once, and so are the in-place ones of a kernel. What is computed
    has the same bits.

    Launches that are not next to each other are moved together where no command in between
    minds, and where no more than 64 KiB are in use for longer.

    ```mlir
    exec.launch @sgd_64(read %p : memref<64xf32>, read %g : memref<64xf32>, …)
    exec.launch @sgd_16(read %q : memref<16xf32>, read %h : memref<16xf32>, …)
    // becomes
    exec.launch @grouped_2_sgd_64_0123456789ABCDEF(read %scale : memref<1xf32>, …,
      update %p : memref<64xf32>, read %g : memref<64xf32>, …, update %q : memref<16xf32>, …)
    ```
  }];
  let dependentDialects = [
    "::mlir::exec::ExecDialect", "::mlir::func::FuncDialect", "::mlir::optimus::OptimusDialect"
  ];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"",
           "The device that the program is for: cpu or cuda">
  ];
  let statistics = [
    Statistic<"numGrouped", "grouped", "Number of launches that became part of another">,
    Statistic<"numGroups", "groups", "Number of launches of several pieces">
  ];
}

def BuildKernelsPass : Pass<"optimus-build-kernels", "::mlir::ModuleOp"> {
  let summary = "Writes the kernels that launches name";
  let description = [{
    Runs after `--optimus-to-exec`, which declares kernels: `exec.computes` says what
    each is to compute. The target's schedule says how: the pass writes the bodies,
    and gives every launch its extent and grain. It also names kernels for
    reductions among ranks on one device, and for copies of rows that lie apart. A launch must touch its buffers as
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
