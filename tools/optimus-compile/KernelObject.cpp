//===- KernelObject.cpp - Kernels compiled beside the rest ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelObject.h"

#include "optimus/Conversion/ExecToLLVM/Passes.h"
#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::internal;
using optimus_support::StatusOr;

/// The kernels of a module and the tables that they read, as bytecode: a thread
/// has a context of its own, so that nobody waits for another's types and
/// attributes.
static std::string writeKernels(ModuleOp module) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  for (Operation &op : *module.getBody())
    if (op.hasAttr(exec::ExecDialect::kKernel) || isa<memref::GlobalOp>(op))
      kernels->push_back(op.clone());
  std::string bytes;
  llvm::raw_string_ostream stream(bytes);
  [[maybe_unused]] LogicalResult written =
      writeBytecodeToFile(*kernels, stream);
  assert(succeeded(written) && "no older version of bytecode is asked for");
  return bytes;
}

static StatusOr<std::string> compileKernels(const std::string &bytes,
                                            const DialectRegistry &registry,
                                            const CpuTarget &target,
                                            const LibraryWriter &writer) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  const ParserConfig config(&context, /*verifyAfterParse=*/false);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(bytes, config);
  if (!module)
    return internal("kernels cannot be read as they were written");
  auto passes = PassManager::on<ModuleOp>(&context);
  passes.addPass(createKernelsToLLVMPass());
  if (failed(passes.run(*module)))
    return internal("kernels cannot be lowered");
  return writer.compileKernels(*module, target);
}

KernelObject::KernelObject(ModuleOp module, const CpuTarget &target,
                           const LibraryWriter &writer, TimingScope &timing) {
  DialectRegistry registry;
  module.getContext()->getDialectRegistry().appendTo(registry);
  object = std::async(std::launch::async, [bytes = writeKernels(module),
                                           registry = std::move(registry),
                                           &target, &writer, &timing] {
    TimingScope compiling = timing.nest("Kernels");
    return compileKernels(bytes, registry, target, writer);
  });
}
