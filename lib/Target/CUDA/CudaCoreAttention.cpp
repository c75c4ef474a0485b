//===- CudaCoreAttention.cpp - Attention by tensor cores --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of bf16, as FlashAttention-2 has it. Exponentials are powers of two:
//
//   P = exp(s scale - lse) = 2^(s scale log2(e) - lse log2(e)),
//
// one fused multiply-add and one ex2.approx for each score s. Only tiles with
// pairs that do not meet are masked; all others come from a loop of their own.
//
//===----------------------------------------------------------------------===//

#include "CudaAttentionRows.h"
#include "CudaTensorCores.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

#include <limits>
#include <numbers>

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

/// The columns of most models' heads, for which tiles are widest.
static constexpr int64_t kNarrow = 64;
/// The columns of a head up to which two operands of a warp stay in registers
/// beside the sums of two results.
static constexpr int64_t kMostHeld = 96;

/// Whether each tile has all of its rows. Testing for the others takes
/// registers.
static bool isWhole(const AttentionExtents &extents) {
  return !extents.hasLengths && !extents.hasFirstKeys() &&
         extents.seq % kGroupRows == 0;
}

/// The rows of a tile. No register is spilled, and two tiles of two tensors fit
/// the 48 KiB of a block on every GPU.
static int64_t chooseTileRows(const AttentionExtents &extents,
                              AttentionPart part) {
  bool isNarrow = extents.headDim <= kNarrow;
  switch (part) {
  case AttentionPart::Forward:
    return isNarrow ? 64 : 32;
  case AttentionPart::QueryGrad:
    return 32;
  case AttentionPart::KeyGrad:
    if (isNarrow && isWhole(extents))
      return 64;
    // Masks of windows alone take some registers more.
    if (extents.window && !extents.hasPositions && !isNarrow)
      return 16;
    return extents.headDim <= kMostHeld ? 32 : 16;
  }
  llvm_unreachable("all parts are covered");
}

/// How many blocks an SM is to hold, as far as no register is spilled.
static int64_t chooseBlocks(const AttentionExtents &extents,
                            AttentionPart part) {
  if (extents.headDim > kNarrow || !isWhole(extents) ||
      part == AttentionPart::KeyGrad)
    return 1;
  return part == AttentionPart::Forward ? 4 : 3;
}

namespace {
class CoreAttention : public CudaAttentionRows {
public:
  CoreAttention(KernelBuilder &k, const AttentionExtents &extents,
                AttentionPart part)
      : CudaAttentionRows(k, extents),
        cores(k, tiles, extents.headDim, chooseTileRows(extents, part)) {}

private:
  void writeForward() override;
  void writeQueryGrad() override;
  void writeKeyGrad() override;

  using Own = CudaTensorCores::Own;
  using Shared = CudaTensorCores::Shared;

  Own getOwn(StringRef name, const Place &place, int64_t stride, bool hold) {
    return cores.getOwn(k[name], getBegin(place, 0, stride),
                        getBegin(place, 1, stride), hold);
  }
  /// Begins to copy the rows of a head from `first` on.
  void share(StringRef name, const Row &first, int64_t stride, Value limit,
             bool isWhole, const Shared &to, Value stage) {
    cores.copy(
        {k[name], at(first, stride), stride, first.token, limit, isWhole}, to,
        stage);
  }

  /// The same of keys and values.
  void shareKeys(const Row &first, Value length, const Shared &keys,
                 const Shared &values, Value stage) {
    share("k", first, extents.kvStride, length, hasWholeKeys(), keys, stage);
    share("v", first, extents.kvStride, length, hasWholeKeys(), values, stage);
  }

  /// Tiles of rows [from, to). In a part of them some pairs do not meet.
  struct Range {
    Value from, to;
    /// Where the masked part begins, or else where it ends.
    Value masked;
    bool isMaskedFirst = false;
    /// Whether all tiles are of the other part.
    bool isUnmasked = false;
  };
  /// Goes through the tiles: `load` begins to copy one, `body` has it.
  Sums forTiles(
      const Range &range, Sums sums,
      function_ref<void(Value first, Value stage)> load,
      function_ref<Sums(Value first, Value stage, Sums sums, bool isMasked)>
          body);
  /// The tiles of keys that a block's queries see.
  Range getKeys(const Place &place, Value length);
  /// Whether tiles of keys have none that is not there.
  bool hasWholeKeys() const {
    return !extents.hasLengths && extents.seq % cores.getTileRows() == 0;
  }

  /// Whether a query sees a key so many tokens before it: one of its document
  /// and of its window. `position`, or else the window's reach, has the bits of
  /// an i32.
  Value isWithin(Num position, Value distance) {
    auto cast = [&](Value index) {
      return arith::IndexCastOp::create(b, k.i32(), index);
    };
    Value bits = arith::BitcastOp::create(b, k.i32(), position.value);
    Value reach = arith::MaxSIOp::create(b, bits, cast(k.index(0)));
    if (extents.hasPositions && extents.window)
      reach =
          arith::MinSIOp::create(b, reach, cast(k.index(*extents.window - 1)));
    // A later key is far beyond any position.
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ule, cast(distance),
                                 reach);
  }
  Num exp2(Num x) { return threads.exp2(x); }
  Num max(Num a, Num c) { return threads.max(a, c); }
  /// What scores are multiplied by, for a power of two.
  double getFactor() const { return extents.getScale() * std::numbers::log2e; }

  CudaTensorCores cores;
};
} // namespace

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

CoreAttention::Sums
CoreAttention::forTiles(const Range &range, Sums sums,
                        function_ref<void(Value, Value)> load,
                        function_ref<Sums(Value, Value, Sums, bool)> body) {
  const int64_t step = cores.getTileRows();
  auto begin = [&](Value first) {
    load(first, cores.getStage(first));
    cores.commit();
  };
  // All are done with the tiles before.
  threads.synchronizeBlock();
  k.when(k.less(range.from, range.to), [&] { begin(range.from); });
  auto cover = [&](Value from, Value to, bool isMasked) {
    sums = k.loop(from, to, step, sums, [&](Value first, ValueRange carried) {
      cores.await();
      Value next = k.addIndex(first, k.index(step));
      k.when(k.less(next, range.to), [&] { begin(next); });
      return body(first, cores.getStage(first),
                  Sums(carried.begin(), carried.end()), isMasked);
    });
  };
  if (range.isUnmasked) {
    cover(range.from, range.to, false);
  } else {
    cover(range.from, range.masked, range.isMaskedFirst);
    cover(range.masked, range.to, !range.isMaskedFirst);
  }
  return sums;
}

CoreAttention::Range CoreAttention::getKeys(const Place &place, Value length) {
  Range range;
  range.from = getKeysBegin(place, cores.getTileRows());
  range.to = getNumKeys(place.getEnd(k), length);
  // Documents and windows begin in any of them.
  if (extents.hasFirstKeys()) {
    range.masked = range.from;
    return range;
  }
  range.isUnmasked = !extents.causal && hasWholeKeys();
  range.masked = k.mulIndex(divide(length, cores.getTileRows()),
                            k.index(cores.getTileRows()));
  // Those before all of the block's queries.
  if (extents.causal)
    range.masked = k.minIndex(range.masked, place.begin);
  return range;
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

// What is carried: of each of the two rows the greatest score, unscaled, and
// the sum of exponentials, of the lane's columns, and then the sums of values.
// Every query sees a key of the first tile, so that the greatest score is
// finite from there on; where positions or a window say otherwise the lowest is
// finite, and weights are masked too.
void CoreAttention::writeForward() {
  Shared keys = cores.allocate("keys"), values = cores.allocate("values");
  k.forRows([&](Value number) {
    Place place = getQueries(number);
    Own queries = getOwn("q", place, extents.qStride, /*hold=*/true);
    Value keyHead = getKeyHead(place.head);
    Value length = getLength(place.batch);
    Num lowest = k.constant(extents.hasFirstKeys()
                                ? std::numeric_limits<float>::lowest()
                                : -std::numeric_limits<float>::infinity(),
                            k.f32());
    Sums init = {lowest.value, lowest.value, getZero().value, getZero().value};
    init.append(tiles.getZeros(extents.headDim));
    auto load = [&](Value first, Value stage) {
      shareKeys({place.batch, keyHead, first}, length, keys, values, stage);
    };
    auto body = [&](Value first, Value stage, Sums carried, bool isMasked) {
      Sums weights = cores.multiply(queries, keys, stage);
      Num tops[] = {k.num(carried[0]), k.num(carried[1])};
      auto isVisible = [&](int64_t half, Value column) {
        return isSeen(k.addIndex(first, column), place, half, length);
      };
      tiles.forEach(weights, [&](Num score, int64_t half, Value column) {
        if (isMasked)
          score = k.select(isVisible(half, column), score, lowest);
        tops[half] = max(tops[half], score);
        return score;
      });
      Num keeps[2], exponents[2];
      Num totals[] = {k.num(carried[2]), k.num(carried[3])};
      for (int64_t half : {0, 1}) {
        tops[half] = tiles.combineRow(tops[half],
                                      [&](Num a, Num c) { return max(a, c); });
        exponents[half] = tops[half] * getFactor();
        keeps[half] = exp2((k.num(carried[half]) - tops[half]) * getFactor());
        totals[half] = totals[half] * keeps[half];
      }
      tiles.forEach(weights, [&](Num score, int64_t half, Value column) {
        Num weight = exp2(score * getFactor() - exponents[half]);
        if (extents.hasFirstKeys())
          weight = k.select(isVisible(half, column), weight, getZero());
        totals[half] = totals[half] + weight;
        return weight;
      });
      Sums next = {tops[0].value, tops[1].value, totals[0].value,
                   totals[1].value};
      Sums sums(carried.begin() + 4, carried.end());
      tiles.forEach(sums, [&](Num sum, int64_t half, Value) {
        return sum * keeps[half];
      });
      cores.accumulate(sums, cores.round(weights), values, stage);
      next.append(sums);
      return next;
    };
    Sums ends = forTiles(getKeys(place, length), init, load, body);
    SmallVector<Num, 2> inverses;
    for (int64_t half : {0, 1}) {
      Num top = k.num(ends[half]) * extents.getScale();
      Num total = tiles.combineRow(k.num(ends[2 + half]), add);
      settle(top, total);
      inverses.push_back(1.0 / total);
      storeLse(place, half, top, total);
    }
    store(ArrayRef(ends).drop_front(4), place, "out", getOutStride(), inverses);
  });
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

void CoreAttention::writeQueryGrad() {
  Shared keys = cores.allocate("keys"), values = cores.allocate("values");
  k.forRows([&](Value number) {
    Place place = getQueries(number);
    Own queries = getOwn("q", place, extents.qStride, /*hold=*/true);
    Own douts = getOwn("dout", place, getOutStride(), /*hold=*/true);
    Value keyHead = getKeyHead(place.head);
    Value length = getLength(place.batch);
    Num exponents[2], deltas[2];
    for (int64_t half : {0, 1}) {
      Num lse = k["lse"].load(atRow(place.getRow(place.clamped[half])));
      exponents[half] = lse * std::numbers::log2e;
      deltas[half] = makeDelta(place, half);
    }
    auto load = [&](Value first, Value stage) {
      shareKeys({place.batch, keyHead, first}, length, keys, values, stage);
    };
    auto body = [&](Value first, Value stage, Sums sums, bool isMasked) {
      Sums scores = cores.multiply(queries, keys, stage);
      Sums gradients = cores.multiply(douts, values, stage);
      auto score = scores.begin();
      tiles.forEach(gradients, [&](Num reach, int64_t half, Value column) {
        Num weight = exp2(k.num(*score++) * getFactor() - exponents[half]);
        Num gradient = weight * (reach - deltas[half]);
        if (!isMasked)
          return gradient;
        return k.select(isSeen(k.addIndex(first, column), place, half, length),
                        gradient, getZero());
      });
      cores.accumulate(sums, cores.round(gradients), keys, stage);
      return sums;
    };
    Sums sums = forTiles(getKeys(place, length),
                         tiles.getZeros(extents.headDim), load, body);
    Num scale = k.constant(extents.getScale(), k.f32());
    store(sums, place, "dq", extents.qStride, {scale, scale});
  });
}

// What is carried: the sums of keys, then those of values. Queries that do not
// exist are zeros with an lse and a delta of zero, and add nothing.
void CoreAttention::writeKeyGrad() {
  const int64_t rows = cores.getTileRows();
  const bool hold = extents.headDim <= kMostHeld;
  Shared queries = cores.allocate("queries"), douts = cores.allocate("douts");
  // Of each tile lse, delta, and the bits of positions where there are any, or
  // the reach of windows: as a constant it takes registers.
  const int64_t kinds = extents.hasFirstKeys() ? 3 : 2;
  KernelBuffer numbers(k,
                       threads.getShared("numbers", 2 * kinds * rows, k.f32()));
  if (extents.window && !extents.hasPositions)
    k.when(k.less(threads.getThread(), k.index(2 * rows)), [&] {
      Value stage = divide(threads.getThread(), rows);
      Value place = k.addIndex(
          k.mulIndex(stage, k.index(kinds * rows)),
          k.addIndex(k.index(2 * rows), remainder(threads.getThread(), rows)));
      auto reach = static_cast<int32_t>(
          std::min<int64_t>(*extents.window - 1, INT32_MAX));
      numbers.store(k.num(arith::ConstantOp::create(
                        b, b.getF32FloatAttr(llvm::bit_cast<float>(reach)))),
                    place);
    });
  k.forRows([&](Value number) {
    Place place = getPlace(number, extents.kvHeads);
    Own keys = getOwn("k", place, extents.kvStride, hold);
    Own values = getOwn("v", place, extents.kvStride, hold);
    Value length = getLength(place.batch), seq = k.index(extents.seq);
    Range range;
    range.from = extents.causal ? place.begin : k.index(0);
    // Nobody sees what begins behind the length.
    range.to = arith::SelectOp::create(b, k.less(place.begin, length),
                                       getQueriesEnd(place), range.from);
    range.masked = extents.hasFirstKeys()
                       ? range.to
                       : k.minIndex(place.getEnd(k), range.to);
    range.isMaskedFirst = true;
    range.isUnmasked = !extents.causal;
    const bool isWhole = extents.seq % rows == 0;
    Sums sums = tiles.getZeros(2 * extents.headDim);
    auto addHead = [&](Value shared, ValueRange carried) {
      Value head = k.addIndex(
          k.mulIndex(place.head, k.index(extents.getNumShared())), shared);
      auto load = [&](Value first, Value stage) {
        Row row = {place.batch, head, first};
        share("q", row, extents.qStride, seq, isWhole, queries, stage);
        share("dout", row, getOutStride(), seq, isWhole, douts, stage);
        cores.copyNumbers(k["lse"], atRow(row), first, seq, numbers, stage, 0,
                          kinds);
        cores.copyNumbers(k["delta"], atRow(row), first, seq, numbers, stage, 1,
                          kinds);
        if (extents.hasPositions)
          cores.copyNumbers(
              k["positions"],
              k.addIndex(k.mulIndex(place.batch, seq), first), first, seq,
              numbers, stage, 2, kinds);
      };
      auto body = [&](Value first, Value stage, Sums sums, bool isMasked) {
        Sums weights = cores.multiply(keys, queries, stage);
        Sums gradients = cores.multiply(values, douts, stage);
        Value begin = k.mulIndex(stage, k.index(kinds * rows));
        auto gradient = gradients.begin();
        tiles.forEach(weights, [&](Num score, int64_t half, Value column) {
          Value here = k.addIndex(begin, column);
          Num lse = numbers.load(here);
          Num delta = numbers.load(k.addIndex(here, k.index(rows)));
          Num weight = exp2(score * getFactor() - lse * std::numbers::log2e);
          Num product = weight * (k.num(*gradient) - delta);
          if (isMasked) {
            Value query = k.addIndex(first, column);
            Value isVisible =
                extents.hasFirstKeys()
                    ? isWithin(
                          numbers.load(k.addIndex(here, k.index(2 * rows))),
                          k.subIndex(query, place.tokens[half]))
                    : isNotBefore(query, place.tokens[half]);
            product = k.select(isVisible, product, getZero());
            weight = k.select(isVisible, weight, getZero());
          }
          *gradient++ = product.value;
          return weight;
        });
        auto [ofKeys, ofValues] =
            std::pair(MutableArrayRef(sums).take_front(sums.size() / 2),
                      MutableArrayRef(sums).drop_front(sums.size() / 2));
        cores.accumulate(ofValues, cores.round(weights), douts, stage);
        cores.accumulate(ofKeys, cores.round(gradients), queries, stage);
        return sums;
      };
      return forTiles(range, Sums(carried.begin(), carried.end()), load, body);
    };
    sums =
        k.loop(k.index(0), k.index(extents.getNumShared()), 1, sums, addHead);
    // Keys behind the length may be anything.
    if (extents.hasLengths)
      tiles.forEach(sums, [&](Num sum, int64_t half, Value) {
        return k.select(k.less(place.tokens[half], length), sum, getZero());
      });
    Num one = k.constant(1, k.f32());
    Num scale = k.constant(extents.getScale(), k.f32());
    auto [ofKeys, ofValues] =
        std::pair(ArrayRef(sums).take_front(sums.size() / 2),
                  ArrayRef(sums).drop_front(sums.size() / 2));
    store(ofKeys, place, "dk", extents.kvStride, {scale, scale});
    store(ofValues, place, "dv", extents.kvStride, {one, one});
  });
}

void mlir::optimus::writeCoreAttention(KernelBuilder &k,
                                       const AttentionExtents &extents,
                                       AttentionPart part) {
  k.getFunction()->setAttr(
      NVVM::NVVMDialect::getMinctasmAttrName(),
      k.getBuilder().getI32IntegerAttr(chooseBlocks(extents, part)));
  CoreAttention(k, extents, part).write(part);
}
