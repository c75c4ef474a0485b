//===- ModelsTest.cpp - What can be lowered and written ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Conversion/ExecToProgram/ProgramActionOpInterface.h"
#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.h"
#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::optimus;

/// A context with all models.
static std::unique_ptr<MLIRContext> makeContext() {
  DialectRegistry registry;
  registry.insert<OptimusDialect, ccl::CCLDialect, exec::ExecDialect>();
  registerExecLowerings(registry);
  registerProgramActions(registry);
  auto context = std::make_unique<MLIRContext>(registry);
  context->loadAllAvailableDialects();
  return context;
}

// An operation that is added to a dialect needs a lowering.
TEST(LoweringModels, EveryOperationHasOne) {
  std::unique_ptr<MLIRContext> context = makeContext();
  int numFound = 0;
  for (RegisteredOperationName name : context->getRegisteredOperations()) {
    StringRef dialect = name.getDialectNamespace();
    // The mesh is a declaration; partition leaves no reshard.
    if ((dialect != "optimus" && dialect != "ccl") ||
        name.getStringRef() == MeshOp::getOperationName() ||
        name.getStringRef() == ReshardOp::getOperationName())
      continue;
    EXPECT_TRUE(name.hasInterface<ExecLoweringOpInterface>())
        << name.getStringRef().str() << " cannot be lowered";
    ++numFound;
  }
  EXPECT_GT(numFound, 40);
}

TEST(ProgramActions, EveryCommandHasOne) {
  std::unique_ptr<MLIRContext> context = makeContext();
  int numFound = 0;
  for (RegisteredOperationName name : context->getRegisteredOperations()) {
    if (!name.hasInterface<exec::CommandOpInterface>())
      continue;
    EXPECT_TRUE(name.hasInterface<ProgramActionOpInterface>())
        << name.getStringRef().str() << " has no place in a table";
    ++numFound;
  }
  EXPECT_EQ(numFound, 9);
}
