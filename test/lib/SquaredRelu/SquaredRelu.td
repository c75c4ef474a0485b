//===- SquaredRelu.td - An operation from outside ----------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

include "Example.td"
include "optimus/Kernels/ElementwiseBodyOpInterface.td"

class Example_Op<string mnemonic, list<Trait> traits = []> : Op<Example_Dialect, mnemonic,
    !listconcat([Pure, SameOperandsAndResultType, Optimus_Precisions<["Same"], ["Same"]>,
                 DeclareOpInterfaceMethods<ShardingRuleOpInterface>,
                 DeclareOpInterfaceMethods<ElementwiseBodyOpInterface>], traits)> {
  let arguments = (ins Optimus_FloatTensor:$input);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

/// max(x, 0)², and its derivative 2·max(x, 0).
def Example_SquaredReluOp : Example_Op<"squared_relu", [
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]>;
def Example_SquaredReluSlopeOp : Example_Op<"squared_relu_slope">;
