//===- OptimusInterfaces.td - Interfaces of operations on tensors --*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_INTERFACES
#define OPTIMUS_DIALECT_OPTIMUS_INTERFACES

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    Relates the dimensions of an operation's operands and results, as an einsum
    does. Propagation, partitioning and padding are written once over it.
  }];
  let methods = [
    InterfaceMethod<"The rule of this operation.",
      "::mlir::optimus::ShardingRule", "getShardingRule">
  ];
}

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation that can build its gradient. `buildGradient` is called in
    reverse program order with the gradients of its results (null where a
    result has none). It adds the gradients of its operands to the
    accumulator. The forward operation may be replaced by a form that also
    yields what the gradient needs.
  }];
  let methods = [
    InterfaceMethod<"Builds the gradient of the operands.",
      "::llvm::LogicalResult", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder,
           "::llvm::ArrayRef<::mlir::Value>":$resultGradients,
           "::mlir::optimus::GradientAccumulator &":$gradients)>
  ];
}

def StochasticOpInterface : OpInterface<"StochasticOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation with one result that depends on random numbers. Training
    draws them; an evaluation computes with the expected value.
  }];
  let methods = [
    InterfaceMethod<"The operand that the result is on average.",
      "::mlir::Value", "getExpectedValue">
  ];
}

#endif // OPTIMUS_DIALECT_OPTIMUS_INTERFACES
