//===- CudaTiles.cpp - Products of a warp -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaTiles.h"

using namespace mlir;
using namespace mlir::optimus;

/// Elements that a lane takes at a time where it multiplies numbers.
static constexpr int64_t kNumbers = 4;

CudaTiles::CudaTiles(KernelBuilder &k, int64_t dim)
    : k(k), b(k.getBuilder()), threads(k), dim(dim) {}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

Value CudaTiles::divide(Value value, int64_t divisor) {
  return arith::DivUIOp::create(b, value, k.index(divisor));
}
Value CudaTiles::remainder(Value value, int64_t divisor) {
  return arith::RemUIOp::create(b, value, k.index(divisor));
}
Value CudaTiles::getLane() {
  return remainder(threads.getThread(), kWarpThreads);
}
Value CudaTiles::getGroup() { return divide(getLane(), kRowLanes); }
Value CudaTiles::getMember() { return remainder(getLane(), kRowLanes); }

Value CudaTiles::getRow() {
  Value warp = divide(threads.getThread(), kWarpThreads);
  return k.addIndex(k.mulIndex(warp, k.index(kWarpRows)), getGroup());
}

void CudaTiles::oncePerRow(function_ref<void()> body) {
  k.when(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, getMember(),
                               k.index(0)),
         body);
}

void CudaTiles::forEach(Sums &sums,
                        function_ref<Num(Num, int64_t, Value)> body) {
  Value pair = k.mulIndex(getMember(), k.index(2));
  for (auto [number, sum] : llvm::enumerate(sums)) {
    int64_t tile = number / 4, half = number / 2 % 2, next = number % 2;
    sum = body(k.num(sum), half, addTo(pair, tile * kTile + next)).value;
  }
}

Value CudaTiles::extract(Value vector, int64_t lane) {
  return vector::ExtractOp::create(b, vector, lane);
}

Value CudaTiles::pack(ArrayRef<Value> elements) {
  return vector::FromElementsOp::create(
      b, k.vectorOf(elements.size(), elements.front().getType()), elements);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

CudaTiles::Shared CudaTiles::allocate(StringRef name) {
  // Rows begin in different banks.
  int64_t stride = dim + kNumbers;
  return {{k, threads.getShared(name, kSharedRows * stride, k.f32())}, stride};
}

void CudaTiles::copy(KernelBuffer from, Value first, Value limit,
                     function_ref<Value(Value)> getBegin, const Shared &to) {
  const int64_t inRow = dim / kNumbers, all = kSharedRows * inRow;
  auto type = cast<VectorType>(k.vectorOf(kNumbers, k.f32()));
  Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(type));
  Value last = k.subIndex(limit, k.index(1));
  k.loop(threads.getThread(), k.index(all), threads.getBlock().threads,
         [&](Value piece) {
           Value row = divide(piece, inRow);
           Value column =
               k.mulIndex(remainder(piece, inRow), k.index(kNumbers));
           Value token = k.addIndex(first, row);
           Value at = k.addIndex(getBegin(k.minIndex(token, last)), column);
           Value loaded = from.load(at, type).value;
           Value kept =
               arith::SelectOp::create(b, k.less(token, limit), loaded, zeros);
           to.memory.storeElements(
               kept, k.addIndex(k.mulIndex(row, k.index(to.stride)), column));
         });
}

Num CudaTiles::dotRow(KernelBuffer a, KernelBuffer c, Value begin) {
  const int64_t share = dim / kRowLanes;
  Type type = k.vectorOf(kNumbers, k.f32());
  Num sum = k.constant(0, type);
  Value at = k.addIndex(begin, k.mulIndex(getMember(), k.index(share)));
  for (int64_t column = 0; column < share; column += kNumbers) {
    Value here = addTo(at, column);
    sum = sum + a.load(here, type) * c.load(here, type);
  }
  return combineRow(k.reduce(vector::CombiningKind::ADD, sum),
                    [](Num a, Num c) { return a + c; });
}

void CudaTiles::store(const Sums &sums, int64_t half, Num factor,
                      KernelBuffer to, Value begin) {
  Value at = k.addIndex(begin, k.mulIndex(getMember(), k.index(2)));
  for (int64_t tile = 0; tile < dim / kTile; ++tile) {
    ArrayRef<Value> pair = ArrayRef(sums).slice(tile * 4 + half * 2, 2);
    to.store(k.num(pack(pair)) * factor, addTo(at, tile * kTile));
  }
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

CudaTiles::Sums CudaTiles::multiply(const Own &own, const Shared &others) {
  Type type = k.vectorOf(kNumbers, k.f32());
  Value begin = k.mulIndex(getMember(), k.index(2 * others.stride));
  return k.loop(
      k.index(0), k.index(dim), kNumbers, getZeros(kSharedRows),
      [&](Value column, ValueRange carried) {
        Num a[] = {own.memory.load(k.addIndex(own.begins[0], column), type),
                   own.memory.load(k.addIndex(own.begins[1], column), type)};
        Sums sums(carried.begin(), carried.end());
        for (int64_t tile = 0; tile < kSharedRows / kTile; ++tile)
          for (int64_t next : {0, 1}) {
            int64_t row = tile * kTile + next;
            Num c = others.memory.load(
                addTo(k.addIndex(begin, column), row * others.stride), type);
            for (int64_t half : {0, 1}) {
              Value &sum = sums[tile * 4 + half * 2 + next];
              for (int64_t i = 0; i < kNumbers; ++i)
                sum = (k.num(sum) + k.num(extract(a[half].value, i)) *
                                        k.num(extract(c.value, i)))
                          .value;
            }
          }
        return sums;
      });
}

// Weights go to the other lanes through memory of the warp's.
CudaTiles::Sums CudaTiles::accumulate(Sums sums, const Sums &weights,
                                      const Shared &others) {
  const int64_t stride = kSharedRows + kNumbers;
  const int64_t warps = threads.getBlock().threads / kWarpThreads;
  KernelBuffer room(
      k, threads.getShared("weights", warps * kWarpRows * stride, k.f32()));
  Value warp = divide(threads.getThread(), kWarpThreads);
  Value row = k.addIndex(k.mulIndex(warp, k.index(kWarpRows)), getGroup());
  Value begins[] = {k.mulIndex(row, k.index(stride)),
                    k.mulIndex(addTo(row, kTile), k.index(stride))};
  threads.synchronizeWarp();
  Sums copies = weights;
  forEach(copies, [&](Num weight, int64_t half, Value column) {
    room.store(weight, k.addIndex(begins[half], column));
    return weight;
  });
  threads.synchronizeWarp();
  Type type = k.vectorOf(kNumbers, k.f32());
  Value pair = k.mulIndex(getMember(), k.index(2));
  return k.loop(k.index(0), k.index(kSharedRows), kNumbers, sums,
                [&](Value from, ValueRange carried) {
                  Num a[] = {room.load(k.addIndex(begins[0], from), type),
                             room.load(k.addIndex(begins[1], from), type)};
                  Value begin = k.addIndex(
                      k.mulIndex(from, k.index(others.stride)), pair);
                  Sums sums(carried.begin(), carried.end());
                  for (int64_t i = 0; i < kNumbers; ++i)
                    for (int64_t tile = 0; tile < dim / kTile; ++tile) {
                      Num c = others.memory.load(
                          addTo(begin, i * others.stride + tile * kTile),
                          k.vectorOf(2, k.f32()));
                      for (int64_t half : {0, 1})
                        for (int64_t next : {0, 1}) {
                          Value &sum = sums[tile * 4 + half * 2 + next];
                          sum = (k.num(sum) + k.num(extract(a[half].value, i)) *
                                                  k.num(extract(c.value, next)))
                                    .value;
                        }
                    }
                  return sums;
                });
}
