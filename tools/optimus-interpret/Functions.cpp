//===- Functions.cpp - The functions of a program by name -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Functions.h"

#include "optimus-support/NearestName.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::StatusOr;

func::FuncOp mlir::optimus::findFunction(ModuleOp module,
                                         ArrayRef<StringRef> names) {
  for (StringRef name : names)
    if (auto function = module.lookupSymbol<func::FuncOp>(name))
      if (!function.isExternal())
        return function;
  return {};
}

std::string mlir::optimus::listFunctions(ModuleOp module) {
  SmallVector<std::string> names;
  for (auto function : module.getOps<func::FuncOp>())
    names.push_back(("@" + function.getName()).str());
  return names.empty() ? "none" : llvm::join(names, ", ");
}

StatusOr<func::FuncOp>
mlir::optimus::getFunction(ModuleOp module, StringRef flag, StringRef name) {
  if (func::FuncOp function = findFunction(module, name))
    return function;
  std::vector<std::string> names;
  for (auto function : module.getOps<func::FuncOp>())
    names.push_back(function.getName().str());
  return invalidArgument(
      llvm::formatv("{0}: expected a function of the program, found {1}; it "
                    "has {2}{3}",
                    flag, name.empty() ? "nothing" : ("'" + name + "'").str(),
                    listFunctions(module),
                    optimus_support::didYouMean(name.str(), names))
          .str());
}
