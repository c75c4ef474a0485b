//===- CCLDialect.cpp - The ccl dialect -------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Optimus/IR/WholeShape.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::ccl;
using optimus::MeshOp;
using optimus::ShardingAttr;
using optimus_support::CheckedSize;
using optimus_support::kMaxElements;

#include "optimus/Dialect/CCL/IR/CCLDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "optimus/Dialect/CCL/IR/CCLAttrs.cpp.inc"

namespace {
/// Names local types, so that a line of a dump fits a screen:
///
///     #local_16x128x768 = #ccl.local<[16, 128, 768], <@mesh, [{"row"}, {}, {"col"}]>>
///
/// The shape is that of the whole tensor; MLIR numbers other shardings of it.
class LocalAliases : public OpAsmDialectInterface {
public:
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attribute, raw_ostream &os) const override {
    auto local = dyn_cast<LocalAttr>(attribute);
    if (!local)
      return AliasResult::NoAlias;
    os << "local_";
    if (local.getShape().empty())
      os << "scalar";
    llvm::interleave(local.getShape(), os, "x");
    return AliasResult::FinalAlias;
  }
};

class LocalParts : public optimus::PartsInterface {
public:
  using PartsInterface::PartsInterface;

  ArrayRef<int64_t> getWholeShape(Attribute encoding) const override {
    return cast<LocalAttr>(encoding).getShape();
  }
};
} // namespace

void CCLDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "optimus/Dialect/CCL/IR/CCLAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "optimus/Dialect/CCL/IR/CCLOps.cpp.inc"
      >();
  addInterfaces<LocalAliases, LocalParts>();
}

LogicalResult LocalAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                ArrayRef<int64_t> shape,
                                ShardingAttr sharding) {
  if (static_cast<int64_t>(shape.size()) != sharding.getRank())
    return emitError() << "C1: expected a sharding of rank " << shape.size()
                       << ", found " << sharding;
  if (!optimus::isTensorShape(shape))
    return emitError() << "C2: expected positive extents of at most "
                       << optimus_support::kMaxElements
                       << " elements in all, found [" << shape << ']';
  return success();
}

LogicalResult
LocalAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                          function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getShape().size())
    return emitError() << "C1: expected a tensor of rank " << getShape().size()
                       << " for its encoding, found rank " << shape.size();
  for (auto [local, global] : llvm::zip(shape, getShape()))
    if (local < 1 || global < 1)
      return emitError() << "C2: expected positive extents, found " << local
                         << " of " << global;
  return success();
}

/// C3 and C4 of one local type.
static LogicalResult verifyLocalType(Operation *op, const Twine &what,
                                     RankedTensorType type, MeshOp mesh) {
  LocalAttr local = ccl::getLocal(type);
  if (!local)
    return success();
  ShardingAttr sharding = local.getSharding();
  if (sharding.getMesh().getValue() != mesh.getSymName())
    return op->emitOpError("#ccl.local C3: expected ")
           << what << " on the mesh @" << mesh.getSymName() << ", found "
           << sharding;
  SmallVector<StringRef> names = sharding.getUnreducedAxes();
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    names.append(sharding.getDimAxes(dim));
  for (StringRef axis : names)
    if (!mesh.getAxisSize(axis))
      return op->emitOpError("#ccl.local C3: expected ")
             << what << " to name axes of @" << mesh.getSymName()
             << ", found \"" << axis << '"';
  CheckedSize padded = 1;
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim) {
    int64_t parts = mesh.getProduct(sharding.getDimAxes(dim));
    int64_t whole = local.getShape()[dim], part = type.getDimSize(dim);
    padded = padded * part * parts;
    if (part < llvm::divideCeilSigned(whole, parts))
      return op->emitOpError("#ccl.local C4: expected dimension ")
             << dim << " of " << what << " to hold a part of " << whole
             << " sharded into " << parts << ", found " << part;
  }
  if (!padded.isAtMost(kMaxElements))
    return op->emitOpError("#ccl.local C4: expected ")
           << what << " to have at most " << kMaxElements
           << " elements with padding, found " << padded.toString();
  return success();
}

LogicalResult ccl::verifyLocalTypes(Operation *op) {
  MeshOp mesh = optimus::getMesh(op);
  auto verifyAll = [&](ValueRange values, StringRef kind) -> LogicalResult {
    for (auto [index, value] : llvm::enumerate(values))
      if (auto type = dyn_cast<RankedTensorType>(value.getType()))
        if (failed(verifyLocalType(op, kind + " " + Twine(index), type, mesh)))
          return failure();
    return success();
  };
  if (failed(verifyAll(op->getOperands(), "operand")))
    return failure();
  return verifyAll(op->getResults(), "result");
}

LocalAttr ccl::getLocal(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<LocalAttr>(tensor.getEncoding())
                : LocalAttr();
}

SmallVector<int64_t> ccl::getGlobalShape(Type type) {
  if (LocalAttr local = getLocal(type))
    return SmallVector<int64_t>(local.getShape());
  return SmallVector<int64_t>(cast<RankedTensorType>(type).getShape());
}

SmallVector<StringRef> ccl::getDimAxes(Type type, int64_t dim) {
  LocalAttr local = getLocal(type);
  return local ? local.getSharding().getDimAxes(dim) : SmallVector<StringRef>();
}

RankedTensorType ccl::getLocalType(ArrayRef<int64_t> shape,
                                   ArrayRef<int64_t> paddedShape,
                                   Type elementType, ShardingAttr sharding,
                                   MeshOp mesh) {
  SmallVector<int64_t> local;
  for (auto [dim, padded] : llvm::enumerate(paddedShape)) {
    int64_t parts = mesh.getProduct(sharding.getDimAxes(dim));
    assert(padded % parts == 0 && "padding makes parts equal");
    local.push_back(padded / parts);
  }
  if (sharding.isReplicated() && shape == paddedShape)
    return RankedTensorType::get(local, elementType);
  return RankedTensorType::get(
      local, elementType,
      LocalAttr::get(elementType.getContext(), shape, sharding));
}
