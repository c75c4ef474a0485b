//===- Pricing.cpp - What passes know of commands' times --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/Pricing.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

using namespace mlir;
using namespace mlir::optimus;

llvm::Error Pricing::load(StringRef machineProfile, StringRef profile) {
  auto loaded = MachineProfile::load(machineProfile);
  if (!loaded)
    return loaded.takeError();
  machine = std::move(*loaded);
  if (profile.empty())
    return llvm::Error::success();
  auto costs = MeasuredCosts::load(profile);
  if (!costs)
    return costs.takeError();
  measured = std::move(*costs);
  return llvm::Error::success();
}

FailureOr<CostModel> Pricing::getCosts(func::FuncOp function) const {
  // A function that did not run adds nothing to the others' times.
  if (measured && measured->hasRun(function.getSymName()) &&
      failed(measured->verify(function)))
    return failure();
  MeshOp mesh = getMesh(function);
  return CostModel(machine, mesh ? mesh.getNumRanks() : 1, measured);
}
