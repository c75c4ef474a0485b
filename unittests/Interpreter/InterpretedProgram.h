//===- InterpretedProgram.h - A program to be interpreted -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_UNITTESTS_INTERPRETER_INTERPRETEDPROGRAM_H
#define OPTIMUS_UNITTESTS_INTERPRETER_INTERPRETEDPROGRAM_H

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Interpreter/InterpretableOpInterface.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

namespace mlir::optimus {

/// The program of a file, null after an error, whose operations can be
/// interpreted.
class InterpretedProgram {
protected:
  explicit InterpretedProgram(StringRef path) {
    DialectRegistry registry;
    registry.insert<OptimusDialect, ccl::CCLDialect, arith::ArithDialect,
                    func::FuncDialect>();
    registerInterpreterModels(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    program = parseSourceFile<ModuleOp>(path, &context);
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> program;
};

} // namespace mlir::optimus

#endif // OPTIMUS_UNITTESTS_INTERPRETER_INTERPRETEDPROGRAM_H
