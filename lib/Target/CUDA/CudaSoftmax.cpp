//===- CudaSoftmax.cpp - A softmax whose row stays in registers -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaSoftmax.h"

#include "CudaThreads.h"

#include "optimus/Kernels/SoftmaxParts.h"

#include <limits>
#include <numbers>

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

/// What a thread holds of a row at most, in pieces of 16 bytes: less than half
/// of the registers that the largest block leaves it.
static constexpr int64_t kMostPieces = 13;

namespace {
/// Elements of a row from `at` on.
struct Piece {
  Value at, held;
  int64_t behind; ///< the columns from the first piece to this one
};
} // namespace

// Exponentials are powers of two, as attention has them.
bool mlir::optimus::writeHeldSoftmax(KernelBuilder &k,
                                     const CudaSchedule &schedule,
                                     const SoftmaxOnce &softmax) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  CudaThreads threads(k);
  KernelBuffer logits = k["logits"];
  auto memory = cast<MemRefType>(logits.getMemory().getType());
  constexpr int64_t kPiece = kLoadBytes / 2;
  const int64_t team = threads.getBlock().team, cols = softmax.cols;
  const int64_t pieces = llvm::divideCeil(cols, team * kPiece);
  if (!memory.getElementType().isBF16() || cols % kPiece != 0 ||
      pieces > kMostPieces)
    return false;
  SoftmaxParts parts(k, softmax);
  Type narrow = k.vectorOf(kPiece, b.getBF16Type());
  Type type = k.vectorOf(kPiece, k.f32());
  Num lowest = k.constant(-std::numeric_limits<float>::infinity(), type);
  auto forLanes = [&](Num values, function_ref<Num(Num)> body) {
    SmallVector<Value> results;
    for (int64_t lane = 0; lane < kPiece; ++lane)
      results.push_back(
          body(k.num(vector::ExtractOp::create(b, values.value, lane))).value);
    return k.num(
        vector::FromElementsOp::create(b, cast<VectorType>(type), results));
  };
  // Else LLVM would keep logits as f32, once they were widened, in twice the
  // registers, and what was compared: bits are changed if something happens
  // that does not.
  auto renew = [&](MutableArrayRef<Piece> held, Value &left, Num least,
                   Num number) {
    auto words = cast<VectorType>(k.vectorOf(kPiece / 2, k.i32()));
    Value bits = arith::ExtUIOp::create(b, k.i32(), k.greater(least, number));
    left = arith::XOrIOp::create(b, left, bits);
    for (Piece &piece : held) {
      Value old = vector::BitCastOp::create(b, words, piece.held);
      piece.held = vector::BitCastOp::create(
          b, cast<VectorType>(narrow),
          arith::XOrIOp::create(b, old, k.splat(bits, words)));
    }
  };
  schedule.forRows(k, [&](Value row) {
    Value base = parts.getBase(row);
    SmallVector<Piece> held;
    // Real columns from the first piece on.
    Value left = parts.getLeft(k.mulIndex(threads.getRank(), k.index(kPiece)));
    for (int64_t piece = 0; piece < pieces; ++piece) {
      Value at =
          k.mulIndex(k.addIndex(threads.getRank(), k.index(piece * team)),
                     k.index(kPiece));
      // Behind the row, where no column is real, any piece does.
      Value from = (piece + 1) * team * kPiece <= cols
                       ? at
                       : k.minIndex(at, k.index(cols - kPiece));
      held.push_back({at, logits.loadElements(k.addIndex(base, from), narrow),
                      piece * team * kPiece});
    }
    auto getLeft = [&](const Piece &piece) -> Value {
      return arith::SubIOp::create(
          b, left,
          arith::ConstantOp::create(b, b.getI32IntegerAttr(piece.behind)));
    };
    auto getLogits = [&](const Piece &piece) {
      return k.select(parts.areReal(getLeft(piece), type),
                      k.widen(k.num(piece.held), k.f32()), lowest);
    };
    auto max = [&](Num a, Num c) { return threads.max(a, c); };
    Num top = k.constant(std::numeric_limits<float>::lowest(), k.f32());
    for (const Piece &piece : held)
      forLanes(getLogits(piece), [&](Num logit) {
        top = max(top, logit);
        return logit;
      });
    top = threads.combine({top}, max)[0];
    renew(held, left, k.constant(std::numeric_limits<float>::lowest(), k.f32()),
          top);
    Num exponent = top * std::numbers::log2e;
    auto getExps = [&](const Piece &piece) {
      return forLanes(getLogits(piece), [&](Num logit) {
        return threads.exp2(logit * std::numbers::log2e - exponent);
      });
    };
    Num total = k.constant(0, k.f32());
    for (const Piece &piece : held)
      forLanes(getExps(piece), [&](Num e) {
        total = total + e;
        return e;
      });
    total = threads.combine({total}, [](Num a, Num c) { return a + c; })[0];
    parts.storeSums(row, top, total);
    if (!softmax.grad)
      return;
    renew(held, left, k.constant(0, k.f32()), total);
    // Only now is the row overwritten.
    k.separate();
    SoftmaxParts::Target target = parts.getTarget(row);
    Num inverse = 1.0 / total;
    for (const auto &[number, piece] : llvm::enumerate(held)) {
      auto write = [&, &piece = piece] {
        logits.store(
            parts.getGradient(getExps(piece) * inverse, piece.at, target),
            k.addIndex(base, piece.at));
      };
      // What LLVM cannot know is always so: a branch has ptxas do a piece at a
      // time, in few registers.
      Value isThere = arith::CmpIOp::create(
          b, arith::CmpIPredicate::sgt, getLeft(piece),
          arith::ConstantOp::create(b, b.getI32IntegerAttr(-cols)));
      if (int64_t(number + 1) * team * kPiece > cols)
        isThere = k.both(isThere, k.less(piece.at, k.index(cols)));
      k.when(isThere, write);
    }
  });
  return true;
}
