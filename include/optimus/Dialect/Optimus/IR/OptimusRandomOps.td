//===- OptimusRandomOps.td - Operations that draw numbers --*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_RANDOMOPS
#define OPTIMUS_DIALECT_OPTIMUS_RANDOMOPS

include "optimus/Dialect/Optimus/IR/OptimusOpBase.td"

def Optimus_DropoutOp : Optimus_DifferentiableOp<"dropout", [
    Optimus_Precisions<["Same", "Any"], ["Same"]>,
    DeclareOpInterfaceMethods<StochasticOpInterface>,
    Optimus_Facts<["getStandIn"]>, Optimus_ResultTypes<["adaptor.getX()"]>]> {
  let summary = "Zeroes elements at random and enlarges the others";
  let description = [{
    An element is kept and divided by 1 − `rate`, or becomes 0 with probability
    `rate`. The choice is a function of the seed, the step, `stream` and the
    element's index in the *whole* tensor alone. So every mesh drops the same
    elements, and the gradient is the same operation on the gradient of the
    result: no mask is stored. `docs/dropout.md` defines the draws.

    `random` holds the words of a step: the seed's low and high half, the
    step's, and the number m of the microbatch, which makes of index e of a
    tensor of n elements m·n + e: microbatches follow each other along the
    first dimension.

    ```mlir
    %y = optimus.dropout %x, %random {rate = 0.1 : f64, stream = 16777216 : i64}
      : (tensor<2x8x16xf32>, tensor<5xi32>) -> tensor<2x8x16xf32>
    ```

    Constraints: (C1) the result has the shape and the element type of x, which is no scalar; (C2)
    random has 5 words; (C3) the rate is at least 0 and below 1; (C4) the
    stream is at least 0 and below the reserved ones.
  }];
  let arguments = (ins Optimus_FloatTensor:$x, Optimus_IndexTensor:$random,
                       F64Attr:$rate, I64Attr:$stream);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$x `,` $random attr-dict `:` functional-type(operands, results)";
}

#endif // OPTIMUS_DIALECT_OPTIMUS_RANDOMOPS
