//===- OptimusDialect.cpp - The optimus dialect -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

#include "optimus/Dialect/Optimus/IR/OptimusDialect.cpp.inc"
#include "optimus/Dialect/Optimus/IR/OptimusEnums.cpp.inc"
#include "optimus/Dialect/Optimus/IR/OptimusInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "optimus/Dialect/Optimus/IR/OptimusAttrs.cpp.inc"

void OptimusDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "optimus/Dialect/Optimus/IR/OptimusAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "optimus/Dialect/Optimus/IR/OptimusOps.cpp.inc"
      >();
}

bool mlir::optimus::isTensorShape(ArrayRef<int64_t> shape) {
  return static_cast<int64_t>(shape.size()) <= optimus_support::kMaxDims &&
         llvm::all_of(shape, [](int64_t extent) { return extent > 0; }) &&
         optimus_support::CheckedSize::product({shape.data(), shape.size()})
             .isAtMost(optimus_support::kMaxElements);
}

bool mlir::optimus::isPositiveFloat(const APFloat &value) {
  auto number = static_cast<float>(value.convertToDouble());
  return number > 0 && std::isfinite(number);
}

MeshOp mlir::optimus::getMesh(Operation *op) {
  ModuleOp module =
      isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  if (!module)
    return nullptr;
  auto meshes = module.getOps<MeshOp>();
  return meshes.empty() ? nullptr : *meshes.begin();
}

StringRef mlir::optimus::getRole(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function =
        dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
    if (!function)
      return {};
    auto role = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                      OptimusDialect::kRole);
    return role ? role.getValue() : StringRef();
  }
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  if (auto roles = op->getAttrOfType<ArrayAttr>(OptimusDialect::kResultRoles))
    if (result.getResultNumber() < roles.size())
      if (auto role = dyn_cast<StringAttr>(roles[result.getResultNumber()]))
        return role.getValue();
  auto role = op->getAttrOfType<StringAttr>(OptimusDialect::kRole);
  return role && result.getResultNumber() == 0 ? role.getValue() : StringRef();
}

static void
updateAll(SmallVectorImpl<DictionaryAttr> &all,
          function_ref<void(unsigned number, NamedAttrList &attributes)> update,
          MLIRContext *context) {
  for (auto [number, attributes] : llvm::enumerate(all)) {
    NamedAttrList list(attributes);
    update(number, list);
    attributes = list.getDictionary(context);
  }
}

void mlir::optimus::updateArgAttrs(
    FunctionOpInterface function,
    function_ref<void(unsigned number, NamedAttrList &attributes)> update) {
  SmallVector<DictionaryAttr> all;
  function.getAllArgAttrs(all);
  updateAll(all, update, function.getContext());
  function.setAllArgAttrs(all);
}

void mlir::optimus::updateResultAttrs(
    FunctionOpInterface function,
    function_ref<void(unsigned number, NamedAttrList &attributes)> update) {
  SmallVector<DictionaryAttr> all;
  function.getAllResultAttrs(all);
  updateAll(all, update, function.getContext());
  function.setAllResultAttrs(all);
}

ShardingAttr mlir::optimus::getSharding(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function =
        dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
    return function ? function.getArgAttrOfType<ShardingAttr>(
                          argument.getArgNumber(), OptimusDialect::kSharding)
                    : ShardingAttr();
  }
  auto result = cast<OpResult>(value);
  auto shardings =
      result.getOwner()->getAttrOfType<ArrayAttr>(OptimusDialect::kShardings);
  if (!shardings || result.getResultNumber() >= shardings.size())
    return {};
  return dyn_cast<ShardingAttr>(shardings[result.getResultNumber()]);
}
