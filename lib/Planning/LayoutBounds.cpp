//===- LayoutBounds.cpp - What a layout takes at least ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayoutBounds.h"

#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::optimus;
using exec::CollectiveKind;

static double getElements(Value value) {
  return double(cast<RankedTensorType>(value.getType()).getNumElements());
}

LayoutBounds::LayoutBounds(ModuleOp module, const LayoutQuestion &question)
    : profile(question.machine),
      narrow(question.phases.precision == "f32" ? 4 : 2) {
  const OptimizerForm *form = lookupOptimizer(question.phases.optimizer);
  numStates = form ? form->states.size() : 0;
  auto loss = module.lookupSymbol<func::FuncOp>("loss");
  for (BlockArgument argument : loss.getArguments())
    if (getParameterName(argument))
      parameters += getElements(argument);
  // Products of one activation move it once.
  llvm::MapVector<Value, double> made;
  loss.walk([&](MatmulOp product) {
    if (!getParameterName(product.getB()) || getParameterName(product.getA()))
      return;
    weights += getElements(product.getB());
    made[product.getA()] += getElements(product.getResult());
  });
  for (auto [activation, results] : made)
    activations += std::min(getElements(activation), results);
}

namespace {
struct MeshSizes {
  int64_t data = 1, row = 1, col = 1;

  explicit MeshSizes(const MeshOption &mesh) {
    for (const auto &[name, size] : mesh.axes)
      (name == "row" ? row : name == "col" ? col : data) *= size;
  }
};
} // namespace

int64_t LayoutBounds::getRankBytes(const Candidate &candidate) const {
  MeshSizes mesh(candidate.mesh);
  double each = 4 * parameters / double(mesh.row * mesh.col);
  return int64_t(each + double(numStates) * each / double(mesh.data));
}

double LayoutBounds::getStepMs(const Candidate &candidate) const {
  MeshSizes mesh(candidate.mesh);
  const double all = double(mesh.row * mesh.col);
  CostModel costs(profile, candidate.mesh.getNumRanks());
  auto price = [&](RankGroup group, double elements) {
    return costs.getCollectiveSeconds(CollectiveKind::AllGather, group,
                                      elements * narrow);
  };
  double seconds[] = {
      price({mesh.col, 1}, 2 * activations / double(mesh.data * mesh.row)),
      price({mesh.row, mesh.col}, 3 * weights / double(mesh.col)),
      price({mesh.data, mesh.row * mesh.col}, 2 * parameters / all)};
  double busiest = profile.axesShareLink ? seconds[0] + seconds[1] + seconds[2]
                                         : *llvm::max_element(seconds);
  return 1e3 * busiest;
}
