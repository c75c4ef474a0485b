//===- KernelFunctions.cpp - Kernels in a module ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/KernelFunctions.h"

#include "optimus/Kernels/KernelBuilder.h"

#include "llvm/ADT/StringSet.h"

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

exec::LaunchOp KernelDeclarations::launch(OpBuilder &b, Location location,
                                          const Kernel &kernel,
                                          KernelDescription description,
                                          ValueRange buffers,
                                          ValueRange scalars) {
  SmallVector<Type> types;
  for (Value buffer : buffers)
    types.push_back(cast<MemRefType>(buffer.getType()).getElementType());
  [[maybe_unused]] LogicalResult isSet = description.setElementTypes(types);
  assert(succeeded(isSet) && "no kernel for buffers of these types");
  SmallVector<int32_t> access;
  for (const KernelOperand &operand : description.getOperands())
    access.push_back(static_cast<int32_t>(operand.access));
  return exec::LaunchOp::create(
      b, location, declare(kernel, description).getSymName(),
      /*extent=*/IntegerAttr(), /*grain=*/IntegerAttr(), buffers, scalars,
      b.getDenseI32ArrayAttr(access), /*id=*/IntegerAttr(),
      /*queue=*/StringAttr(), /*after=*/DenseI32ArrayAttr());
}

void KernelDeclarations::take(ModuleOp apart) {
  for (auto function : llvm::make_early_inc_range(apart.getOps<func::FuncOp>()))
    if (known.try_emplace(function.getSymName(), function).second)
      function->moveBefore(module.getBody(), module.getBody()->end());
}

void KernelDeclarations::eraseUnused() {
  llvm::StringSet<> launched;
  module.walk(
      [&](exec::LaunchOp launch) { launched.insert(launch.getKernel()); });
  module.walk([&](exec::GemmOp gemm) {
    if (std::optional<StringRef> kernel = gemm.getKernel())
      launched.insert(*kernel);
  });
  for (auto &[name, function] : llvm::make_early_inc_range(known))
    if (!launched.contains(name)) {
      function.erase();
      known.erase(name);
    }
}

/// The element types of the buffers among a kernel's arguments.
static SmallVector<Type> getElementTypes(func::FuncOp function) {
  SmallVector<Type> types;
  for (Type type : function.getArgumentTypes())
    if (auto buffer = dyn_cast<MemRefType>(type))
      types.push_back(buffer.getElementType());
  return types;
}

FailureOr<DeclaredKernel> mlir::optimus::readKernel(func::FuncOp function) {
  auto emitError = [&] { return function.emitOpError(); };
  auto parameters =
      function->getAttrOfType<DictionaryAttr>(ExecDialect::kComputes);
  if (!parameters)
    return emitError() << "is a kernel without its definition, '"
                       << ExecDialect::kComputes << "'";
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
  return DeclaredKernel{std::move(*kernel), std::move(description)};
}

FailureOr<ScheduledKernel>
mlir::optimus::buildKernel(func::FuncOp function,
                           const KernelSchedule &schedule) {
  FailureOr<DeclaredKernel> declared = readKernel(function);
  if (failed(declared))
    return failure();
  auto &[kernel, description] = *declared;
  const IterationSpace &space = description.getSpace();
  if (!space.pieces.empty() && !schedule.getGroupedLaunches())
    return function.emitOpError()
           << "does several pieces, which the launches of this target do not; "
              "launch each of them";
  if (space.together > 0 && !schedule.getRowGroups())
    return function.emitOpError() << "sums columns of rows of its own; "
                                     "launches of this target cannot, "
                                     "launch each kernel";
  if (function.isExternal()) {
    OpBuilder b = OpBuilder::atBlockEnd(function.addEntryBlock());
    func::ReturnOp::create(b, function.getLoc());
    KernelBuilder builder(function, description, schedule);
    kernel.build(builder);
  }
  KernelExtent extent = schedule.getExtent(space);
  return ScheduledKernel{std::move(description), extent};
}
