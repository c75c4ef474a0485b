//===- InterpreterInterfaces.td - Operations to interpret --*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_INTERPRETER_INTERFACES
#define OPTIMUS_INTERPRETER_INTERFACES

include "mlir/IR/OpBase.td"

def InterpretableOpInterface : OpInterface<"InterpretableOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation that the interpreter can execute. Operations get it as an
    external model, so that dialects know nothing of the interpreter.
  }];
  let methods = [
    InterfaceMethod<[{
        Executes the operation on all ranks: reads the parts of its operands
        and sets those of its results. Fails with an error on the operation.
      }],
      "::llvm::LogicalResult", "interpret",
      (ins "::mlir::optimus::Ranks &":$ranks)>
  ];
}

#endif // OPTIMUS_INTERPRETER_INTERFACES
