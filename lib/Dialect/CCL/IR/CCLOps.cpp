//===- CCLOps.cpp - Collectives ---------------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalChecks.h"

#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::ccl;
using optimus::ShardingAttr;

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

/// All collectives are the identity on the whole value.
template <typename Op>
static void keepSymbolicValue(Op op, optimus::SymbolicValues &symbolic) {
  symbolic.use(optimus::Lemma::Collective);
  symbolic.set(op.getResult(), symbolic.get(op.getInput()));
}

void AllGatherOp::setSymbolicValues(optimus::SymbolicValues &symbolic) {
  keepSymbolicValue(*this, symbolic);
}
void AllReduceOp::setSymbolicValues(optimus::SymbolicValues &symbolic) {
  keepSymbolicValue(*this, symbolic);
}
void ReduceScatterOp::setSymbolicValues(optimus::SymbolicValues &symbolic) {
  keepSymbolicValue(*this, symbolic);
}
void SliceOp::setSymbolicValues(optimus::SymbolicValues &symbolic) {
  keepSymbolicValue(*this, symbolic);
}

#define GET_OP_CLASSES
#include "optimus/Dialect/CCL/IR/CCLOps.cpp.inc"
