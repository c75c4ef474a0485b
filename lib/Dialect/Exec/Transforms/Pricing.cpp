//===- Pricing.cpp - What passes know of commands' times --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pricing.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

using namespace mlir;
using namespace mlir::exec;

llvm::Error Pricing::load(StringRef machineProfile, StringRef profile) {
  auto loaded = optimus::MachineProfile::load(machineProfile);
  if (!loaded)
    return loaded.takeError();
  machine = std::move(*loaded);
  if (profile.empty())
    return llvm::Error::success();
  auto costs = optimus::MeasuredCosts::load(profile);
  if (!costs)
    return costs.takeError();
  measured = std::move(*costs);
  return llvm::Error::success();
}

FailureOr<optimus::CostModel> Pricing::getCosts(func::FuncOp function) const {
  // Functions that did not run say nothing that the others do not.
  if (measured && measured->hasRun(function.getSymName()) &&
      failed(measured->verify(function)))
    return failure();
  optimus::MeshOp mesh = optimus::getMesh(function);
  return optimus::CostModel(machine, mesh ? mesh.getNumRanks() : 1, measured);
}
