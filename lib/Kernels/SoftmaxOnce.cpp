//===- SoftmaxOnce.cpp - Softmax and gradient of a row at once --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/SoftmaxParts.h"

#include "TableEntry.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

void SoftmaxOnce::describe(KernelDescription &description) const {
  description.option("grad", grad);
  description.size(rows, cols);
  description.overRows(rows, cols);
  if (grad)
    description.update("logits", rows * cols);
  else
    description.read("logits", rows * cols);
  description.read("targets", rows, description.i32())
      .write("sums", rows * 2)
      .scalar("first")
      .scalar("real");
}

Value SoftmaxParts::getLeft(Value at) {
  return arith::IndexCastOp::create(b, k.i32(), k.subIndex(real, at));
}

Value SoftmaxParts::areReal(Value left, Type type) {
  Value lanes = k.countLanes(k.index(0), type);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lanes,
                               k.splat(left, lanes.getType()));
}

void SoftmaxParts::storeSums(Value row, Num max, Num total) {
  KernelBuffer sums = k["sums"];
  Value out = k.mulIndex(row, k.index(2));
  Value outTarget = k.addIndex(out, k.index(1));
  k.once([&] {
    sums.store(total, out);
    sums.store(k.constant(0, k.f32()), outTarget);
    whenInTable(k, k["targets"], row, first, softmax.cols, [&](Value column) {
      k.when(k.less(column, real), [&] {
        Num logit = k["logits"].load(k.addIndex(getBase(row), column));
        sums.store(logit - max, outTarget);
      });
    });
  });
}

SoftmaxParts::Target SoftmaxParts::getTarget(Value row) {
  Value target = k["targets"].loadElement(row);
  Value zero = arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
  return {arith::CmpIOp::create(b, arith::CmpIPredicate::sge, target, zero),
          arith::SubIOp::create(b, target,
                                arith::IndexCastOp::create(b, k.i32(), first))};
}

Num SoftmaxParts::getGradient(Num probabilities, Value at,
                              const Target &target) {
  Type type = probabilities.getType();
  Num zero = k.constant(0, type);
  Value lanes = k.countLanes(k.index(0), type);
  Value lane = arith::SubIOp::create(
      b, target.column, arith::IndexCastOp::create(b, k.i32(), at));
  Value isHot = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lanes,
                                      k.splat(lane, lanes.getType()));
  Num gradient = probabilities - k.select(isHot, k.constant(1, type), zero);
  return k.select(target.isReal,
                  k.select(areReal(getLeft(at), type), gradient, zero), zero);
}

void SoftmaxOnce::build(KernelBuilder &k) const {
  if (k.getSchedule().writeSoftmax(k, *this))
    return;
  SoftmaxParts parts(k, *this);
  KernelBuffer logits = k["logits"];
  Value real = k.getIndex("real");
  k.forRows([&](Value row) {
    Value base = parts.getBase(row);
    Num max = k.maximum(real, [&](Value at, Type type) {
      return logits.load(k.addIndex(base, at), type);
    });
    auto getExp = [&](Value at, Type type) {
      return k.exp(logits.load(k.addIndex(base, at), type) - max);
    };
    Num total = k.sums(real, 1, [&](Value at, Type type) {
      return Terms{getExp(at, type)};
    })[0];
    parts.storeSums(row, max, total);
    if (!grad)
      return;
    // Only now is the row overwritten.
    k.separate();
    SoftmaxParts::Target target = parts.getTarget(row);
    Num inverse = 1.0 / total;
    k.lanes(cols, [&](Value at, Type type) {
      logits.store(parts.getGradient(getExp(at, type) * inverse, at, target),
                   k.addIndex(base, at));
    });
  });
}
