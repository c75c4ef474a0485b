//===- OptimusPrecisionOps.td - Between element types ------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_PRECISIONOPS
#define OPTIMUS_DIALECT_OPTIMUS_PRECISIONOPS

include "optimus/Dialect/Optimus/IR/OptimusOpBase.td"

def Optimus_CastOp : Optimus_DifferentiableOp<"cast", [
    DeclareOpInterfaceMethods<ModelFactsOpInterface, ["getStandIn"]>,
    Optimus_SymbolicValue, Optimus_Rounding]> {
  let summary = "The same numbers with another element type";
  let description = [{
    Each element rounded to the nearest number of the result's type, of two the even
    one; NaN stays NaN. To a wider type it is exact. Its gradient is a cast back.

    A partial sum is never cast, although it is a linear map of numbers:
    rounding before a sum and rounding after it give different results. So casts
    are `Factor`s, and partitioning reduces their operand first.

    ```mlir
    %y = optimus.cast %x : (tensor<2x8x16xf32>) -> tensor<2x8x16xbf16>
    ```

    A cast to the type that the operand has folds away, and so does a cast back to it
    from a wider one: bf16 → f32 → bf16 is nothing, f32 → bf16 → f32 is not.

    Constraints: (C1) the result has the shape of the input.
  }];
  let arguments = (ins Optimus_FloatTensor:$input);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasFolder = 1;
}

#endif // OPTIMUS_DIALECT_OPTIMUS_PRECISIONOPS
