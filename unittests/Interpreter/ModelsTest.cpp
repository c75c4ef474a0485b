//===- ModelsTest.cpp - What the interpreter can execute --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Interpreter/DeviceInterfaces.h"
#include "optimus/Interpreter/DeviceInterpreter.h"
#include "optimus/Interpreter/InterpretableOpInterface.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::optimus;

// An operation added to a dialect needs a model, or programs with it have no
// reference.
TEST(InterpreterModels, EveryOperationHasOne) {
  DialectRegistry registry;
  registry.insert<OptimusDialect, ccl::CCLDialect, arith::ArithDialect>();
  registerInterpreterModels(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  int numFound = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations()) {
    StringRef dialect = name.getDialectNamespace();
    // The mesh is a declaration.
    if ((dialect != "optimus" && dialect != "ccl") ||
        name.getStringRef() == MeshOp::getOperationName())
      continue;
    EXPECT_TRUE(name.hasInterface<InterpretableOpInterface>())
        << name.getStringRef().str() << " cannot be interpreted";
    ++numFound;
  }
  EXPECT_GT(numFound, 30);
}

// Nor does a device program run that has a command without one.
TEST(InterpreterModels, EveryCommandHasOne) {
  DialectRegistry registry;
  registry.insert<exec::ExecDialect>();
  exec::registerDeviceInterpreterModels(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  int numFound = 0;
  for (RegisteredOperationName name : context.getRegisteredOperations()) {
    if (!name.hasInterface<exec::CommandOpInterface>())
      continue;
    EXPECT_TRUE(name.hasInterface<exec::InterpretableCommandOpInterface>())
        << name.getStringRef().str() << " cannot be interpreted";
    ++numFound;
  }
  EXPECT_EQ(numFound, 9);
}
