//===- DimensionClasses.cpp - Dimensions that are padded alike --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/DimensionClasses.h"

#include "optimus/Dialect/Optimus/IR/Buffers.h"

#include <numeric>

using namespace mlir;
using namespace mlir::optimus;

static RankedTensorType getTensor(Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

DimensionClasses::DimensionClasses(ModuleOp module) : mesh(getMesh(module)) {
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      addFunction(function);
  classes.resize(groups.size());
  // In the program's order, so that names do not depend on addresses.
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    nameArguments(function);
    for (BlockArgument argument : function.getArguments())
      add(argument);
    function.walk([&](Operation *op) {
      for (Value result : op->getResults())
        add(result);
      if (auto sharding = dyn_cast<OperandShardsOpInterface>(op))
        for (const OperandShards &shards : sharding.getOperandShards())
          addSharding(op->getOperand(shards.operand), shards.dim, shards.axes);
    });
  }
  padVocabulary(module);
}

void DimensionClasses::addFunction(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    if (!getTensor(argument))
      continue;
    groups.add(argument);
    // The same parameter or input in another function.
    BufferAttr buffer = getArgumentBuffer(function, argument.getArgNumber());
    if (!buffer)
      continue;
    auto [it, inserted] = shared.try_emplace(buffer.getName(), argument);
    Value other = it->second;
    if (inserted ||
        getTensor(other).getShape() != getTensor(argument).getShape())
      continue;
    groups.unite(other, argument);
  }
  function.walk([&](Operation *op) { groups.addOperation(op); });
}

void DimensionClasses::nameArguments(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    auto names = function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(),
                                                      OptimusDialect::kDims);
    auto type = getTensor(argument);
    if (!names || !type || static_cast<int64_t>(names.size()) != type.getRank())
      continue;
    for (auto [dim, name] : llvm::enumerate(names))
      if (auto text = dyn_cast<StringAttr>(name)) {
        Class &known = classes[groups.find(argument, dim)];
        if (known.name == Class().name)
          known.name = text.str();
      }
  }
}

void DimensionClasses::padVocabulary(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>(OptimusDialect::kModel);
  auto padded =
      model ? model.getAs<IntegerAttr>("padded_vocabulary") : IntegerAttr();
  if (!padded)
    return;
  const int64_t size = model.getAs<IntegerAttr>("vocabulary").getInt();
  for (Class &known : classes)
    if (known.name == "vocabulary" && known.size == size)
      known.least = padded.getInt();
}

void DimensionClasses::add(Value value) {
  if (!getTensor(value))
    return;
  for (auto [dim, size] : llvm::enumerate(getTensor(value).getShape()))
    classes[groups.find(value, dim)].size = size;
  ShardingAttr sharding = getSharding(value);
  if (!sharding)
    return;
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    addSharding(value, dim, sharding.getDimAxes(dim));
}

void DimensionClasses::addSharding(Value value, int64_t dim,
                                   ArrayRef<StringRef> axes) {
  if (axes.empty())
    return;
  Class &known = classes[groups.find(value, dim)];
  known.axes.insert_range(axes);
  known.multiple = std::lcm(known.multiple, mesh.getProduct(axes));
}

const DimensionClasses::Class &DimensionClasses::getClass(Value value,
                                                          int64_t dim) const {
  return classes[groups.find(value, dim)];
}

SmallVector<int64_t> DimensionClasses::getPaddedShape(Value value) const {
  SmallVector<int64_t> shape;
  for (int64_t dim = 0; dim < getTensor(value).getRank(); ++dim)
    shape.push_back(getClass(value, dim).getPadded());
  return shape;
}
