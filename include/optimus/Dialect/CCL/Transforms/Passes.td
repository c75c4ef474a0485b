//===- Passes.td - Passes on what one rank does ------------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES
#define OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def VerifyPartitionPass : Pass<"optimus-verify-partition", "::mlir::func::FuncOp"> {
  let summary = "Checks that local operations mean on parts what they mean on whole tensors";
  let description = [{
    Collectives and distributed products verify their own types. This pass
    checks those of every `optimus` operation (`#ccl.local` C3 and C4) and holds
    it against its sharding rule:

    * (V1) a factor has one whole extent, and the same axes cut it, wherever it
      occurs;
    * (V2) a factor that is reduced in the middle of the operation, or that is
      never cut, is whole;
    * (V3) a result is unreduced over exactly the axes that cut what does not
      reach it: no addend is read as a sum, and no sum is taken for an addend;
    * (V4) only what is linear in an operand takes addends there, and what adds
      operands up takes all of them as addends over the same axes, so that
      none is counted twice;
    * (V5) nothing unreduced leaves the function.

    ```mlir
    // error: V5: the reduction over "row" is missing
    %db = optimus.sum_leading %dy : (tensor<4x8xf32, …{"row"}…>) -> tensor<8xf32, …unreduced = {"row"}…>
    return %db
    ```
  }];
  let statistics = [
    Statistic<"numChecked", "operations-checked",
              "Local operations held against their rules">
  ];
}

#endif // OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES
