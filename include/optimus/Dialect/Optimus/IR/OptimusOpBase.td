//===- OptimusOpBase.td - What operations share ------------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_OPBASE
#define OPTIMUS_DIALECT_OPTIMUS_OPBASE

include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "optimus/Dialect/Optimus/IR/OptimusAttrs.td"
include "optimus/Dialect/Optimus/IR/OptimusInterfaces.td"

def Optimus_FloatTensor : Optimus_TensorOf<[F32]>;
def Optimus_IndexTensor : Optimus_TensorOf<[I32]>;
def Optimus_FloatScalar : TensorRankOf<[F32], [0]>;

class Optimus_Op<string mnemonic, list<Trait> traits = []>
    : Op<Optimus_Dialect, mnemonic, traits>;

/// An operation on whole tensors without side effects.
class Optimus_TensorOp<string mnemonic, list<Trait> traits = []>
    : Optimus_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<ShardingRuleOpInterface>], traits)> {
  let hasVerifier = 1;
}

class Optimus_DifferentiableOp<string mnemonic, list<Trait> traits = []>
    : Optimus_TensorOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<DifferentiableOpInterface>], traits)>;

#endif // OPTIMUS_DIALECT_OPTIMUS_OPBASE
