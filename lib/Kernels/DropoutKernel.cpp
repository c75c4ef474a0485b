//===- DropoutKernel.cpp - Dropout with draws by groups of lanes ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Draws are made for groups of 64 elements that begin at a multiple of 64 of
// the whole tensor: the four words of 16 blocks, one block a lane. A row that
// begins or ends within a group shares the group with its neighbours, on other
// ranks perhaps, and takes its own elements one by one.
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/ElementwiseKernels.h"

#include "optimus/Kernels/KernelBuilder.h"

#include "optimus-support/Dropout.h"

#include <array>

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

namespace {

/// Blocks that are drawn together, and their elements.
constexpr int64_t kGroupBlocks = 16;
constexpr int64_t kGroup = 4 * kGroupBlocks;

/// Philox 4x32-10, with the key of a step, in the lanes of any type.
class LanePhilox {
public:
  LanePhilox(KernelBuilder &k, KernelBuffer random, Value stream)
      : k(k), b(k.getBuilder()) {
    Value words[4];
    for (auto [number, word] : llvm::enumerate(words))
      word = random.loadElement(k.index(number));
    key[0] = words[0];
    key[1] = words[1];
    step = words[2];
    // The step's high word shares a counter word with the block's.
    stepHigh = arith::ShLIOp::create(b, words[3], constant(16));
    this->stream = arith::TruncIOp::create(b, k.i32(), stream);
  }

  /// The words of the blocks of lanes `lane` and on, as many as `type` has,
  /// after block `first`; `first`, an i64, is a multiple of 16, so that lanes
  /// carry nothing into the high word.
  std::array<Value, 4> draw(Value first, Value lane, Type type) {
    Type words = k.withElement(type, k.i32());
    auto splat = [&](Value scalar) { return k.splat(scalar, words); };
    Value high = arith::TruncIOp::create(
        b, k.i32(),
        arith::ShRUIOp::create(
            b, first, arith::ConstantOp::create(b, b.getI64IntegerAttr(32))));
    std::array<Value, 4> c = {
        arith::AddIOp::create(b,
                              splat(arith::TruncIOp::create(b, k.i32(), first)),
                              k.countLanes(lane, type)),
        splat(arith::OrIOp::create(
            b, stepHigh, arith::AndIOp::create(b, high, constant(0xFFFF)))),
        splat(step), splat(stream)};
    Value key0 = key[0], key1 = key[1];
    Value factor0 = splat(constant(0xD2511F53)),
          factor1 = splat(constant(0xCD9E8D57));
    auto exclusiveOr = [&](Value high, Value word, Value roundKey) -> Value {
      return arith::XOrIOp::create(b, arith::XOrIOp::create(b, high, word),
                                   splat(roundKey));
    };
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
                                 k.splat(constant(threshold), words.getType()));
  }

private:
  Value constant(uint32_t value) {
    return arith::ConstantOp::create(
        b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }

  KernelBuilder &k;
  ImplicitLocOpBuilder &b;
  Value key[2], step, stepHigh, stream;
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

static int64_t getProduct(ArrayRef<int64_t> extents) {
  int64_t product = 1;
  for (int64_t extent : extents)
    product *= extent;
  return product;
}

static std::string getAddend(int64_t number) {
  return "addend" + std::to_string(number);
}

void Dropout::visit(KernelParameters &parameters) {
  parameters.extents("local", local);
  parameters.extents("whole", whole);
  parameters.require(local.size() == whole.size(),
                     "the part and the whole differ in rank");
  parameters.integer("addends", addends);
  parameters.require(addends >= 0 && addends <= int64_t(local.size()),
                     "there are more addends than dimensions");
  parameters.number("rate", rate);
  parameters.require(rate >= 0 && rate < 1, "the rate is not in [0, 1)");
}

void Dropout::describe(KernelDescription &description) const {
  for (auto [part, all] : llvm::zip_equal(local, whole))
    description.text(Twine(part) + "of" + Twine(all));
  description.size(addends);
  description.number(rate);
  int64_t n = getProduct(local), cols = local.back();
  description.overRows(n / cols, cols, kGroupBlocks);
  description.read("x", n)
      .ofRows()
      .read("random", optimus_support::kNumRandomWords, description.i32())
      .write("result", n)
      .inPlaceOf({"x"})
      .ofRows()
      .scalar("stream");
  for (int64_t i = 0; i < addends; ++i)
    description.scalar(getAddend(i));
}

void Dropout::build(KernelBuilder &k) const {
  ImplicitLocOpBuilder &b = k.getBuilder();
  KernelBuffer x = k["x"], random = k["random"], result = k["result"];
  const int64_t cols = local.back();
  LanePhilox philox(k, random, k.getScalar("stream"));
  Value microbatch = arith::IndexCastUIOp::create(
      b, b.getIndexType(), random.loadElement(k.index(4)));
  Value origin = k.mulIndex(microbatch, k.index(getProduct(whole)));
  for (int64_t i = 0; i < addends; ++i)
    origin = k.addIndex(origin, k.getIndex(getAddend(i)));
  uint32_t threshold = optimus_support::dropoutThreshold(rate);
  Num scale = k.constant(1 / (1 - rate), k.f32());
  Num zero = k.constant(0, k.f32());
  // The group's factors where only some of its elements are the row's.
  KernelBuffer shared = k.allocateShared(kGroup);

  k.forRows([&](Value row) {
    Value base = k.mulIndex(row, k.index(cols));
    Value begin = k.addIndex(origin, getRowStart(k, row, local, whole));
    Value end = k.addIndex(begin, k.index(cols));
    Value first = k.mulIndex(arith::DivUIOp::create(b, begin, k.index(kGroup)),
                             k.index(kGroup));
    k.loop(first, end, kGroup, [&](Value group) {
      Value block = arith::IndexCastOp::create(
          b, b.getI64Type(), arith::DivUIOp::create(b, group, k.index(4)));
      Value groupEnd = k.addIndex(group, k.index(kGroup));
      Value inside = k.both(
          arith::CmpIOp::create(b, arith::CmpIPredicate::sge, group, begin),
          arith::CmpIOp::create(b, arith::CmpIPredicate::sle, groupEnd, end));
      // The kept lanes, and their elements of the group.
      auto forWords = [&](function_ref<void(Value, Value, Type)> body) {
        k.lanes(kGroupBlocks, [&](Value lane, Type type) {
          std::array<Value, 4> words = philox.draw(block, lane, type);
          for (int64_t i = 0; i < 4; ++i)
            body(philox.atLeast(words[i], threshold),
                 k.addIndex(k.index(i * kGroupBlocks), lane), type);
        });
      };
      auto wholeGroup = [&] {
        Value from = k.addIndex(base, k.subIndex(group, begin));
        forWords([&](Value kept, Value at, Type type) {
          Value element = k.addIndex(from, at);
          Num product = x.load(element, type) * k.splat(scale, type);
          result.store(k.select(kept, product, k.splat(zero, type)), element);
        });
      };
      auto partOfGroup = [&] {
        forWords([&](Value kept, Value at, Type type) {
          shared.store(
              k.select(kept, k.splat(scale, type), k.splat(zero, type)), at);
        });
        k.separate();
        k.each(k.maxIndex(group, begin), k.minIndex(groupEnd, end),
               [&](Value at) {
                 Num factor = shared.load(k.subIndex(at, group));
                 Value element = k.addIndex(base, k.subIndex(at, begin));
                 Num product = x.load(element) * factor;
                 // Not what an infinity times 0 would be.
                 result.store(k.select(k.greater(factor, zero), product, zero),
                              element);
               });
        k.separate();
      };
      k.when(inside, wholeGroup, partOfGroup);
    });
  });
}
