//===- Passes.td - From tensors to the device program ------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_TOEXEC_PASSES
#define OPTIMUS_CONVERSION_TOEXEC_PASSES

include "mlir/Pass/PassBase.td"

def FusePass : Pass<"optimus-fuse", "::mlir::func::FuncOp"> {
  let summary = "Lets products and norm gradients take in the sums around them";
  let description = [{
    Runs on tensors, just before `--optimus-to-exec`. Where a value has one use,

    * `optimus.add(matmul, bias)` becomes the product's `bias`;
    * `optimus.add(matmul, x)` of one shape becomes its `residual`;
    * `optimus.mul(matmul, x)` of one shape becomes its `scale`;
    * `optimus.add(dx, x)`, with dx of `optimus.layer_norm_grad` or
      `optimus.norm_grad_apply`, becomes its `residual`.

    Only local products take part: the partial sums of a `ccl.matmul` belong to its
    result, which is complete only after its last panel.

    ```mlir
    %0 = optimus.matmul %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %1 = optimus.add %0, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    // becomes
    %1 = optimus.matmul %x, %w bias(%b) : (tensor<8x16xf32>, tensor<16x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    ```
  }];
  let statistics = [
    Statistic<"numBiases", "biases", "Number of sums that became a bias">,
    Statistic<"numResiduals", "residuals", "Number of sums that became a residual">,
    Statistic<"numScales", "scales", "Number of products that became a scale">
  ];
}

def ToExecPass : Pass<"optimus-to-exec", "::mlir::ModuleOp"> {
  let summary = "Lowers functions on local tensors to commands on flat buffers";
  let description = [{
    Every function whose signature has tensors becomes one on flat buffers: its
    arguments stay in order, and after them comes an output argument for each
    result that is not donated to. A result with a donating argument
    (`optimus.donates`) is written into the argument's buffer; where that would
    need a copy, because the argument is used later or the operation cannot work
    in place, it is an error. Attributes of arguments stay; those of a result
    move to its output argument.

    Each tensor gets a buffer: that of an operand where this is the operand's
    last use and the operation can work in place, the output's if it is
    returned, else a new `exec.alloc`. Operations become commands: products
    `exec.gemm`, collectives an `exec.collective_start` followed at once by its `exec.wait`, and
    the rest launches of kernels, which the pass declares at the end of the module
    and `--optimus-build-kernels` writes.
    `ccl.matmul` is expanded into its panels here, and `optimus.head_loss` and its gradient
    into their chunks. Commands are numbered from 0 in each function.

    What depends on the device is asked of the target:
    the alignment of buffers, tokens in a chunk of the loss, the products of a
    parameter with a faster packed copy on the processor compiled for, the
    collectives of strided rows (other collectives get packed rows), the
    epilogues of a product (launches do the rest), and whether attention is a
    command or launches. Where the target has a library for attention, it is a
    command of that library, with the most workspace of it by the target. All
    other attention is launches. With `attention=builtin` no library is asked;
    with the library's name, attention beyond it is an error. A parameter is packed by one
    `exec.pack` for each layout, before the first product that reads it.

    Buffers are of category "activation" up to the loss, "gradient" after it,
    "narrow weight" and "packed weight" where a parameter gets another element type or layout,
    and "workspace" where an operation needs one for itself.

    ```mlir
    func.func @f(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
      %0 = optimus.matmul %x, %w bias(%b) : …
      %1 = optimus.gelu %0 : tensor<8x4xf32>
      return %1 : tensor<8x4xf32>
    }
    // becomes
    func.func @f(%x: memref<128xf32>, %w: memref<64xf32>, %b: memref<4xf32>, %out: memref<32xf32>) {
      exec.gemm %x, %w, %out bias(%b : memref<4xf32>) {id = 0 : i32, k = 16 : i64, …} : …
      exec.launch @gelu_32(read %out : memref<32xf32>, write %out : memref<32xf32>) {id = 1 : i32}
      return
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::exec::ExecDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect", "::mlir::memref::MemRefDialect",
    "::mlir::optimus::OptimusDialect"
  ];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"",
           "The device that the program is for: cpu or cuda">,
    Option<"cpu", "mcpu", "std::string", "\"generic\"",
           "The processor that the program is for">,
    Option<"attention", "attention", "std::string", "\"auto\"",
           "What computes attention: the target's library where it can and kernels elsewhere (auto), kernels alone (builtin), or a library alone, by its name (cudnn)">,
    Option<"deterministic", "deterministic", "bool", "false",
           "A library's attention adds in the same order always">,
    Option<"weights", "weights", "std::string", "\"activations\"",
           "How functions that generate text hold the weights of products and the table of tokens: as activations are, or int8 or int4: blocks of few bits">
  ];
  let statistics = [
    Statistic<"numCommands", "commands", "Number of commands">,
    Statistic<"numAllocations", "allocations", "Number of buffers allocated">,
    Statistic<"numInPlace", "in-place", "Number of results that took over an operand's buffer">,
    Statistic<"numPacked", "packed", "Number of packed copies of parameters">
  ];
}

#endif // OPTIMUS_CONVERSION_TOEXEC_PASSES
