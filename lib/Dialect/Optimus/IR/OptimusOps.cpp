//===- OptimusOps.cpp - The mesh and what operations share ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "ShapeChecks.h"

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::CheckedSize;

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

static ParseResult parseMeshAxes(OpAsmParser &parser, ArrayAttr &axes) {
  SmallVector<Attribute> list;
  auto parseAxis = [&]() -> ParseResult {
    SMLoc location = parser.getCurrentLocation();
    std::string name;
    int64_t size = 0;
    if (parser.parseString(&name) || parser.parseEqual() ||
        parser.parseInteger(size))
      return failure();
    MLIRContext *context = parser.getContext();
    list.push_back(parser.getChecked<MeshAxisAttr>(
        location, context, StringAttr::get(context, name), size));
    return success(list.back() != nullptr);
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis) ||
      parser.parseGreater())
    return failure();
  axes = ArrayAttr::get(parser.getContext(), list);
  return success();
}

static void printMeshAxes(OpAsmPrinter &printer, MeshOp, ArrayAttr axes) {
  printer << "<[";
  llvm::interleaveComma(axes, printer, [&](Attribute attribute) {
    auto axis = cast<MeshAxisAttr>(attribute);
    printer << axis.getName() << " = " << axis.getSize();
  });
  printer << "]>";
}

LogicalResult MeshOp::verify() {
  llvm::StringSet<> names;
  int64_t ranks = 1;
  for (MeshAxisAttr axis : getAxisList()) {
    if (!names.insert(axis.getName().getValue()).second)
      return emitOpError("C2: expected distinct axes, found ")
             << axis.getName() << " twice";
    // Without overflow: both factors are at most the limit.
    if ((ranks *= axis.getSize()) > kMaxRanks)
      return emitOpError("C4: expected at most ")
             << kMaxRanks << " ranks, found more up to axis " << axis.getName();
  }
  for (MeshOp other : cast<ModuleOp>((*this)->getParentOp()).getOps<MeshOp>())
    if (other != *this && other->isBeforeInBlock(*this))
      return emitOpError("C3: expected one mesh in a module, found @")
             << other.getSymName() << " and @" << getSymName();
  return success();
}

SmallVector<MeshAxisAttr> MeshOp::getAxisList() {
  // An operation may be verified before the mesh of its module is.
  SmallVector<MeshAxisAttr> list;
  for (Attribute attribute : getAxes())
    if (auto axis = dyn_cast<MeshAxisAttr>(attribute))
      list.push_back(axis);
  return list;
}

std::optional<int64_t> MeshOp::getAxisIndex(StringRef axis) {
  for (auto [index, attribute] : llvm::enumerate(getAxes()))
    if (auto candidate = dyn_cast<MeshAxisAttr>(attribute);
        candidate && candidate.getName() == axis)
      return index;
  return std::nullopt;
}

std::optional<int64_t> MeshOp::getAxisSize(StringRef axis) {
  if (std::optional<int64_t> index = getAxisIndex(axis))
    return cast<MeshAxisAttr>(getAxes()[*index]).getSize();
  return std::nullopt;
}

/// A product of two sizes, which stops above the most ranks of a mesh.
static int64_t multiply(int64_t a, int64_t b) {
  CheckedSize product = CheckedSize(a) * b;
  return product.isAtMost(MeshOp::kMaxRanks) ? *product.get()
                                             : MeshOp::kMaxRanks + 1;
}

int64_t MeshOp::getNumRanks() {
  int64_t ranks = 1;
  for (MeshAxisAttr axis : getAxisList())
    ranks = multiply(ranks, axis.getSize());
  return ranks;
}

int64_t MeshOp::getProduct(ArrayRef<StringRef> axes) {
  int64_t product = 1;
  for (StringRef axis : axes) {
    std::optional<int64_t> size = getAxisSize(axis);
    assert(size && "the mesh has the axis");
    product = multiply(product, *size);
  }
  return product;
}

#define GET_OP_CLASSES
#include "optimus/Dialect/Optimus/IR/OptimusOps.cpp.inc"
