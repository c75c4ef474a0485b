//===- CCLOps.cpp - Operations of the ccl dialect ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mlir::ccl;
using optimus::MeshOp;
using optimus::ShardingAttr;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// C1 of every collective: the mesh has the axis. Gives its size.
static FailureOr<int64_t> expectAxis(Operation *op, StringRef axis) {
  MeshOp mesh = optimus::getMesh(op);
  if (!mesh)
    return op->emitOpError("C1: expected a mesh in the module, found none");
  if (std::optional<int64_t> size = mesh.getAxisSize(axis))
    return *size;
  return op->emitOpError("C1: expected an axis of @")
         << mesh.getSymName() << ", found \"" << axis << '"';
}

/// The sharding of a tensor, replicated where its type says nothing.
static ShardingAttr shardingOf(Operation *op, Value value) {
  if (LocalAttr local = getLocal(value.getType()))
    return local.getSharding();
  return ShardingAttr::getReplicated(
      FlatSymbolRefAttr::get(optimus::getMesh(op).getSymNameAttr()),
      shapeOf(value).size());
}

/// Checks the result's sharding and that both sides are parts of one tensor.
static LogicalResult expectState(Operation *op, StringRef label, Value input,
                                 Value result, ShardingAttr expected) {
  ShardingAttr found = shardingOf(op, result);
  if (found != expected)
    return op->emitOpError() << label << ": expected a result sharded "
                             << expected << ", found " << found;
  if (getGlobalShape(input.getType()) != getGlobalShape(result.getType()))
    return op->emitOpError("expected input and result to be parts of one "
                           "tensor, found shapes [")
           << getGlobalShape(input.getType()) << "] and ["
           << getGlobalShape(result.getType()) << ']';
  return success();
}

static LogicalResult expectShape(Operation *op, Value value,
                                 ArrayRef<int64_t> expected) {
  if (shapeOf(value) == expected)
    return success();
  return op->emitOpError("expected a local shape [")
         << expected << "], found [" << shapeOf(value) << ']';
}

/// C2 of a reduction: the input is unreduced over the axis. Gives the state
/// without it.
static FailureOr<ShardingAttr> dropUnreduced(Operation *op, Value input,
                                             StringRef axis) {
  ShardingAttr sharding = shardingOf(op, input);
  if (!sharding.isUnreducedOver(axis))
    return op->emitOpError("C2: expected an input unreduced over \"")
           << axis << "\", found " << sharding;
  SmallVector<StringRef> rest = sharding.getUnreducedAxes();
  llvm::erase(rest, axis);
  return sharding.withUnreduced(rest);
}

static LogicalResult expectDim(Operation *op, Value input, int64_t dim) {
  int64_t rank = shapeOf(input).size();
  if (dim >= 0 && dim < rank)
    return success();
  return op->emitOpError("expected a dimension below ")
         << rank << ", found " << dim;
}

LogicalResult AllReduceOp::verify() {
  if (failed(expectAxis(*this, getAxis())))
    return failure();
  FailureOr<ShardingAttr> expected =
      dropUnreduced(*this, getInput(), getAxis());
  if (failed(expected) || failed(expectState(*this, "C2", getInput(),
                                             getResult(), *expected)))
    return failure();
  return expectShape(*this, getResult(), shapeOf(getInput()));
}

LogicalResult ReduceScatterOp::verify() {
  FailureOr<int64_t> size = expectAxis(*this, getAxis());
  if (failed(size) || failed(expectDim(*this, getInput(), getDim())))
    return failure();
  FailureOr<ShardingAttr> rest = dropUnreduced(*this, getInput(), getAxis());
  if (failed(rest))
    return failure();
  SmallVector<StringRef> axes = rest->getDimAxes(getDim());
  axes.push_back(getAxis());
  if (failed(expectState(*this, "C2", getInput(), getResult(),
                         rest->withDimAxes(getDim(), axes))))
    return failure();
  SmallVector<int64_t> shape(shapeOf(getInput()));
  if (shape[getDim()] % *size)
    return emitOpError("expected dimension ")
           << getDim() << " to be a multiple of " << *size << ", found "
           << shape[getDim()];
  shape[getDim()] /= *size;
  return expectShape(*this, getResult(), shape);
}

LogicalResult AllGatherOp::verify() {
  FailureOr<int64_t> size = expectAxis(*this, getAxis());
  if (failed(size) || failed(expectDim(*this, getInput(), getDim())))
    return failure();
  ShardingAttr sharding = shardingOf(*this, getInput());
  SmallVector<StringRef> axes = sharding.getDimAxes(getDim());
  if (axes.empty() || axes.back() != getAxis())
    return emitOpError("C2: expected \"")
           << getAxis() << "\" to be the fastest axis that cuts dimension "
           << getDim() << ", found " << sharding;
  axes.pop_back();
  if (failed(expectState(*this, "C2", getInput(), getResult(),
                         sharding.withDimAxes(getDim(), axes))))
    return failure();
  SmallVector<int64_t> shape(shapeOf(getInput()));
  shape[getDim()] *= *size;
  return expectShape(*this, getResult(), shape);
}

LogicalResult ConcatOp::verify() {
  FailureOr<int64_t> size = expectAxis(*this, getAxis());
  if (failed(size))
    return failure();
  SmallVector<int64_t> shape(shapeOf(getInput()));
  if (shape.empty())
    return emitOpError("C2: expected a dimension to concatenate, found none");
  shape.back() *= *size;
  if (shapeOf(getResult()) != ArrayRef<int64_t>(shape))
    return emitOpError("C2: expected a local shape [")
           << shape << "], found [" << shapeOf(getResult()) << ']';
  return success();
}

LogicalResult SliceOp::verify() {
  FailureOr<int64_t> size = expectAxis(*this, getAxis());
  if (failed(size) || failed(expectDim(*this, getInput(), getDim())))
    return failure();
  ShardingAttr sharding = shardingOf(*this, getInput());
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    if (llvm::is_contained(sharding.getDimAxes(dim), getAxis()))
      return emitOpError("C2: expected an input that \"")
             << getAxis() << "\" does not cut, found " << sharding;
  SmallVector<StringRef> axes = sharding.getDimAxes(getDim());
  axes.push_back(getAxis());
  if (failed(expectState(*this, "C2", getInput(), getResult(),
                         sharding.withDimAxes(getDim(), axes))))
    return failure();
  SmallVector<int64_t> shape(shapeOf(getInput()));
  if (shape[getDim()] % *size)
    return emitOpError("expected dimension ")
           << getDim() << " to be a multiple of " << *size << ", found "
           << shape[getDim()];
  shape[getDim()] /= *size;
  return expectShape(*this, getResult(), shape);
}

LogicalResult MatmulOp::verify() {
  StringRef name = getStationary();
  if (name != "a" && name != "b" && name != "c")
    return emitOpError("C1: expected stationary \"a\", \"b\" or \"c\", found \"")
           << name << '"';
  MeshOp mesh = optimus::getMesh(*this);
  if (!mesh)
    return emitOpError("expected a mesh in the module, found none");
  int64_t rankA = shapeOf(getA()).size(), rankB = shapeOf(getB()).size();
  int64_t k = getContracting();
  if (k < 1 || rankA < k || rankB < k ||
      static_cast<int64_t>(shapeOf(getResult()).size()) !=
          rankA + rankB - 2 * k)
    return emitOpError("expected ranks that agree with ")
           << k << " contracted dimensions, found [" << shapeOf(getA())
           << "], [" << shapeOf(getB()) << "] and [" << shapeOf(getResult())
           << ']';
  FailureOr<ProductAxes> axes =
      getProductAxes(getA().getType(), getB().getType(), getResult().getType(),
                     k, getTransposeA(), getTransposeB());
  if (failed(axes))
    return emitOpError("C2: expected each group of dimensions to be cut by "
                       "one axis at most");
  FailureOr<ProductForm> form = getProductForm(*this);
  for (int t = 0; t < 3; ++t) {
    if (t == form->stationary || form->moves[t].empty())
      continue;
    std::optional<int64_t> size = mesh.getAxisSize(form->moves[t]);
    if (!size)
      return emitOpError("C2: expected an axis of the mesh, found \"")
             << form->moves[t] << '"';
    if (getPanels() < 1 || getPanels() % *size)
      return emitOpError("C3: expected a number of panels that is a multiple "
                         "of ")
             << *size << ", the size of \"" << form->moves[t] << "\", found "
             << getPanels();
  }
  return success();
}

static LogicalResult verifyHead(Operation *op, Value h, Value table,
                                StringRef axis) {
  if (failed(expectAxis(op, axis)))
    return failure();
  ShardingAttr rows = shardingOf(op, table);
  if (rows.getRank() != 2 ||
      rows.getDimAxes(0) != SmallVector<StringRef>{axis})
    return op->emitOpError("C1: expected a table whose rows \"")
           << axis << "\" cuts, found " << rows;
  if (!rows.getDimAxes(1).empty())
    return op->emitOpError("C2: expected a table with whole columns, found ")
           << rows;
  ShardingAttr hidden = shardingOf(op, h);
  if (hidden.getRank() < 1)
    return op->emitOpError("C3: expected h of rank 1 at least");
  SmallVector<StringRef> last = hidden.getDimAxes(hidden.getRank() - 1);
  if (!last.empty() && last != SmallVector<StringRef>{axis})
    return op->emitOpError("C3: expected h whole or cut by \"")
           << axis << "\" along its last dimension, found " << hidden;
  return success();
}

LogicalResult HeadLossOp::verify() {
  return verifyHead(*this, getH(), getTable(), getAxis());
}

LogicalResult HeadLossGradOp::verify() {
  if (getDh().getType() != getH().getType())
    return emitOpError("C4: expected dh of type ")
           << getH().getType() << ", found " << getDh().getType();
  return verifyHead(*this, getH(), getTable(), getAxis());
}

#define GET_OP_CLASSES
#include "optimus/Dialect/CCL/IR/CCLOps.cpp.inc"
