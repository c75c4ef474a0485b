//===- HeadLoss.cpp - The output head among ranks ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalChecks.h"

#include "optimus/Dialect/Optimus/IR/MeshRanks.h"
#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

using namespace mlir;
using namespace mlir::ccl;
using optimus::MeshOp;
using optimus::ShardingAttr;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// The axes in a list that have more than one rank, in alphabetic order.
static SmallVector<StringRef> dropSingle(SmallVector<StringRef> axes,
                                         MeshOp mesh) {
  llvm::erase_if(axes, [&](StringRef axis) {
    return optimus::getRanksAlong(mesh, axis) == 1;
  });
  llvm::sort(axes);
  return axes;
}

/// Checks that a result holds partial sums over exactly the sharding axes of
/// targets.
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
  if (elementTypeOf(table) != elementTypeOf(h))
    return op->emitOpError("C9: expected h and a table of one element type, "
                           "found ")
           << elementTypeOf(h) << " and " << elementTypeOf(table);
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
  auto h = cast<RankedTensorType>(getH().getType());
  Type wide = h.clone(Float32Type::get(getContext()));
  if (getDh().getType() != h && getDh().getType() != wide) {
    auto error = emitOpError("C5: expected dh of type ") << h;
    if (wide != h)
      error << " or " << wide;
    return error << ", found " << getDh().getType();
  }
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

//===----------------------------------------------------------------------===//
// What passes ask
//===----------------------------------------------------------------------===//

/// What chunks add up: the hidden dimension for logits, the vocabulary for the
/// softmax and the gradient of h, tokens for the rest.
template <typename Op>
static double countHeadRoundings(Op head) {
  auto h = cast<RankedTensorType>(head.getH().getType()),
       table = cast<RankedTensorType>(head.getTable().getType());
  double tokens = 1;
  for (int64_t extent : h.getShape().drop_back())
    tokens *= extent;
  return optimus::RoundingOpInterface::kElementwise + tokens +
         table.getDimSize(1) + table.getDimSize(0) +
         optimus::getMesh(head).getProduct(getDimAxes(table, 0));
}

double HeadLossOp::countRoundings(unsigned result) {
  return countHeadRoundings(*this);
}
double HeadLossGradOp::countRoundings(unsigned result) {
  return countHeadRoundings(*this);
}

void HeadLossOp::setSymbolicValues(optimus::SymbolicValues &symbolic) {
  symbolic.use(optimus::Lemma::DistributedHead);
  optimus::detail::setHeadSymbolicValues(symbolic, getH(), getTable(),
                                         getTargets(), getBias(), getResults());
}
void HeadLossGradOp::setSymbolicValues(optimus::SymbolicValues &symbolic) {
  symbolic.use(optimus::Lemma::DistributedHead);
  optimus::detail::setHeadSymbolicValues(symbolic, getH(), getTable(),
                                         getTargets(), getBias(), getResults());
}
