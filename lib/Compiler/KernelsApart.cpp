//===- KernelsApart.cpp - Kernels compiled beside the rest ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelsApart.h"

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::internal;
using optimus_support::Status;

KernelBytecode::KernelBytecode(ModuleOp module) {
  module.getContext()->getDialectRegistry().appendTo(registry);
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  for (Operation &op : *module.getBody())
    if (op.hasAttr(exec::ExecDialect::kKernel) || isa<memref::GlobalOp>(op))
      kernels->push_back(op.clone());
  llvm::raw_string_ostream stream(bytes);
  [[maybe_unused]] LogicalResult written =
      writeBytecodeToFile(*kernels, stream);
  assert(succeeded(written) && "no older version of bytecode is asked for");
}

Status KernelBytecode::read(llvm::function_ref<Status(ModuleOp)> build) const {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  // Nobody reads the diagnostics of this context.
  std::string error;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && error.empty())
      error = diagnostic.str();
    return success();
  });
  const ParserConfig config(&context, /*verifyAfterParse=*/false);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(bytes, config);
  if (!module)
    return internal("kernels cannot be read as they were written");
  Status status = build(*module);
  return status.ok() ? status : status.withAdvice(error);
}
