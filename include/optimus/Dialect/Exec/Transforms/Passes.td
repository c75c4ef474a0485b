//===- Passes.td - Passes on the device program ------------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_TRANSFORMS_PASSES
#define OPTIMUS_DIALECT_EXEC_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def PlaceBuffersPass : Pass<"optimus-place-buffers", "::mlir::func::FuncOp"> {
  let summary = "Places every buffer of a function in one arena";
  let description = [{
    A buffer lives from the first to the last command that touches it or a
    view of it; one that a collective touches lives until its `exec.wait`. The
    planner gives offsets to these live ranges, and each `exec.alloc` becomes an
    `exec.arena_slot` of the arena, a new first argument of the function. An allocation
    that nothing uses goes.

    On the function it leaves `exec.arena_bytes`, `exec.lower_bound_bytes` (the most bytes
    alive at once), `exec.peak_bytes` (these, by category), `exec.communication` (counted
    as `docs/manifest.md` says) and `exec.commands`.

    ```mlir
    func.func @f(%out: memref<64xf32>) {
      %0 = exec.alloc "activation" : memref<64xf32>
    // becomes
    func.func @f(%arena: memref<256xi8>, %out: memref<64xf32>) attributes {exec.arena_bytes = 256 : i64, …} {
      %0 = exec.arena_slot %arena[0] "activation" : memref<256xi8> to memref<64xf32>
    ```
  }];
  let dependentDialects = ["::mlir::exec::ExecDialect"];
  let options = [
    Option<"noReuse", "no-reuse", "bool", "false",
           "Give every buffer memory of its own, to find out whether a fault "
           "comes from placement">
  ];
  let statistics = [
    Statistic<"numBuffers", "buffers", "Number of buffers placed">,
    Statistic<"numArenaBytes", "arena-bytes", "Bytes of the arenas">,
    Statistic<"numLowerBoundBytes", "lower-bound-bytes", "Most bytes alive at once">
  ];
}

def VerifyExecPass : Pass<"optimus-verify-exec", "::mlir::func::FuncOp"> {
  let summary = "Checks what no single command can check of the device program";
  let description = [{
    * (V1) between start and wait of a collective nothing writes its source or
      touches its destination;
    * (V2) a wait follows its start in the same block;
    * (V3) no two buffers that are alive together overlap in the arena;
    * (V4) commands are all numbered, or none is, and then in order, from 0.
  }];
}

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_PASSES
