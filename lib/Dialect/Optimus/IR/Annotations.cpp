//===- Annotations.cpp - Attributes on functions and operations -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect's discardable attributes: what a builder or a user wrote beside
// the program. They are read with their type given, so one of another type
// would pass for absent if nothing checked it here.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::optimus;

LogicalResult mlir::optimus::verifySharding(Operation *op, const Twine &what,
                                            Type type, Attribute value) {
  auto sharding = dyn_cast<ShardingAttr>(value);
  if (!sharding)
    return op->emitOpError("expected ")
           << what << " to be an #optimus.sharding, found " << value;
  auto tensor = dyn_cast<RankedTensorType>(type);
  // The device program keeps the sharding of what its flat buffers hold.
  if (tensor && sharding.getRank() != tensor.getRank())
    return op->emitOpError("expected ")
           << what << " to be a sharding of the rank of " << type << ", found "
           << sharding;
  MeshOp mesh = getMesh(op);
  if (!mesh)
    return success();
  if (sharding.getMesh().getValue() != mesh.getSymName())
    return op->emitOpError("expected ")
           << what << " to be on the mesh @" << mesh.getSymName() << ", found "
           << sharding;
  SmallVector<StringRef> axes = sharding.getUnreducedAxes();
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    axes.append(sharding.getDimAxes(dim));
  for (StringRef axis : axes)
    if (!mesh.getAxisSize(axis))
      return op->emitOpError("expected ")
             << what << " to name axes of @" << mesh.getSymName()
             << ", found \"" << axis << '"';
  return success();
}

LogicalResult OptimusDialect::verifyOperationAttribute(Operation *op,
                                                       NamedAttribute attr) {
  auto expect = [&](bool holds, StringRef expected) -> LogicalResult {
    if (holds)
      return success();
    return op->emitOpError("expected ")
           << attr.getName() << " to be " << expected << ", found "
           << attr.getValue();
  };
  if (attr.getName() == kRole)
    return expect(isa<StringAttr>(attr.getValue()), "a string");
  if (attr.getName() == kMove) {
    auto move = dyn_cast<StringAttr>(attr.getValue());
    bool isProduct =
        isa<MatmulOp>(op) || op->getName().getStringRef() == "ccl.matmul";
    return expect(isProduct && move &&
                      (move == kMovePanels || move == kMoveWhole),
                  "\"panels\" or \"whole\", on an optimus.matmul");
  }
  auto list = dyn_cast<ArrayAttr>(attr.getValue());
  bool oneEach = list && list.size() == op->getNumResults();
  if (attr.getName() == kResultRoles)
    return expect(oneEach && llvm::all_of(list, llvm::IsaPred<StringAttr>),
                  "an array of one string for each result");
  if (attr.getName() != kShardings)
    return success();
  if (failed(expect(oneEach, "an array of one sharding for each result")))
    return failure();
  for (auto [index, type, value] : llvm::enumerate(op->getResultTypes(), list))
    if (!isa<UnitAttr>(value) &&
        failed(verifySharding(op, Twine(kShardings) + "[" + Twine(index) + "]",
                              type, value)))
      return failure();
  return success();
}

/// Checks an attribute of an argument or a result of a function.
static LogicalResult verifySignature(Operation *op, const Twine &where,
                                     Type type, NamedAttribute attr) {
  StringRef name = attr.getName();
  Attribute value = attr.getValue();
  auto expect = [&](bool holds, StringRef expected) -> LogicalResult {
    if (holds)
      return success();
    return op->emitOpError("expected ") << name << " of " << where << " to be "
                                        << expected << ", found " << value;
  };
  if (name == OptimusDialect::kSharding)
    return verifySharding(op, name + " of " + where, type, value);
  if (name == OptimusDialect::kParam || name == OptimusDialect::kRole ||
      name == OptimusDialect::kBinding)
    return expect(isa<StringAttr>(value), "a string");
  if (name == OptimusDialect::kInit)
    return expect(isa<InitAttr>(value), "an #optimus.init");
  if (name == OptimusDialect::kHfShape) {
    auto shape = dyn_cast<DenseI64ArrayAttr>(value);
    return expect(shape &&
                      llvm::all_of(shape.asArrayRef(),
                                   [](int64_t extent) { return extent > 0; }),
                  "an array<i64> of positive extents");
  }
  if (name == OptimusDialect::kDims) {
    auto names = dyn_cast<ArrayAttr>(value);
    auto tensor = dyn_cast<RankedTensorType>(type);
    return expect(
        names && llvm::all_of(names, llvm::IsaPred<StringAttr>) &&
            (!tensor || static_cast<int64_t>(names.size()) == tensor.getRank()),
        "an array of one string for each dimension");
  }
  return success();
}

LogicalResult OptimusDialect::verifyRegionArgAttribute(Operation *op,
                                                       unsigned region,
                                                       unsigned index,
                                                       NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  return verifySignature(op, "argument " + Twine(index),
                         function.getArgumentTypes()[index], attr);
}

LogicalResult OptimusDialect::verifyRegionResultAttribute(Operation *op,
                                                          unsigned region,
                                                          unsigned index,
                                                          NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  return verifySignature(op, "result " + Twine(index),
                         function.getResultTypes()[index], attr);
}
