//===- Example.td - A dialect from outside -----------------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

include "optimus/Dialect/Optimus/IR/OptimusOpBase.td"

def Example_Dialect : Dialect {
  let name = "example";
  let cppNamespace = "::example";
  let dependentDialects = ["::mlir::optimus::OptimusDialect"];
}
