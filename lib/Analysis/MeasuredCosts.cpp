//===- MeasuredCosts.cpp - What commands took when they ran -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/MeasuredCosts.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_prices::CommandKey;
using optimus_prices::RunTimes;

llvm::Expected<std::shared_ptr<const MeasuredCosts>>
MeasuredCosts::load(StringRef path) {
  auto times = RunTimes::load(path.str());
  if (!times.ok())
    return llvm::createStringError(times.status().message());
  return std::make_shared<const MeasuredCosts>(*std::move(times), path.str());
}

static CommandKey getKey(exec::CommandOpInterface command) {
  CommandKey key;
  for (const exec::Access &access : command.getAccesses()) {
    int64_t touched = access.getTouchedBytes();
    key.bytes += touched * (access.reads + access.writes);
    key.written += access.writes ? touched : 0;
  }
  key.kind = command->getName().stripDialect().str();
  if (auto launch = dyn_cast<exec::LaunchOp>(*command))
    key.kernel = launch.getKernel().str();
  if (auto copy = dyn_cast<exec::CopyOp>(*command); copy && !copy.getSrc())
    key.kind = "fill";
  if (auto start = dyn_cast<exec::CollectiveStartOp>(*command))
    key.kind = exec::stringifyCollectiveKind(start.getKind()).str();
  key.path = getPath(command->getLoc()).str();
  key.pathWithPhase = getPathWithPhase(command->getLoc());
  key.function = command->getParentOfType<func::FuncOp>().getSymName().str();
  return key;
}

std::optional<double>
MeasuredCosts::getSeconds(exec::CommandOpInterface command) const {
  return times.getSeconds(getKey(command));
}

bool MeasuredCosts::isOf(StringRef mesh, StringRef strategy,
                         StringRef device) const {
  return getProfile().mesh == mesh && getProfile().strategy == strategy &&
         getProfile().device == device;
}

bool MeasuredCosts::hasRun(StringRef function) const {
  return llvm::any_of(getProfile().commands,
                      [&](const MeasuredCommand &command) {
                        return command.function == function;
                      });
}

LogicalResult MeasuredCosts::verify(func::FuncOp function) const {
  const RunProfile &profile = getProfile();
  auto fail = [&] {
    return function.emitError("expected profile '")
           << name << "' to be of a run of this program, found ";
  };
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    auto param =
        function.getArgAttrOfType<StringAttr>(i, OptimusDialect::kParam);
    auto binding =
        function.getArgAttrOfType<BufferAttr>(i, OptimusDialect::kBinding);
    if (!param && !binding)
      continue;
    StringRef held = param ? param.getValue() : binding.getRole();
    const auto &all = param ? profile.parameters : profile.inputs;
    auto found = all.find(held.str());
    if (found == all.end()) {
      if (param)
        return fail() << "one without parameter '" << held << "'";
      continue;
    }
    auto type = dyn_cast<MemRefType>(function.getArgumentTypes()[i]);
    if (int64_t bytes = type ? getBytes(type) : found->second;
        bytes != found->second)
      return fail() << "one whose '" << held << "' has " << found->second
                    << " bytes on a rank instead of " << bytes;
  }
  return success();
}

LogicalResult MeasuredCosts::verify(ModuleOp module) const {
  llvm::StringSet<> names;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (failed(verify(function)))
      return failure();
    for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
      if (auto param =
              function.getArgAttrOfType<StringAttr>(i, OptimusDialect::kParam))
        names.insert(param.getValue());
  }
  for (const auto &[parameter, bytes] : getProfile().parameters)
    if (!names.contains(parameter))
      return module.emitError("expected profile '")
             << name << "' to be of a run of this program, found one with "
             << "parameter '" << parameter << "'";
  return success();
}
