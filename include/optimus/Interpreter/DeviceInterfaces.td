//===- DeviceInterfaces.td - Commands and kernels to interpret -*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_INTERPRETER_DEVICEINTERFACES
#define OPTIMUS_INTERPRETER_DEVICEINTERFACES

include "mlir/IR/OpBase.td"

def InterpretableCommandOpInterface : OpInterface<"InterpretableCommandOpInterface"> {
  let cppNamespace = "::mlir::exec";
  let description = [{
    A command of the device program that the interpreter can execute. Commands
    get it as an external model.
  }];
  let methods = [
    InterfaceMethod<[{
        Executes the command on all ranks. What it does wrong to memory, the
        devices tell of; fails with an error on the command for all else.
      }],
      "::llvm::LogicalResult", "execute", (ins "::mlir::exec::Devices &":$devices)>
  ];
}

def InterpretableKernelOpInterface : OpInterface<"InterpretableKernelOpInterface"> {
  let cppNamespace = "::mlir::exec";
  let description = [{
    An operation in the body of a kernel that the interpreter can execute, as
    the processor does it: floats are rounded to their type after each.
  }];
  let methods = [
    InterfaceMethod<[{
        Reads its operands from the frame and sets its results there. Fails with
        an error on the operation.
      }],
      "::llvm::LogicalResult", "execute", (ins "::mlir::exec::KernelFrame &":$frame)>
  ];
}

#endif // OPTIMUS_INTERPRETER_DEVICEINTERFACES
