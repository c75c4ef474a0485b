//===- KernelFunctions.cpp - Kernels in a module ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/KernelFunctions.h"

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace mlir::optimus;
using exec::ExecDialect;

KernelDeclarations::KernelDeclarations(ModuleOp module) : module(module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(ExecDialect::kKernel))
      known[function.getSymName()] = function;
}

func::FuncOp KernelDeclarations::declare(const Kernel &kernel,
                                         const KernelDescription &description) {
  std::string name = description.getName();
  func::FuncOp &function = known[name];
  if (!function) {
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    function = func::FuncOp::create(b, NameLoc::get(b.getStringAttr(name)),
                                    name, description.getFunctionType());
    function.setPrivate();
    function->setAttr(ExecDialect::kKernel, b.getUnitAttr());
    function->setAttr(ExecDialect::kComputes,
                      kernel.getParameters(b.getContext()));
  }
  return function;
}

/// The element types of the buffers among a kernel's arguments.
static SmallVector<Type> getElementTypes(func::FuncOp function) {
  SmallVector<Type> types;
  for (Type type : function.getArgumentTypes())
    if (auto buffer = dyn_cast<MemRefType>(type))
      types.push_back(buffer.getElementType());
  return types;
}

/// The kernel that a function is to compute, and what it takes.
static FailureOr<std::pair<Kernel, KernelDescription>>
readKernel(func::FuncOp function) {
  auto emitError = [&] { return function.emitOpError(); };
  auto parameters =
      function->getAttrOfType<DictionaryAttr>(ExecDialect::kComputes);
  if (!parameters)
    return emitError() << "is a kernel without '" << ExecDialect::kComputes
                       << "', which says what it computes";
  FailureOr<Kernel> kernel = Kernel::read(parameters, emitError);
  if (failed(kernel))
    return failure();
  KernelDescription description = kernel->describe(function.getContext());
  FunctionType plain = description.getFunctionType();
  if (failed(description.setElementTypes(getElementTypes(function))) ||
      description.getFunctionType() != function.getFunctionType())
    return emitError() << "computes what needs the type " << plain
                       << ", where floats may be narrower, but has the type "
                       << function.getFunctionType();
  return std::pair(std::move(*kernel), std::move(description));
}

FailureOr<KernelDescription>
mlir::optimus::describeKernel(func::FuncOp function) {
  auto read = readKernel(function);
  if (failed(read))
    return failure();
  return std::move(read->second);
}

FailureOr<ScheduledKernel>
mlir::optimus::buildKernel(func::FuncOp function,
                           const KernelSchedule &schedule) {
  auto read = readKernel(function);
  if (failed(read))
    return failure();
  auto &[kernel, description] = *read;
  const IterationSpace &space = description.getSpace();
  if (!space.pieces.empty() && !schedule.getPieces())
    return function.emitOpError()
           << "does several pieces, which the launches of this target do not; "
              "launch each of them";
  if (space.together > 0 && !schedule.getRowGroups())
    return function.emitOpError()
           << "sums columns of rows that it makes, which the launches of this "
              "target do not; launch each kernel";
  if (function.isExternal()) {
    OpBuilder b = OpBuilder::atBlockEnd(function.addEntryBlock());
    func::ReturnOp::create(b, function.getLoc());
    KernelBuilder builder(function, description, schedule);
    kernel.build(builder);
  }
  KernelExtent extent = schedule.getExtent(space);
  return ScheduledKernel{std::move(description), extent};
}
