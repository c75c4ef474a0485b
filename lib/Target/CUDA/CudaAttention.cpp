//===- CudaAttention.cpp - Attention in tiles -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of f32, and of whatever tensor cores do not take: widened and multiplied by
// fused multiply-add. What rows meet is shared 32 rows at a time.
//
//===----------------------------------------------------------------------===//

#include "CudaAttentionRows.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

namespace {
class TiledAttention : public CudaAttentionRows {
public:
  TiledAttention(KernelBuilder &k, const AttentionExtents &extents)
      : CudaAttentionRows(k, extents) {}

private:
  void writeForward() override;
  void writeQueryGrad() override;
  void writeKeyGrad() override;

  using Shared = CudaTiles::Shared;

  CudaTiles::Own getOwn(StringRef name, const Place &place, int64_t stride) {
    return {k[name], {getBegin(place, 0, stride), getBegin(place, 1, stride)}};
  }
  /// Copies the rows of a head from `first` on.
  void share(StringRef name, const Place &place, Value head, int64_t stride,
             Value first, Value limit, const Shared &to) {
    tiles.copy(
        k[name], first, limit,
        [&](Value token) {
          return at({place.batch, head, token}, stride);
        },
        to);
  }
  /// Goes through the rows [from, to) that the block shares, 32 at a time.
  Sums forShared(Value from, Value to, const Sums &init,
                 function_ref<void(Value)> load,
                 function_ref<Sums(Value, Sums)> body);
};
} // namespace

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

CudaTiles::Sums
TiledAttention::forShared(Value from, Value to, const Sums &init,
                          function_ref<void(Value)> load,
                          function_ref<Sums(Value, Sums)> body) {
  return k.loop(from, to, CudaTiles::kSharedRows, init,
                [&](Value first, ValueRange carried) {
                  // All are done with the rows before.
                  threads.synchronizeBlock();
                  load(first);
                  threads.synchronizeBlock();
                  return body(first, Sums(carried.begin(), carried.end()));
                });
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

// What is carried: of each of the two rows the greatest score and the sum of
// exponentials, of the lane's columns, and then the sums of values.
void TiledAttention::writeForward() {
  Shared keys = tiles.allocate("keys"), values = tiles.allocate("values");
  k.forRows([&](Value number) {
    Place place = getQueries(number);
    CudaTiles::Own queries = getOwn("q", place, extents.qStride);
    Value keyHead = getKeyHead(place.head);
    Value length = getLength(place.batch);
    Num lowest = k.constant(std::numeric_limits<float>::lowest(), k.f32());
    Sums init = {lowest.value, lowest.value, getZero().value, getZero().value};
    init.append(tiles.getZeros(extents.headDim));
    auto load = [&](Value first) {
      share("k", place, keyHead, extents.kvStride, first, length, keys);
      share("v", place, keyHead, extents.kvStride, first, length, values);
    };
    auto body = [&](Value first, Sums carried) {
      Sums weights = tiles.multiply(queries, keys);
      auto isVisible = [&](int64_t half, Value column) {
        return isSeen(k.addIndex(first, column), place, half, length);
      };
      Num tops[] = {k.num(carried[0]), k.num(carried[1])};
      tiles.forEach(weights, [&](Num score, int64_t half, Value column) {
        score = k.select(isVisible(half, column), score * extents.getScale(),
                         lowest);
        tops[half] = k.max(score, tops[half]);
        return score;
      });
      Num keeps[2], totals[] = {k.num(carried[2]), k.num(carried[3])};
      for (int64_t half : {0, 1}) {
        tops[half] = tiles.combineRow(
            tops[half], [&](Num a, Num c) { return k.max(a, c); });
        keeps[half] = k.exp(k.num(carried[half]) - tops[half]);
        totals[half] = totals[half] * keeps[half];
      }
      tiles.forEach(weights, [&](Num score, int64_t half, Value column) {
        Num weight = k.select(isVisible(half, column),
                              k.exp(score - tops[half]), getZero());
        totals[half] = totals[half] + weight;
        return weight;
      });
      Sums sums(carried.begin() + 4, carried.end());
      tiles.forEach(sums, [&](Num sum, int64_t half, Value) {
        return sum * keeps[half];
      });
      Sums next = {tops[0].value, tops[1].value, totals[0].value,
                   totals[1].value};
      next.append(tiles.accumulate(sums, weights, values));
      return next;
    };
    Sums ends =
        forShared(getKeysBegin(place, CudaTiles::kSharedRows),
                  getNumKeys(place.getEnd(k), length), init, load, body);
    SmallVector<Num, 2> inverses;
    for (int64_t half : {0, 1}) {
      Num top = k.num(ends[half]);
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

void TiledAttention::writeQueryGrad() {
  Shared keys = tiles.allocate("keys"), values = tiles.allocate("values");
  k.forRows([&](Value number) {
    Place place = getQueries(number);
    CudaTiles::Own queries = getOwn("q", place, extents.qStride);
    CudaTiles::Own douts = getOwn("dout", place, getOutStride());
    Value keyHead = getKeyHead(place.head);
    Value length = getLength(place.batch);
    Num lse[2], delta[2];
    for (int64_t half : {0, 1}) {
      lse[half] = k["lse"].load(atRow(place.getRow(place.clamped[half])));
      delta[half] = makeDelta(place, half);
    }
    auto load = [&](Value first) {
      share("k", place, keyHead, extents.kvStride, first, length, keys);
      share("v", place, keyHead, extents.kvStride, first, length, values);
    };
    auto body = [&](Value first, Sums sums) {
      Sums scores = tiles.multiply(queries, keys);
      Sums gradients = tiles.multiply(douts, values);
      auto score = scores.begin();
      tiles.forEach(gradients, [&](Num reach, int64_t half, Value column) {
        Num weight = k.exp(k.num(*score++) * extents.getScale() - lse[half]);
        Num gradient = weight * (reach - delta[half]) * extents.getScale();
        return k.select(isSeen(k.addIndex(first, column), place, half, length),
                        gradient, getZero());
      });
      return tiles.accumulate(sums, gradients, keys);
    };
    Sums sums = forShared(getKeysBegin(place, CudaTiles::kSharedRows),
                          getNumKeys(place.getEnd(k), length),
                          tiles.getZeros(extents.headDim), load, body);
    Num one = k.constant(1, k.f32());
    store(sums, place, "dq", extents.qStride, {one, one});
  });
}

// What is carried: the sums of keys, then those of values.
void TiledAttention::writeKeyGrad() {
  Shared queries = tiles.allocate("queries"), douts = tiles.allocate("douts");
  k.forRows([&](Value number) {
    Place place = getPlace(number, extents.kvHeads);
    CudaTiles::Own keys = getOwn("k", place, extents.kvStride);
    CudaTiles::Own values = getOwn("v", place, extents.kvStride);
    Value length = getLength(place.batch), seq = k.index(extents.seq);
    // Nobody sees what begins behind the length.
    Value first = extents.causal ? place.begin : k.index(0);
    Value last = arith::SelectOp::create(b, k.less(place.begin, length),
                                         getQueriesEnd(place), first);
    Sums sums = tiles.getZeros(2 * extents.headDim);
    auto addHead = [&](Value shared, ValueRange carried) {
      Value head = k.addIndex(
          k.mulIndex(place.head, k.index(extents.getNumShared())), shared);
      auto load = [&](Value first) {
        share("q", place, head, extents.qStride, first, seq, queries);
        share("dout", place, head, getOutStride(), first, seq, douts);
      };
      auto body = [&](Value first, Sums sums) {
        Sums weights = tiles.multiply(keys, queries);
        Sums gradients = tiles.multiply(values, douts);
        auto gradient = gradients.begin();
        tiles.forEach(weights, [&](Num score, int64_t half, Value column) {
          Value token = k.addIndex(first, column);
          Value row = atRow(
              {place.batch, head, k.minIndex(token, k.index(extents.seq - 1))});
          Value isVisible =
              k.both(k.less(token, seq),
                     isSeenBy(token, place.tokens[half], place.batch, length));
          Num weight = k.exp(score * extents.getScale() - k["lse"].load(row));
          Num product = weight * (k.num(*gradient) - k["delta"].load(row)) *
                        extents.getScale();
          *gradient++ = k.select(isVisible, product, getZero()).value;
          return k.select(isVisible, weight, getZero());
        });
        auto middle = sums.begin() + sums.size() / 2;
        Sums next =
            tiles.accumulate(Sums(sums.begin(), middle), gradients, queries);
        next.append(tiles.accumulate(Sums(middle, sums.end()), weights, douts));
        return next;
      };
      return forShared(first, last, Sums(carried.begin(), carried.end()), load,
                       body);
    };
    sums =
        k.loop(k.index(0), k.index(extents.getNumShared()), 1, sums, addHead);
    Num one = k.constant(1, k.f32());
    auto [ofKeys, ofValues] =
        std::pair(ArrayRef(sums).take_front(sums.size() / 2),
                  ArrayRef(sums).drop_front(sums.size() / 2));
    store(ofKeys, place, "dk", extents.kvStride, {one, one});
    store(ofValues, place, "dv", extents.kvStride, {one, one});
  });
}

void mlir::optimus::writeTiledAttention(KernelBuilder &k,
                                        const AttentionExtents &extents,
                                        AttentionPart part) {
  const KernelDescription &description = k.getDescription();
  if (description.getOperands()[*description.findOperand("q")]
          .elementType.isBF16())
    return writeCoreAttention(k, extents, part);
  TiledAttention(k, extents).write(part);
}
