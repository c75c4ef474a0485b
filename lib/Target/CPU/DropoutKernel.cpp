//===- DropoutKernel.cpp - Dropout with draws sixteen blocks at a time ----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Draws are made for groups of 64 elements that begin at a multiple of 64 of
// the whole tensor: the four words of 16 blocks, one block a lane. A row that
// begins or ends within a group shares the group with its neighbours, which
// may be other ranks', and takes its own elements one by one.
//
//===----------------------------------------------------------------------===//

#include "KernelSupport.h"

#include "optimus-support/Dropout.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <array>

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// Elements whose draws are made together.
constexpr int64_t kGroup = 64;
static_assert(kGroup == 4 * KernelBuilder::kLanes,
              "four words of one block a lane");

/// Philox 4x32-10 in 16 lanes, with the key of a step.
class VectorPhilox {
public:
  VectorPhilox(KernelBuilder &k, Value stream)
      : b(k.getBuilder()), type(k.vectorOf(KernelBuilder::kLanes, i32())) {
    Value words[4];
    for (auto [number, word] : llvm::enumerate(words))
      word = k.loadElement(1, k.index(number));
    key[0] = words[0];
    key[1] = words[1];
    step = splat(words[2]);
    // The step's high word shares a counter word with the block's.
    stepHigh = arith::ShLIOp::create(b, words[3], constant(16));
    this->stream = splat(arith::TruncIOp::create(b, i32(), stream));
    SmallVector<int32_t> numbers;
    for (int32_t lane = 0; lane < KernelBuilder::kLanes; ++lane)
      numbers.push_back(lane);
    lanes = arith::ConstantOp::create(
        b, DenseElementsAttr::get(cast<VectorType>(type),
                                  ArrayRef<int32_t>(numbers)));
  }

  /// The words of blocks [first, first + 16); first, an i64, is a multiple of
  /// 16, so that lanes carry nothing into the high word.
  std::array<Value, 4> draw(Value first) {
    Value high = arith::TruncIOp::create(
        b, i32(),
        arith::ShRUIOp::create(
            b, first, arith::ConstantOp::create(b, b.getI64IntegerAttr(32))));
    std::array<Value, 4> c = {
        arith::AddIOp::create(
            b, splat(arith::TruncIOp::create(b, i32(), first)), lanes),
        splat(arith::OrIOp::create(
            b, stepHigh, arith::AndIOp::create(b, high, constant(0xFFFF)))),
        step, stream};
    Value key0 = key[0], key1 = key[1];
    Value factor0 = splat(constant(0xD2511F53)),
          factor1 = splat(constant(0xCD9E8D57));
    for (int round = 0; round < 10; ++round) {
      auto product0 = arith::MulUIExtendedOp::create(b, factor0, c[0]);
      auto product1 = arith::MulUIExtendedOp::create(b, factor1, c[2]);
      c = {exclusiveOr(product1.getHigh(), c[1], key0), product1.getLow(),
           exclusiveOr(product0.getHigh(), c[3], key1), product0.getLow()};
      key0 = arith::AddIOp::create(b, key0, constant(0x9E3779B9));
      key1 = arith::AddIOp::create(b, key1, constant(0xBB67AE85));
    }
    return c;
  }

  /// The lanes whose word is at least `threshold`.
  Value atLeast(Value words, uint32_t threshold) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::uge, words,
                                 splat(constant(threshold)));
  }

private:
  Type i32() { return b.getI32Type(); }
  Value constant(uint32_t value) {
    return arith::ConstantOp::create(
        b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  Value splat(Value scalar) {
    return vector::BroadcastOp::create(b, type, scalar);
  }
  Value exclusiveOr(Value high, Value word, Value roundKey) {
    return arith::XOrIOp::create(b, arith::XOrIOp::create(b, high, word),
                                 splat(roundKey));
  }

  ImplicitLocOpBuilder &b;
  Type type;
  Value key[2], step, stepHigh, stream, lanes;
};

} // namespace

/// Where a row of a part begins in the whole tensor, but for where the part
/// itself begins.
static Value getRowStart(KernelBuilder &k, Value row, ArrayRef<int64_t> local,
                         ArrayRef<int64_t> whole) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value start = k.index(0);
  int64_t stride = whole.back();
  for (int64_t dim = local.size() - 2; dim >= 0; --dim) {
    Value position = row;
    if (dim > 0) {
      position = arith::RemUIOp::create(b, row, k.index(local[dim]));
      row = arith::DivUIOp::create(b, row, k.index(local[dim]));
    }
    start = k.addIndex(start, k.mulIndex(position, k.index(stride)));
    stride *= whole[dim];
  }
  return start;
}

KernelLaunch CpuKernels::dropout(ArrayRef<int64_t> local,
                                 ArrayRef<int64_t> whole, int64_t addends,
                                 double rate) {
  int64_t rows = 1, wholeSize = 1, cols = local.back();
  std::string name = "dropout";
  for (auto [part, all] : llvm::zip_equal(local, whole)) {
    rows *= part;
    wholeSize *= all;
    name += ("_" + Twine(part) + "of" + Twine(all)).str();
  }
  rows /= cols;
  name += (Twine("_") + Twine(addends) + "_" + bitsOf(rate)).str();
  OperandTypes types(module.getContext());
  types.f32({rows * cols})
      .i32({optimus_support::kNumRandomWords})
      .f32({rows * cols})
      .scalars(1 + addends);
  auto kernel = getOrBuild(name, types, [&](KernelBuilder &k) {
    ImplicitLocOpBuilder &b = k.getBuilder();
    VectorPhilox philox(k, k.arg(3));
    Value microbatch = arith::IndexCastUIOp::create(
        b, b.getIndexType(), k.loadElement(1, k.index(4)));
    Value origin = k.mulIndex(microbatch, k.index(wholeSize));
    for (int64_t i = 0; i < addends; ++i)
      origin = k.addIndex(origin, k.indexArg(4 + i));
    uint32_t threshold = optimus_support::dropoutThreshold(rate);
    Type vector = k.vectorOf(KernelBuilder::kLanes, k.f32());
    Num scale = k.constant(1 / (1 - rate), k.f32());
    Num zero = k.constant(0, k.f32());
    // The group's factors where only some of its elements are the row's.
    Value shared =
        memref::AllocaOp::create(b, MemRefType::get({kGroup}, b.getF32Type()));

    k.iterate([&](Value row) {
      Value base = k.mulIndex(row, k.index(cols));
      Value begin = k.addIndex(origin, getRowStart(k, row, local, whole));
      Value end = k.addIndex(begin, k.index(cols));
      Value first = k.mulIndex(
          arith::DivUIOp::create(b, begin, k.index(kGroup)), k.index(kGroup));
      k.loop(first, end, kGroup, [&](Value group) {
        Value block = arith::IndexCastOp::create(
            b, b.getI64Type(), arith::DivUIOp::create(b, group, k.index(4)));
        std::array<Value, 4> words = philox.draw(block);
        Value groupEnd = k.addIndex(group, k.index(kGroup));
        Value inside = k.both(
            arith::CmpIOp::create(b, arith::CmpIPredicate::sge, group, begin),
            arith::CmpIOp::create(b, arith::CmpIPredicate::sle, groupEnd, end));
        auto eachVector = [&](function_ref<void(Value, int64_t)> body) {
          for (int64_t i = 0; i < 4; ++i)
            body(philox.atLeast(words[i], threshold),
                 i * KernelBuilder::kLanes);
        };
        auto wholeGroup = [&] {
          Value from = k.addIndex(base, k.subIndex(group, begin));
          eachVector([&](Value kept, int64_t at) {
            Value element = k.addIndex(from, k.index(at));
            Num x = k.load(0, element, vector) * k.splat(scale, vector);
            k.store(k.select(kept, x, k.splat(zero, vector)), 2, element);
          });
        };
        auto partOfGroup = [&] {
          eachVector([&](Value kept, int64_t at) {
            Num factors =
                k.select(kept, k.splat(scale, vector), k.splat(zero, vector));
            vector::StoreOp::create(b, factors.value, shared, k.index(at));
          });
          k.loop(
              k.maxIndex(group, begin), k.minIndex(groupEnd, end), 1,
              [&](Value at) {
                Num factor = k.num(
                    memref::LoadOp::create(b, shared, k.subIndex(at, group)));
                Value element = k.addIndex(base, k.subIndex(at, begin));
                Num x = k.load(0, element, k.f32()) * factor;
                // Not what an infinity times 0 would be.
                k.store(k.select(k.greater(factor, zero), x, zero), 2, element);
              });
        };
        k.when(inside, wholeGroup, partOfGroup);
      });
    });
  });
  return {kernel, rows, rowGrain(cols)};
}
