//===- GradientAccumulator.cpp - Gradients so far ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Provenance.h"

using namespace mlir;
using namespace mlir::optimus;

void GradientAccumulator::copyRole(Value from, Value to) {
  auto result = dyn_cast<OpResult>(to);
  StringRef role = getRole(from);
  // The first role stays: one value may be the gradient of several.
  if (!result || role.empty() || !getRole(to).empty())
    return;
  Operation *op = result.getOwner();
  Builder builder(op->getContext());
  auto roleAttr = builder.getStringAttr(role);
  if (op->getNumResults() > 1) {
    SmallVector<Attribute> roles(op->getNumResults(),
                                 builder.getStringAttr(""));
    if (auto known = op->getAttrOfType<ArrayAttr>(OptimusDialect::kResultRoles))
      roles.assign(known.begin(), known.end());
    roles[result.getResultNumber()] = roleAttr;
    op->setAttr(OptimusDialect::kResultRoles, builder.getArrayAttr(roles));
  }
  if (result.getResultNumber() == 0)
    op->setAttr(OptimusDialect::kRole, roleAttr);
}

void GradientAccumulator::add(Value value, Value gradient) {
  assert(value.getType() == gradient.getType() &&
         "a gradient has the type of its value");
  // An addend lies where the sum does.
  copyRole(value, gradient);
  number(value, gradient);
  Value &known = gradients[value];
  if (known) {
    gradient = AddOp::create(builder, withPart(gradient.getLoc(), "sum"), known,
                             gradient);
    copyRole(value, gradient);
    number(value, gradient);
  }
  known = gradient;
}

void GradientAccumulator::number(Value value, Value gradient) {
  auto result = dyn_cast<OpResult>(gradient);
  if (!differentiated || !result)
    return;
  Operation *op = result.getOwner();
  OperandRange operands = differentiated->getOperands();
  int64_t first = std::distance(operands.begin(), llvm::find(operands, value)) -
                  result.getResultNumber();
  if (getPhase(op->getLoc()) != ProgramPhase::Backward || first < 0 ||
      !numbered.insert(op).second)
    return;
  op->setLoc(withResult(op->getLoc(), first));
}

Value GradientAccumulator::take(Value value) {
  Value gradient = gradients.lookup(value);
  gradients.erase(value);
  return gradient;
}
