//===- AttentionKernels.cpp - Attention and its gradients -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The plain form: the lanes of an iteration have a row of queries, or of keys,
// and go through what it meets one by one.
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/AttentionPlaces.h"

#include "TableEntry.h"

#include "optimus-support/Sizes.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;
using optimus_support::CheckedSize;
using optimus_support::kPageTokens;

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

void AttentionExtents::visit(KernelParameters &parameters) {
  parameters.extent("batch", batch);
  parameters.extent("seq", seq);
  parameters.extent("heads", heads);
  parameters.extent("kv_heads", kvHeads);
  parameters.extent("head_dim", headDim);
  parameters.require(kvHeads > 0 && heads % kvHeads == 0,
                     "the heads of keys do not divide those of queries");
  parameters.integer("q_stride", qStride);
  parameters.integer("kv_stride", kvStride);
  CheckedSize tokens = CheckedSize(batch) * seq;
  auto holds = [&](int64_t stride, int64_t numHeads) {
    return (CheckedSize(numHeads) * headDim).isAtMost(stride) &&
           (tokens * stride).isAtMost(optimus_support::kMaxElements);
  };
  parameters.require(holds(qStride, heads) && holds(kvStride, kvHeads),
                     "a stride is less than a token's heads, or too large");
  parameters.flag("causal", causal);
  parameters.flag("lengths", hasLengths);
  parameters.flag("positions", hasPositions);
  parameters.require(causal || !hasPositions,
                     "positions are given without the causal mask");
  parameters.integer("window", window);
  parameters.require(!window || (*window >= 1 && causal),
                     "a window is not positive, or without the causal mask");
  parameters.integer("capacity", capacity);
  parameters.require(
      !capacity || (*capacity >= 1 && causal && hasLengths && hasPositions &&
                    (CheckedSize(batch) * *capacity * kvStride)
                        .isAtMost(optimus_support::kMaxElements)),
      "a cache is empty or too large, or without the causal "
      "mask, lengths and positions");
  parameters.integer("pool", pool);
  parameters.require(
      !pool || (*pool >= 1 && batch > 0 && *pool % batch == 0 && seq == 1 &&
                capacity && *capacity % kPageTokens == 0 &&
                (CheckedSize(*pool) * kPageTokens * kvStride)
                    .isAtMost(optimus_support::kMaxElements)),
      "pages are none or too many, or without a cache of whole ones, as many "
      "for each sequence, and one query");
}

void AttentionExtents::describe(KernelDescription &description) const {
  description.option("causal", causal);
  description.option("lengths", hasLengths);
  description.option("positions", hasPositions);
  if (window)
    description.option("window" + std::to_string(*window));
  if (capacity)
    description.option("capacity" + std::to_string(*capacity));
  if (pool)
    description.option("pool" + std::to_string(*pool));
  description.size(batch, seq);
  description.size(heads, kvHeads);
  description.size(headDim);
  description.size(qStride, kvStride);
}

double AttentionExtents::getScale() const {
  return 1 / std::sqrt(static_cast<double>(headDim));
}

/// As many lanes as a head has work for.
static int64_t getLanes(const AttentionExtents &extents) {
  constexpr int64_t kMost = 32;
  return llvm::bit_floor<uint64_t>(std::min(extents.headDim, kMost));
}

/// Rows of queries or of keys of so many heads, each of which meets so many
/// others for each token of its sequence. Those of a head meet the same, and a
/// target may do them in tiles if whole pieces of memory make them up.
static void overTokens(KernelDescription &description,
                       const AttentionExtents &extents, int64_t heads,
                       int64_t others) {
  constexpr int64_t kPiece = 16, kMost = 128;
  description.overRows(extents.getTokens() * heads,
                       extents.getNumKeys() * others * extents.headDim,
                       getLanes(extents));
  if (!extents.capacity && extents.headDim % kPiece == 0 &&
      extents.headDim <= kMost && extents.qStride % kPiece == 0 &&
      extents.kvStride % kPiece == 0)
    description.inGroups(extents.seq);
}

static void readMask(KernelDescription &description,
                     const AttentionExtents &extents) {
  if (extents.hasLengths)
    description.read("lengths", extents.batch, description.i32());
  if (extents.hasPositions)
    description.read("positions", extents.getTokens(), description.i32());
  if (extents.pool)
    description.read("pages", extents.batch * (*extents.capacity / kPageTokens),
                     description.i32());
}

static void readInputs(KernelDescription &description,
                       const AttentionExtents &extents) {
  description.read("q", extents.getQSize()).inUnitsOf(extents.headDim);
  for (StringRef name : {"k", "v"})
    description.read(name, extents.getKvSize()).inUnitsOf(extents.headDim);
}

void Attention::describe(KernelDescription &description) const {
  extents.describe(description);
  overTokens(description, extents, extents.heads, 1);
  readInputs(description, extents);
  readMask(description, extents);
  description.write("out", extents.getOutSize());
  description.write("lse", extents.getRows());
}

int64_t AttentionPieces::getNumPieces() const {
  return llvm::divideCeil(extents.getNumKeys(), keys);
}

/// What both kernels of pieces are.
static void visitPieces(KernelParameters &parameters, AttentionExtents &extents,
                        int64_t &keys) {
  extents.visit(parameters);
  parameters.integer("keys", keys);
  parameters.require(keys >= 1 && extents.capacity,
                     "pieces have no keys, or are not of a cache");
}

void AttentionPieces::visit(KernelParameters &parameters) {
  visitPieces(parameters, extents, keys);
}

void AttentionOfPieces::visit(KernelParameters &parameters) {
  visitPieces(parameters, extents, keys);
}

void AttentionPieces::describe(KernelDescription &description) const {
  extents.describe(description);
  description.size(keys);
  description.overRows(extents.getRows() * getNumPieces(),
                       keys * extents.headDim, getLanes(extents));
  readInputs(description, extents);
  readMask(description, extents);
  description.write("parts", getSize());
}

void AttentionOfPieces::describe(KernelDescription &description) const {
  const AttentionPieces pieces{extents, keys};
  extents.describe(description);
  description.size(keys);
  description.overRows(extents.getRows(),
                       pieces.getNumPieces() * pieces.getPartSize(),
                       getLanes(extents));
  description.read("parts", pieces.getSize())
      .write("out", extents.getOutSize())
      .write("lse", extents.getRows());
}

void AttentionQueryGrad::describe(KernelDescription &description) const {
  extents.describe(description);
  overTokens(description, extents, extents.heads, 1);
  description.read("dout", extents.getOutSize());
  readInputs(description, extents);
  description.read("out", extents.getOutSize()).read("lse", extents.getRows());
  readMask(description, extents);
  description.write("dq", extents.getQSize()).inUnitsOf(extents.headDim);
  description.write("delta", extents.getRows());
}

void AttentionKeyGrad::describe(KernelDescription &description) const {
  extents.describe(description);
  overTokens(description, extents, extents.kvHeads, extents.getNumShared());
  description.read("dout", extents.getOutSize());
  readInputs(description, extents);
  description.read("lse", extents.getRows()).read("delta", extents.getRows());
  readMask(description, extents);
  for (StringRef name : {"dk", "dv"})
    description.write(name, extents.getKvSize()).inUnitsOf(extents.headDim);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

Value AttentionPlaces::divide(Value value, int64_t divisor) {
  return arith::DivUIOp::create(k.getBuilder(), value, k.index(divisor));
}

Value AttentionPlaces::remainder(Value value, int64_t divisor) {
  return arith::RemUIOp::create(k.getBuilder(), value, k.index(divisor));
}

Value AttentionPlaces::at(const Row &row, int64_t stride, int64_t tokens) {
  Value token = k.addIndex(k.mulIndex(row.batch, k.index(tokens)), row.token);
  return k.addIndex(k.mulIndex(token, k.index(stride)),
                    k.mulIndex(row.head, k.index(extents.headDim)));
}

Value AttentionPlaces::atKey(const Row &row) {
  if (!extents.pool)
    return at(row, extents.kvStride, extents.getNumKeys());
  const PageTable table{k["pages"], extents.batch,
                        *extents.capacity / kPageTokens,
                        *extents.pool / extents.batch};
  // Devices take the nearest page for an entry beyond the pool.
  Value page = k.minIndex(
      k.maxIndex(table.findPage(k, row.batch, row.token), k.index(0)),
      k.index(*extents.pool - 1));
  return at({k.index(0), row.head, table.getRow(k, page, row.token)},
            extents.kvStride, extents.getKeyRows());
}

Value AttentionPlaces::atRow(const Row &row) {
  Value head =
      k.addIndex(k.mulIndex(row.batch, k.index(extents.heads)), row.head);
  return k.addIndex(k.mulIndex(head, k.index(extents.seq)), row.token);
}

Value AttentionPlaces::getLength(Value batch) {
  if (!extents.hasLengths)
    return k.index(extents.seq);
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value length = arith::IndexCastOp::create(b, b.getIndexType(),
                                            k["lengths"].loadElement(batch));
  return k.minIndex(k.maxIndex(length, k.index(extents.capacity ? 0 : 1)),
                    k.index(extents.getNumKeys()));
}

Value AttentionPlaces::getPosition(Value batch, Value token) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value place = k.addIndex(k.mulIndex(batch, k.index(extents.seq)), token);
  return arith::IndexCastOp::create(b, b.getIndexType(),
                                    k["positions"].loadElement(place));
}

Value AttentionPlaces::getFirstKey(Value batch, Value token) {
  if (!extents.hasFirstKeys())
    return k.index(0);
  if (extents.capacity) {
    if (!extents.window)
      return k.index(0);
    Value before =
        k.subIndex(getPosition(batch, token), k.index(*extents.window - 1));
    return k.maxIndex(before, k.index(0));
  }
  Value reach = token;
  if (extents.hasPositions)
    reach =
        k.minIndex(k.maxIndex(getPosition(batch, token), k.index(0)), token);
  if (extents.window)
    reach = k.minIndex(reach, k.index(*extents.window - 1));
  return k.subIndex(token, reach);
}

Value AttentionPlaces::getWindowsEnd(Value key, int64_t keys) {
  Value seq = k.index(extents.seq);
  if (!extents.window)
    return seq;
  int64_t reach = keys - 1 + *extents.window;
  return k.minIndex(k.addIndex(key, k.index(reach)), seq);
}

void AttentionPlaces::settle(Num &top, Num &total) {
  if (!extents.hasFirstKeys() || !extents.hasLengths)
    return;
  Num zero = k.constant(0, k.f32());
  Value isSeeing = k.greater(total, zero);
  top = k.select(isSeeing, top, zero);
  total = k.select(isSeeing, total, k.constant(1, k.f32()));
}

Value AttentionPlaces::isNotBefore(Value token, Value first) {
  return arith::CmpIOp::create(k.getBuilder(), arith::CmpIPredicate::sle, first,
                               token);
}

namespace {
/// What all bodies of the plain form share.
class Body : public AttentionPlaces {
public:
  using AttentionPlaces::AttentionPlaces;

  /// A row [batch, heads, seq] of queries or of keys.
  Row split(Value row, int64_t heads) {
    Value inBatch = divide(row, extents.seq);
    return {divide(inBatch, heads), remainder(inBatch, heads),
            remainder(row, extents.seq)};
  }

  /// How many keys a row of queries sees.
  Value getNumKeys(const Row &row) {
    Value place =
        extents.capacity ? getPosition(row.batch, row.token) : row.token;
    return AttentionPlaces::getNumKeys(k.addIndex(place, k.index(1)),
                                       getLength(row.batch));
  }

  /// Sums of products of heads that begin there.
  Num dot(KernelBuffer a, Value atA, KernelBuffer c, Value atC) {
    return k.sums(extents.headDim, 1, [&](Value at, Type type) {
      return Terms{a.load(k.addIndex(atA, at), type) *
                   c.load(k.addIndex(atC, at), type)};
    })[0];
  }

  /// P, and T with the factor of S, of a query and a key.
  std::pair<Num, Num> weigh(const Row &query, const Row &key, Num lse,
                            Num delta) {
    Num score =
        dot(k["q"], atQuery(query), k["k"], atKey(key)) * extents.getScale();
    Num reach = dot(k["dout"], atOut(query), k["v"], atKey(key));
    Num weight = k.exp(score - lse);
    return {weight, weight * (reach - delta) * extents.getScale()};
  }

  /// sum += factor * x, of a head that begins there, where lanes keep sums from
  /// `place` on.
  void add(KernelBuffer sum, Num factor, KernelBuffer x, Value from,
           int64_t place = 0) {
    k.lanes(extents.headDim, [&](Value at, Type type) {
      Value here = k.addIndex(at, k.index(place));
      sum.store(sum.load(here, type) +
                    factor * x.load(k.addIndex(from, at), type),
                here);
    });
  }
  /// The greatest score and the sum of exponentials of a row's keys in
  /// [from, to), whose weighed values it adds to a sum. Online softmax: what
  /// was summed is scaled whenever a key exceeds all before.
  std::pair<Num, Num> attend(const Row &row, Value from, Value to,
                             KernelBuffer sum) {
    Value query = atQuery(row);
    double lowest = std::numeric_limits<float>::lowest();
    SmallVector<Value> init{k.constant(lowest, k.f32()).value,
                            k.constant(0, k.f32()).value};
    SmallVector<Value> ends =
        k.loop(from, to, 1, init, [&](Value token, ValueRange carried) {
          Value key = atKey({row.batch, getKeyHead(row.head), token});
          Num score = dot(k["q"], query, k["k"], key) * extents.getScale();
          Num before = k.num(carried[0]), top = k.max(score, before);
          Num keep = k.exp(before - top), weight = k.exp(score - top);
          k.lanes(extents.headDim, [&](Value at, Type type) {
            Num value = k["v"].load(k.addIndex(key, at), type);
            sum.store(sum.load(at, type) * keep + weight * value, at);
          });
          Num total = k.num(carried[1]) * keep + weight;
          return SmallVector<Value>{top.value, total.value};
        });
    return {k.num(ends[0]), k.num(ends[1])};
  }
  /// Stores out and lse of a row, by its sum and what attend() has of it.
  void finish(const Row &row, Value number, KernelBuffer sum, Num top,
              Num total) {
    settle(top, total);
    Num inverse = 1.0 / total;
    Value out = atOut(row);
    k.lanes(extents.headDim, [&](Value at, Type type) {
      k["out"].store(sum.load(at, type) * inverse, k.addIndex(out, at));
    });
    k.once([&] {
      Num lse = k.narrow(k.widen(top) + k.log(k.widen(total)));
      k["lse"].store(lse, number);
    });
  }

  void clear(KernelBuffer sum, int64_t place = 0) {
    k.lanes(extents.headDim, [&](Value at, Type type) {
      sum.store(k.constant(0, type), k.addIndex(at, k.index(place)));
    });
  }
  void store(KernelBuffer sum, KernelBuffer to, Value from, int64_t place = 0) {
    k.lanes(extents.headDim, [&](Value at, Type type) {
      to.store(sum.load(k.addIndex(at, k.index(place)), type),
               k.addIndex(from, at));
    });
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

void Attention::build(KernelBuilder &k) const {
  if (!extents.capacity &&
      k.getSchedule().writeAttention(k, extents, AttentionPart::Forward))
    return;
  Body body(k, extents);
  KernelBuffer sum = k.allocateShared(extents.headDim);
  k.forRows([&](Value number) {
    Body::Row row = body.split(number, extents.heads);
    body.clear(sum);
    Value first = body.getFirstKey(row.batch, row.token);
    auto [top, total] = body.attend(row, first, body.getNumKeys(row), sum);
    body.finish(row, number, sum, top, total);
  });
}

void AttentionPieces::build(KernelBuilder &k) const {
  const int64_t pieces = getNumPieces(), size = getPartSize();
  Body body(k, extents);
  KernelBuffer sum = k.allocateShared(extents.headDim), parts = k["parts"];
  k.forRows([&](Value number) {
    Body::Row row = body.split(body.divide(number, pieces), extents.heads);
    Value begin = k.mulIndex(body.remainder(number, pieces), k.index(keys));
    Value from = k.maxIndex(body.getFirstKey(row.batch, row.token), begin);
    Value to =
        k.minIndex(body.getNumKeys(row), k.addIndex(begin, k.index(keys)));
    body.clear(sum);
    auto [top, total] = body.attend(row, from, to, sum);
    Value part = k.mulIndex(number, k.index(size));
    body.store(sum, parts, part);
    Value behind = k.addIndex(part, k.index(extents.headDim));
    parts.storeOnce(top, behind);
    parts.storeOnce(total, k.addIndex(behind, k.index(1)));
  });
}

void AttentionOfPieces::build(KernelBuilder &k) const {
  const AttentionPieces whole{extents, keys};
  const int64_t pieces = whole.getNumPieces(), size = whole.getPartSize();
  Body body(k, extents);
  KernelBuffer sum = k.allocateShared(extents.headDim), parts = k["parts"];
  k.forRows([&](Value number) {
    Body::Row row = body.split(number, extents.heads);
    Value first = k.mulIndex(number, k.index(pieces * size));
    auto partOf = [&](Value piece) {
      return k.addIndex(first, k.mulIndex(piece, k.index(size)));
    };
    auto load = [&](Value part, int64_t place) {
      return parts.load(k.addIndex(part, k.index(extents.headDim + place)));
    };
    double lowest = std::numeric_limits<float>::lowest();
    Num top = k.num(k.loop(k.index(0), k.index(pieces), 1,
                           {k.constant(lowest, k.f32()).value},
                           [&](Value piece, ValueRange carried) {
                             Num most = k.max(load(partOf(piece), 0),
                                              k.num(carried[0]));
                             return SmallVector<Value>{most.value};
                           })
                        .front());
    body.clear(sum);
    Num total = k.num(
        k.loop(k.index(0), k.index(pieces), 1, {k.constant(0, k.f32()).value},
               [&](Value piece, ValueRange carried) {
                 Value part = partOf(piece);
                 Num weight = k.exp(load(part, 0) - top);
                 body.add(sum, weight, parts, part);
                 Num more = k.num(carried[0]) + weight * load(part, 1);
                 return SmallVector<Value>{more.value};
               })
            .front());
    body.finish(row, number, sum, top, total);
  });
}

void AttentionQueryGrad::build(KernelBuilder &k) const {
  if (k.getSchedule().writeAttention(k, extents, AttentionPart::QueryGrad))
    return;
  Body body(k, extents);
  KernelBuffer sum = k.allocateShared(extents.headDim);
  k.forRows([&](Value number) {
    Body::Row row = body.split(number, extents.heads);
    Value out = body.atOut(row);
    Num delta = body.dot(k["dout"], out, k["out"], out);
    k["delta"].storeOnce(delta, number);
    Num lse = k["lse"].load(number);
    body.clear(sum);
    Value first = body.getFirstKey(row.batch, row.token);
    k.loop(first, body.getNumKeys(row), 1, [&](Value token) {
      Body::Row key = {row.batch, body.getKeyHead(row.head), token};
      Num gradient = body.weigh(row, key, lse, delta).second;
      body.add(sum, gradient, k["k"], body.atKey(key));
    });
    body.store(sum, k["dq"], body.atQuery(row));
  });
}

void AttentionKeyGrad::build(KernelBuilder &k) const {
  if (k.getSchedule().writeAttention(k, extents, AttentionPart::KeyGrad))
    return;
  Body body(k, extents);
  // Those of keys, and behind them those of values.
  KernelBuffer sums = k.allocateShared(2 * extents.headDim);
  const int64_t ofValues = extents.headDim;
  k.forRows([&](Value number) {
    Body::Row key = body.split(number, extents.kvHeads);
    body.clear(sums);
    body.clear(sums, ofValues);
    Value first = extents.causal ? key.token : k.index(0);
    auto addHead = [&](Value shared) {
      Value head = k.addIndex(
          k.mulIndex(key.head, k.index(extents.getNumShared())), shared);
      auto addQuery = [&](Value token) {
        Body::Row query = {key.batch, head, token};
        Value row = body.atRow(query);
        auto [weight, gradient] =
            body.weigh(query, key, k["lse"].load(row), k["delta"].load(row));
        body.add(sums, weight, k["dout"], body.atOut(query), ofValues);
        body.add(sums, gradient, k["q"], body.atQuery(query));
      };
      Value end = body.getWindowsEnd(key.token);
      k.loop(first, end, 1, [&](Value token) {
        if (!extents.hasPositions)
          return addQuery(token);
        k.when(body.isNotBefore(key.token, body.getFirstKey(key.batch, token)),
               [&] { addQuery(token); });
      });
    };
    k.when(k.less(key.token, body.getLength(key.batch)), [&] {
      k.loop(k.index(0), k.index(extents.getNumShared()), 1, addHead);
    });
    body.store(sums, k["dk"], body.atKey(key));
    body.store(sums, k["dv"], body.atKey(key), ofValues);
  });
}
