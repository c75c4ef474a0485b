//===- Target.cpp - What lowering asks of a machine -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/Target.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir;
using namespace mlir::optimus;

/// All targets by name; registered before any pass runs.
static std::map<StringRef, std::unique_ptr<Target>> &getTargets() {
  static std::map<StringRef, std::unique_ptr<Target>> targets;
  return targets;
}

void mlir::optimus::registerTarget(std::unique_ptr<Target> target) {
  StringRef name = target->getName();
  [[maybe_unused]] bool isNew =
      getTargets().try_emplace(name, std::move(target)).second;
  assert(isNew && "two targets have one name");
}

const Target *mlir::optimus::findTarget(StringRef name) {
  auto found = getTargets().find(name);
  return found == getTargets().end() ? nullptr : found->second.get();
}

SmallVector<StringRef> mlir::optimus::getTargetNames() {
  SmallVector<StringRef> names;
  for (const auto &[name, target] : getTargets())
    names.push_back(name);
  return names;
}

LogicalResult mlir::optimus::checkTarget(MLIRContext *context, StringRef name) {
  if (findTarget(name))
    return success();
  return emitError(UnknownLoc::get(context))
         << "unknown target '" << name << "'; known are "
         << llvm::join(getTargetNames(), ", ");
}
