//===- DecomposeOptimizer.cpp - From gradients to states --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The norm of gradients, as %a: [{row}, {col}] and %c: [{col}]:
//
//   global_norm %a, %c -> %0 = sum_squares %c              unreduced {col}
//                         %1 = sum_squares %a              unreduced {col, row}
//                         %2 = ccl.all_reduce %1 over row  unreduced {col}
//                         %3 = ccl.all_reduce (add %0, %2) over col
//                         sqrt %3
//
//===----------------------------------------------------------------------===//

#include "Decompositions.h"

#include <map>

using namespace mlir;
using namespace mlir::optimus;

static LogicalResult decompose(ReshardOp op, Partitioner &p) {
  ShardingAttr layout = getSharding(op.getResult());
  p.getValues().add(op.getResult(), layout, p.get(op.getInput(), layout));
  return success();
}

// Tensors sharded alike are summed together, and so are sums over the same
// missing axes, so that at most three scalars are reduced on a 2D mesh.
static LogicalResult decompose(GlobalNormOp op, Partitioner &p) {
  auto getKey = [&](ArrayRef<StringRef> axes) {
    Axes sorted(axes);
    llvm::sort(sorted);
    return sorted;
  };
  std::map<Axes, SmallVector<Value>> inputs;
  for (Value input : op.getInputs())
    inputs[getKey(getShardingAxes(getDims(input)))].push_back(p.get(input));
  if (inputs.size() == 1 && inputs.begin()->first.empty())
    return failure();

  auto getSumType = [&](const Axes &axes) {
    return p.getType(op.getNorm(), p.getLayout({}, axes));
  };
  std::map<Axes, Value> sums;
  for (auto &[axes, parts] : inputs)
    sums[axes] = SumSquaresOp::create(p.getBuilder(), p.getLoc(),
                                      getSumType(axes), parts);
  for (MeshAxisAttr axis : p.getMesh().getAxisList()) {
    std::map<Axes, Value> reduced;
    for (auto &[axes, sum] : sums) {
      Axes rest = without(axes, axis.getName().getValue());
      Value complete = sum;
      if (rest.size() != axes.size())
        complete = p.getValues().convert(sum, {}, p.getLayout({}, axes),
                                         p.getLayout({}, rest), p.getLoc());
      Value &known = reduced[rest];
      known = known ? AddOp::create(p.getBuilder(), p.getLoc(), known, complete)
                    : complete;
    }
    sums = std::move(reduced);
  }
  ShardingAttr whole = p.getLayout({});
  p.set(op.getNorm(), whole,
        SqrtOp::create(p.getBuilder(), p.getLoc(), sums.begin()->second));
  return success();
}

void mlir::optimus::attachOptimizerDecompositions(MLIRContext &context) {
  Decomposition<ReshardOp, decompose>::attach(context);
  Decomposition<GlobalNormOp, decompose>::attach(context);
}
