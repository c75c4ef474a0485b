//===- ProgramActionOpInterface.td - Commands in tables ----*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_EXECTOPROGRAM_PROGRAMACTIONOPINTERFACE
#define OPTIMUS_CONVERSION_EXECTOPROGRAM_PROGRAMACTIONOPINTERFACE

include "mlir/IR/OpBase.td"

def ProgramActionOpInterface : OpInterface<"ProgramActionOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    A command that is one action of `support/schema/program.fbs`. Operations get
    it as an external model.
  }];
  let methods = [
    InterfaceMethod<[{
        Writes the action and what it touches. Queue, edges and origin are there
        already. Fails with a message on the operation.
      }],
      "::llvm::LogicalResult", "setAction",
      (ins "::mlir::optimus::FunctionBuilder &":$builder,
           "::optimus_support::program::CommandT &":$command)>
  ];
}

#endif // OPTIMUS_CONVERSION_EXECTOPROGRAM_PROGRAMACTIONOPINTERFACE
