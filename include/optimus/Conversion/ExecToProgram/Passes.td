//===- Passes.td - The device program as tables -----------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_EXECTOPROGRAM_PASSES
#define OPTIMUS_CONVERSION_EXECTOPROGRAM_PASSES

include "mlir/Pass/PassBase.td"

def PrintCommandsPass : Pass<"optimus-print-commands", "::mlir::ModuleOp"> {
  let summary = "Prints the tables of commands that a library would carry";
  let description = [{
    The table of every function of commands as `optimus-run inspect --commands` prints it,
    after the checks that a runtime makes when it loads one: indices, bounds on
    every rank of the mesh, shapes, and an order by queues and edges between any
    two commands on the same memory. The module stays as it is.

    ```mlir
    func.func @f(%arg0: memref<0xi8>, …) {
      exec.gemm %arg1, %arg2, %arg4 bias(%arg3 : memref<4xf32>) {id = 0 : i32, queue = "compute", …} : …
    // prints
    function f: arena0 of 0 bytes (device)
    0 compute: gemm 8x4x16 read a=arg0[0]:128f32 read b=arg1[0]:64f32 write c=arg3[0]:32f32 read bias=arg2[0]:4f32 …
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"",
           "The device that the program is for: cpu or cuda">,
    Option<"rank", "rank", "int64_t", "-1",
           "Print addresses and numbers of this rank (default: for all ranks)">
  ];
}

#endif // OPTIMUS_CONVERSION_EXECTOPROGRAM_PASSES
