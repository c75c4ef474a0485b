//===- CCLOps.cpp - Operations of the ccl dialect ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"

#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::ccl;
using optimus::MeshOp;
using optimus::ShardingAttr;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// C1 of every collective: the mesh has the axis. Gives its size. Checks that
/// local types fit the mesh, too.
static FailureOr<int64_t> expectAxis(Operation *op, StringRef axis) {
  MeshOp mesh = optimus::getMesh(op);
  if (!mesh)
    return op->emitOpError("C1: expected a mesh in the module, found none");
  std::optional<int64_t> size = mesh.getAxisSize(axis);
  if (!size)
    return op->emitOpError("C1: expected an axis of @")
           << mesh.getSymName() << ", found \"" << axis << '"';
  if (failed(verifyLocalTypes(op)))
    return failure();
  return *size;
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
    return op->emitOpError("C3: expected input and result to be parts of one "
                           "tensor, found whole shapes [")
           << getGlobalShape(input.getType()) << "] and ["
           << getGlobalShape(result.getType()) << ']';
  return success();
}

static LogicalResult expectShape(Operation *op, Value value,
                                 ArrayRef<int64_t> expected) {
  if (shapeOf(value) == expected)
    return success();
  return op->emitOpError("C3: expected a local shape [")
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
  return op->emitOpError("C2: expected a dimension from 0 to ")
         << rank - 1 << ", found " << dim;
}

LogicalResult AllReduceOp::verify() {
  if (failed(expectAxis(*this, getAxis())))
    return failure();
  FailureOr<ShardingAttr> expected =
      dropUnreduced(*this, getInput(), getAxis());
  if (failed(expected) ||
      failed(expectState(*this, "C2", getInput(), getResult(), *expected)))
    return failure();
  return expectShape(*this, getResult(), shapeOf(getInput()));
}

/// The result is the input, in a state before, with dimension `dim` sharded by
/// an axis of `size` ranks, its fastest.
template <typename Op>
static LogicalResult expectSharded(Op op, ShardingAttr before, int64_t size) {
  int64_t dim = op.getDim();
  SmallVector<StringRef> axes = before.getDimAxes(dim);
  axes.push_back(op.getAxis());
  if (failed(expectState(op, "C2", op.getInput(), op.getResult(),
                         before.withDimAxes(dim, axes))))
    return failure();
  SmallVector<int64_t> shape(shapeOf(op.getInput()));
  if (shape[dim] % size)
    return op.emitOpError("C3: expected dimension ")
           << dim << " to be a multiple of " << size << ", found "
           << shape[dim];
  shape[dim] /= size;
  return expectShape(op, op.getResult(), shape);
}

LogicalResult ReduceScatterOp::verify() {
  FailureOr<int64_t> size = expectAxis(*this, getAxis());
  if (failed(size) || failed(expectDim(*this, getInput(), getDim())))
    return failure();
  FailureOr<ShardingAttr> rest = dropUnreduced(*this, getInput(), getAxis());
  if (failed(rest))
    return failure();
  return expectSharded(*this, *rest, *size);
}

LogicalResult AllGatherOp::verify() {
  FailureOr<int64_t> size = expectAxis(*this, getAxis());
  if (failed(size) || failed(expectDim(*this, getInput(), getDim())))
    return failure();
  ShardingAttr sharding = shardingOf(*this, getInput());
  SmallVector<StringRef> axes = sharding.getDimAxes(getDim());
  if (axes.empty() || axes.back() != getAxis())
    return emitOpError("C2: expected \"")
           << getAxis() << "\" to be the fastest axis that shards dimension "
           << getDim() << ", found " << sharding;
  axes.pop_back();
  if (failed(expectState(*this, "C2", getInput(), getResult(),
                         sharding.withDimAxes(getDim(), axes))))
    return failure();
  SmallVector<int64_t> shape(shapeOf(getInput()));
  shape[getDim()] *= *size;
  return expectShape(*this, getResult(), shape);
}

LogicalResult SliceOp::verify() {
  FailureOr<int64_t> size = expectAxis(*this, getAxis());
  if (failed(size) || failed(expectDim(*this, getInput(), getDim())))
    return failure();
  ShardingAttr sharding = shardingOf(*this, getInput());
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    if (llvm::is_contained(sharding.getDimAxes(dim), getAxis()))
      return emitOpError("C2: expected an input that \"")
             << getAxis() << "\" does not shard, found " << sharding;
  if (sharding.isUnreducedOver(getAxis()))
    return emitOpError("C2: expected an input reduced over \"")
           << getAxis() << "\", found " << sharding;
  return expectSharded(*this, sharding, *size);
}

/// As many as there are terms of a sum over an axis.
template <typename Op>
static double countTerms(Op op) {
  return *optimus::getMesh(op).getAxisSize(op.getAxis());
}

double AllReduceOp::countRoundings(unsigned result) {
  return countTerms(*this);
}
double ReduceScatterOp::countRoundings(unsigned result) {
  return countTerms(*this);
}
double AllGatherOp::countRoundings(unsigned result) { return 0; }
double SliceOp::countRoundings(unsigned result) { return 0; }

/// The axes in a list that have more than one rank, in alphabetic order.
static SmallVector<StringRef> dropSingle(SmallVector<StringRef> axes,
                                         MeshOp mesh) {
  llvm::erase_if(axes, [&](StringRef axis) {
    return mesh.getAxisSize(axis).value_or(1) == 1;
  });
  llvm::sort(axes);
  return axes;
}

/// Checks that a result holds partial sums over the axes that shard targets,
/// and over no others.
static LogicalResult expectPartialSum(Operation *op, StringRef label,
                                      StringRef name, Value value,
                                      Value targets) {
  MeshOp mesh = optimus::getMesh(op);
  SmallVector<StringRef> sharding;
  for (int64_t dim = 0, rank = shapeOf(targets).size(); dim < rank; ++dim)
    sharding.append(getDimAxes(targets.getType(), dim));
  ShardingAttr found = shardingOf(op, value);
  if (dropSingle(found.getUnreducedAxes(), mesh) == dropSingle(sharding, mesh))
    return success();
  return op->emitOpError() << label << ": expected " << name
                           << " unreduced over the axes that shard targets, ["
                           << sharding << "], found " << found;
}

/// Checks that a value is the table's first dimension, sharded as it is.
static LogicalResult expectBias(Operation *op, StringRef label, StringRef name,
                                Value value, Value table) {
  if (shapeOf(value) == shapeOf(table).take_front() &&
      getGlobalShape(value.getType()) ==
          SmallVector<int64_t>(
              ArrayRef(getGlobalShape(table.getType())).take_front()) &&
      shardingOf(op, value).getDimAxes(0) ==
          shardingOf(op, table).getDimAxes(0))
    return success();
  return op->emitOpError()
         << label << ": expected " << name
         << " to be sharded as the first dimension of the table of type "
         << table.getType() << ", found " << value.getType();
}

/// C1 to C4 and C7 of `ccl.head_loss` and its gradient.
static LogicalResult verifyHead(Operation *op, Value h, Value table,
                                Value targets, Value bias, StringRef axis,
                                int64_t chunk) {
  FailureOr<int64_t> size = expectAxis(op, axis);
  if (failed(size))
    return failure();
  ShardingAttr rows = shardingOf(op, table);
  if (rows.getRank() != 2)
    return op->emitOpError("C2: expected a table of rank 2, found rank ")
           << rows.getRank();
  if (rows.getDimAxes(0) != SmallVector<StringRef>{axis})
    return op->emitOpError("C1: expected a table whose rows \"")
           << axis << "\" shards, found " << rows;
  if (!rows.getDimAxes(1).empty())
    return op->emitOpError("C2: expected a table with whole columns, found ")
           << rows;
  int64_t rank = shapeOf(targets).size();
  ShardingAttr hidden = shardingOf(op, h), tokens = shardingOf(op, targets);
  if (hidden.getRank() != rank + 1)
    return op->emitOpError("C3: expected h of rank ")
           << rank + 1 << ", found " << hidden.getRank();
  SmallVector<StringRef> last = hidden.getDimAxes(rank);
  if (!last.empty() && last != SmallVector<StringRef>{axis})
    return op->emitOpError("C3: expected h whole or sharded by \"")
           << axis << "\" along its last dimension, found " << hidden;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (hidden.getDimAxes(dim) != tokens.getDimAxes(dim))
      return op->emitOpError("C3: expected dimension ")
             << dim << " to be sharded alike in h and targets, found " << hidden
             << " and " << tokens;
  SmallVector<int64_t> expected(shapeOf(targets));
  expected.push_back(shapeOf(table)[1] / (last.empty() ? 1 : *size));
  if (shapeOf(h) != ArrayRef<int64_t>(expected))
    return op->emitOpError("C3: expected h of local shape [")
           << expected << "], found [" << shapeOf(h) << ']';
  if (bias && failed(expectBias(op, "C7", "bias", bias, table)))
    return failure();
  if (bias && !shardingOf(op, bias).getUnreduced().empty())
    return op->emitOpError("C7: expected a complete bias, found ")
           << shardingOf(op, bias);
  if (failed(optimus::verifyChunks(op, "C8", targets, table, chunk)) ||
      failed(expectPartialSum(op, "C4", "loss_sum", op->getResult(0), targets)))
    return failure();
  return expectPartialSum(op, "C4", "real_count", op->getResult(1), targets);
}

LogicalResult HeadLossOp::verify() {
  return verifyHead(*this, getH(), getTable(), getTargets(), getBias(),
                    getAxis(), getChunk());
}

LogicalResult HeadLossGradOp::verify() {
  if (failed(verifyHead(*this, getH(), getTable(), getTargets(), getBias(),
                        getAxis(), getChunk())))
    return failure();
  if (getDh().getType() != getH().getType())
    return emitOpError("C5: expected dh of type ")
           << getH().getType() << ", found " << getDh().getType();
  ShardingAttr table = shardingOf(*this, getTable());
  ShardingAttr dtable = shardingOf(*this, getDtable());
  if (shapeOf(getDtable()) != shapeOf(getTable()) ||
      getGlobalShape(getDtable().getType()) !=
          getGlobalShape(getTable().getType()) ||
      dtable.getDims() != table.getDims())
    return emitOpError(
               "C6: expected dtable to be sharded as the table of type ")
           << getTable().getType() << ", found " << getDtable().getType();
  if (failed(
          expectPartialSum(*this, "C6", "dtable", getDtable(), getTargets())))
    return failure();
  if (bool(getBias()) != bool(getDbias()))
    return emitOpError("C6: expected dbias exactly where there is a bias");
  if (!getBias())
    return success();
  if (failed(expectBias(*this, "C6", "dbias", getDbias(), getTable())))
    return failure();
  return expectPartialSum(*this, "C6", "dbias", getDbias(), getTargets());
}

#define GET_OP_CLASSES
#include "optimus/Dialect/CCL/IR/CCLOps.cpp.inc"
