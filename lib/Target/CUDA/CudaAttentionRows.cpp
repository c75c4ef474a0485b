//===- CudaAttentionRows.cpp - Rows of a block of attention -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaAttentionRows.h"

using namespace mlir;
using namespace mlir::optimus;

using kernels::AttentionPart;

void CudaAttentionRows::write(AttentionPart part) {
  switch (part) {
  case AttentionPart::Forward:
    return writeForward();
  case AttentionPart::QueryGrad:
    return writeQueryGrad();
  case AttentionPart::KeyGrad:
    return writeKeyGrad();
  }
}

CudaAttentionRows::Place CudaAttentionRows::getPlace(Value number,
                                                     int64_t heads) {
  int64_t inHead = llvm::divideCeil(extents.seq, kGroupRows);
  Value inBatch = divide(number, inHead);
  Place place;
  place.batch = divide(inBatch, heads);
  place.head = remainder(inBatch, heads);
  place.begin = k.mulIndex(remainder(number, inHead), k.index(kGroupRows));
  Value first = k.addIndex(place.begin, tiles.getRow());
  for (int64_t half : {0, 1}) {
    place.tokens[half] = k.addIndex(first, k.index(half * 8));
    place.clamped[half] =
        k.minIndex(place.tokens[half], k.index(extents.seq - 1));
  }
  return place;
}

CudaAttentionRows::Place CudaAttentionRows::getQueries(Value number) {
  Place place = getPlace(number, extents.heads);
  if (extents.hasFirstKeys())
    for (int64_t half : {0, 1})
      place.firsts[half] = getFirstKey(place.batch, place.clamped[half]);
  return place;
}

Value CudaAttentionRows::getKeysBegin(const Place &queries, int64_t rows) {
  if (!extents.hasFirstKeys())
    return k.index(0);
  Value first = getFirstKey(queries.batch, queries.begin);
  return k.mulIndex(divide(first, rows), k.index(rows));
}

Value CudaAttentionRows::getQueriesEnd(const Place &keys) {
  Value most = getWindowsEnd(keys.begin, kGroupRows);
  if (!extents.hasPositions)
    return most;
  SmallVector<Value> ends = k.loop(
      keys.begin, most, kGroupRows, SmallVector<Value>{keys.begin},
      [&](Value token, ValueRange carried) {
        Value isSeeing = k.less(getFirstKey(keys.batch, token), keys.getEnd(k));
        Value end = k.minIndex(k.addIndex(token, k.index(kGroupRows)), most);
        return SmallVector<Value>{
            arith::SelectOp::create(b, isSeeing, end, carried[0])};
      });
  return ends[0];
}

void CudaAttentionRows::storeLse(const Place &place, int64_t half, Num top,
                                 Num total) {
  k.when(k.less(place.tokens[half], k.index(extents.seq)), [&] {
    tiles.oncePerRow([&] {
      Num lse = k.narrow(k.widen(top) + k.log(k.widen(total)));
      k["lse"].store(lse, atRow(place.getRow(place.tokens[half])));
    });
  });
}

Num CudaAttentionRows::makeDelta(const Place &place, int64_t half) {
  Num delta =
      tiles.dotRow(k["dout"], k["out"], getBegin(place, half, getOutStride()));
  k.when(k.less(place.tokens[half], k.index(extents.seq)), [&] {
    tiles.oncePerRow([&] {
      k["delta"].store(delta, atRow(place.getRow(place.clamped[half])));
    });
  });
  return delta;
}

void CudaAttentionRows::store(ArrayRef<Value> sums, const Place &place,
                              StringRef name, int64_t stride,
                              ArrayRef<Num> factors) {
  for (int64_t half : {0, 1})
    k.when(k.less(place.tokens[half], k.index(extents.seq)), [&] {
      tiles.store(Sums(sums.begin(), sums.end()), half, factors[half], k[name],
                  at(place.getRow(place.tokens[half]), stride));
    });
}
