//===- Example.cpp - A compiler with a dialect from outside ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Example.h"

#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.h"
#include "optimus/Tool/CompilerMain.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace example;

#include "ExampleDialect.cpp.inc"
#define GET_OP_CLASSES
#include "SquaredRelu.cpp.inc"

void ExampleDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "SquaredRelu.cpp.inc"
      >();
  attachElementwiseLowerings(*getContext());
}

int main(int argc, char **argv) {
  DialectRegistry extensions;
  extensions.insert<ExampleDialect>();
  return compilerMain(argc, argv, extensions);
}
