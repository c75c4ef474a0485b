//===- TokenKernels.cpp - Rows by token, and by position --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/TokenKernels.h"

#include "TableEntry.h"

#include "optimus-support/CachePages.h"
#include "optimus-support/Hash.h"
#include "optimus-support/Sizes.h"
#include "optimus-support/WeightBlocks.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;
using optimus_support::CheckedSize;
using optimus_support::kPageTokens;

void Embedding::describe(KernelDescription &description) const {
  description.size(count);
  description.size(rows, cols);
  description.overRows(count, cols);
  description.read("table", rows * cols)
      .read("tokens", count, description.i32())
      .write("result", count * cols)
      .scalar("first");
}

void Embedding::build(KernelBuilder &k) const {
  KernelBuffer table = k["table"], tokens = k["tokens"], result = k["result"];
  Value first = k.getIndex("first");
  k.forRows([&](Value token) {
    Value base = k.mulIndex(token, k.index(cols));
    whenInTable(
        k, tokens, token, first, rows,
        [&](Value row) {
          Value from = k.mulIndex(row, k.index(cols));
          k.lanes(cols, [&](Value at, Type type) {
            result.store(table.load(k.addIndex(from, at), type),
                         k.addIndex(base, at));
          });
        },
        [&] {
          k.lanes(cols, [&](Value at, Type type) {
            result.store(k.constant(0, type), k.addIndex(base, at));
          });
        });
  });
}

static optimus_support::BlockLayout getLayout(const EmbeddingOfBlocks &of) {
  using optimus_support::WeightBlocks;
  return {of.bits == 8 ? WeightBlocks::Int8 : WeightBlocks::Int4, of.cols,
          of.rows};
}

void EmbeddingOfBlocks::visit(KernelParameters &parameters) {
  parameters.extent("count", count);
  parameters.extent("rows", rows);
  parameters.extent("cols", cols);
  parameters.integer("bits", bits);
  parameters.require(bits == 8 || bits == 4,
                     "has bits that are neither 8 nor 4");
  parameters.require(cols % optimus_support::kBlockElements == 0,
                     "has rows that are no blocks");
}

void EmbeddingOfBlocks::describe(KernelDescription &description) const {
  description.size(count);
  description.size(rows, cols);
  description.size(bits);
  description.overRows(count, cols);
  description.read("table", *getLayout(*this).words().get(), description.i32())
      .read("tokens", count, description.i32())
      .write("result", count * cols)
      .scalar("first");
}

/// The f16 in the low half of a word, as f32: exactly.
static Num widenHalf(KernelBuilder &k, Value half) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  auto constant = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  };
  auto shifted = [&](Value value, int32_t by) -> Value {
    return arith::ShLIOp::create(b, value, constant(by));
  };
  Value magnitude = arith::AndIOp::create(b, half, constant(0x7FFF));
  Num number =
      k.num(arith::BitcastOp::create(b, k.f32(), shifted(magnitude, 13)));
  number = multiplyRounded(number, k.constant(0x1p112, k.f32()));
  Value bits = arith::BitcastOp::create(b, k.i32(), number.value);
  Value isEndless = arith::CmpIOp::create(b, arith::CmpIPredicate::sge,
                                          magnitude, constant(0x7C00));
  Value endless =
      arith::SelectOp::create(b, isEndless, constant(0x7F800000), constant(0));
  Value sign = shifted(arith::AndIOp::create(b, half, constant(0x8000)), 16);
  bits = arith::OrIOp::create(b, arith::OrIOp::create(b, bits, endless), sign);
  return k.num(arith::BitcastOp::create(b, k.f32(), bits));
}

void EmbeddingOfBlocks::build(KernelBuilder &k) const {
  ImplicitLocOpBuilder &b = k.getBuilder();
  KernelBuffer table = k["table"], tokens = k["tokens"], result = k["result"];
  const optimus_support::BlockLayout layout = getLayout(*this);
  constexpr int64_t kBlock = optimus_support::kBlockElements;
  const int64_t blocks = layout.blocksOfColumn();
  const int64_t integers = layout.integerBytes();
  constexpr int64_t kPanel = optimus_support::kPanelCols;
  auto constant = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  };
  auto divide = [&](Value value, int64_t by) -> Value {
    return arith::DivUIOp::create(b, value, k.index(by));
  };
  // Part `number` of so many in a word, in the lowest bits.
  auto shiftTo = [&](Value word, Value number, int64_t parts) -> Value {
    Value part = arith::IndexCastOp::create(
        b, k.i32(), arith::RemUIOp::create(b, number, k.index(parts)));
    Value shift = arith::MulIOp::create(
        b, part, constant(static_cast<int32_t>(32 / parts)));
    return arith::ShRUIOp::create(b, word, shift);
  };
  // The integer in some bits of a word, which count from -2^(bits-1): those of
  // 8 have a sign, those of 4 are that much larger.
  auto getInteger = [&](Value word, int64_t half) -> Num {
    word = arith::ShRUIOp::create(b, word,
                                  constant(static_cast<int32_t>(half * bits)));
    Value integer = arith::AndIOp::create(b, word, constant((1 << bits) - 1));
    const int32_t middle = 1 << (bits - 1);
    if (bits == 8)
      integer = arith::XOrIOp::create(b, integer, constant(middle));
    integer = arith::SubIOp::create(b, integer, constant(middle));
    return k.num(arith::SIToFPOp::create(b, k.f32(), integer));
  };
  Value first = k.getIndex("first");
  k.forRows([&](Value token) {
    Value base = k.mulIndex(token, k.index(cols));
    whenInTable(
        k, tokens, token, first, rows,
        [&](Value row) {
          // A row of the table is a column of a panel.
          Value col = arith::RemUIOp::create(b, row, k.index(kPanel));
          Value before = arith::SubIOp::create(b, row, col);
          Value isLast =
              arith::CmpIOp::create(b, arith::CmpIPredicate::uge, row,
                                    k.index(rows / kPanel * kPanel));
          Value ofPanel = arith::SelectOp::create(
              b, isLast, k.index(layout.colsOfPanel(rows - 1)),
              k.index(kPanel));
          Value panel = k.mulIndex(before, k.index(blocks * (integers + 2)));
          k.each(k.index(0), k.index(blocks), [&](Value block) {
            Value start =
                k.addIndex(panel, k.mulIndex(k.mulIndex(block, ofPanel),
                                             k.index(integers + 2)));
            Value scales =
                k.addIndex(start, k.mulIndex(ofPanel, k.index(integers)));
            Value half = k.addIndex(divide(scales, 2), col);
            Num scale = widenHalf(
                k, arith::AndIOp::create(
                       b, shiftTo(table.loadElement(divide(half, 2)), half, 2),
                       constant(0xFFFF)));
            Value to = k.addIndex(base, k.mulIndex(block, k.index(kBlock)));
            k.loop(k.index(0), k.index(integers), 1, [&](Value at) {
              Value byte =
                  k.addIndex(k.addIndex(start, k.mulIndex(at, ofPanel)), col);
              Value word = shiftTo(table.loadElement(divide(byte, 4)), byte, 4);
              for (int64_t part = 0; part < 8 / bits; ++part)
                result.store(
                    multiplyRounded(getInteger(word, part), scale),
                    k.addIndex(to, k.addIndex(at, k.index(part * integers))));
            });
          });
        },
        [&] {
          k.lanes(cols, [&](Value at, Type type) {
            result.store(k.constant(0, type), k.addIndex(base, at));
          });
        });
  });
}

void EmbeddingGrad::visit(KernelParameters &parameters) {
  parameters.extent("count", count);
  parameters.extent("rows", rows);
  parameters.extent("cols", cols);
  parameters.flag("zero", zero);
  parameters.integer("pad", pad);
  parameters.flag("by_rows", byRows);
}

/// Rows of a table that look for their tokens together.
static constexpr int64_t kRowsTogether = 8;

void EmbeddingGrad::describe(KernelDescription &description) const {
  description.option("add", !zero);
  description.option("by_rows", byRows);
  description.size(count);
  if (pad)
    description.text("pad_" + Twine(*pad));
  description.size(rows, cols);
  if (byRows)
    description.overRows(llvm::divideCeil(rows, kRowsTogether), cols);
  else
    description.overColumns(cols, /*summedRows=*/0);
  description.read("dy", count * cols).read("tokens", count, description.i32());
  if (zero)
    description.write("table", rows * cols);
  else
    description.update("table", rows * cols);
  description.scalar("first");
}

/// Calls `add` for a token that looks up a row of the table, but not for a pad.
static void whenAdded(KernelBuilder &k, std::optional<int64_t> pad, Value first,
                      Value row, function_ref<void()> add) {
  if (!pad)
    return add();
  Value padRow = k.subIndex(k.index(*pad), first);
  k.when(arith::CmpIOp::create(k.getBuilder(), arith::CmpIPredicate::ne, row,
                               padRow),
         add);
}

/// The gradient of some rows: zeros, and then a search of the tokens, piece by
/// piece. In a piece that has any of theirs all tokens are looked at in order.
static void addToRows(KernelBuilder &k, const EmbeddingGrad &grad,
                      Value begin) {
  constexpr int64_t kPiece = 512;
  KernelBuffer dy = k["dy"], tokens = k["tokens"], table = k["table"];
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value first = k.getIndex("first"), rows = k.index(grad.rows);
  auto forRow = [&](Value row, LanesFn body) {
    Value base = k.mulIndex(row, k.index(grad.cols));
    k.lanes(grad.cols,
            [&](Value at, Type type) { body(k.addIndex(base, at), type); });
  };
  if (grad.zero)
    k.loop(begin, k.minIndex(k.addIndex(begin, k.index(kRowsTogether)), rows),
           1, [&](Value row) {
             forRow(row, [&](Value at, Type type) {
               table.store(k.constant(0, type), at);
             });
           });
  Value own = k.addIndex(first, begin);
  Value ownToken = arith::IndexCastOp::create(b, k.i32(), own);
  auto isOwn = [&](Value token) -> Value {
    // Unsigned: what is below the first is far above.
    Value behind =
        arith::SubIOp::create(b, token, k.splat(ownToken, token.getType()));
    Value limit = arith::ConstantOp::create(
        b, b.getI32IntegerAttr(static_cast<int32_t>(kRowsTogether)));
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, behind,
                                 k.splat(limit, token.getType()));
  };
  auto addToken = [&](Value token) {
    whenInTable(k, tokens, token, own, kRowsTogether, [&](Value next) {
      Value row = k.addIndex(begin, next);
      k.when(k.less(row, rows), [&] {
        whenAdded(k, grad.pad, first, row, [&] {
          Value from = k.mulIndex(token, k.index(grad.cols));
          Value to = k.mulIndex(row, k.index(grad.cols));
          k.lanes(grad.cols, [&](Value at, Type type) {
            Value place = k.addIndex(to, at);
            table.store(table.load(place, type) +
                            dy.load(k.addIndex(from, at), type),
                        place);
          });
        });
      });
    });
  };
  k.loop(k.index(0), k.index(grad.count), kPiece, [&](Value from) {
    Value count =
        k.minIndex(k.subIndex(k.index(grad.count), from), k.index(kPiece));
    Num found = k.sums(count, 1, [&](Value at, Type type) {
      Value token =
          tokens.load(k.addIndex(from, at), k.withElement(type, k.i32())).value;
      return Terms{
          k.select(isOwn(token), k.constant(1, type), k.constant(0, type))};
    })[0];
    k.when(k.greater(found, k.constant(0, k.f32())),
           [&] { k.loop(from, k.addIndex(from, count), 1, addToken); });
  });
}

void EmbeddingGrad::build(KernelBuilder &k) const {
  if (byRows)
    return k.forRows([&](Value number) {
      addToRows(k, *this, k.mulIndex(number, k.index(kRowsTogether)));
    });
  KernelBuffer dy = k["dy"], tokens = k["tokens"], table = k["table"];
  Value first = k.getIndex("first");
  k.forColumns([&](Value column, Type type) {
    if (zero)
      k.loop(k.index(0), k.index(rows), 1, [&](Value row) {
        table.store(k.constant(0, type),
                    k.addIndex(k.mulIndex(row, k.index(cols)), column));
      });
    k.loop(k.index(0), k.index(count), 1, [&](Value token) {
      whenInTable(k, tokens, token, first, rows, [&](Value row) {
        whenAdded(k, pad, first, row, [&] {
          Value from = k.addIndex(k.mulIndex(token, k.index(cols)), column);
          Value to = k.addIndex(k.mulIndex(row, k.index(cols)), column);
          table.store(table.load(to, type) + dy.load(from, type), to);
        });
      });
    });
  });
}

void Lengths::visit(KernelParameters &parameters) {
  parameters.extent("rows", rows);
  parameters.extent("cols", cols);
  parameters.integer("pad", pad);
  parameters.flag("masked", masked);
}

void Lengths::describe(KernelDescription &description) const {
  description.option("masked", masked);
  description.size(rows, cols);
  description.size(pad);
  description.overItems(rows, cols);
  description.read("tokens", rows * cols, description.i32());
  if (masked)
    description.read("targets", rows * cols, description.i32());
  description.write("result", rows, description.i32()).scalar("real");
}

void Lengths::build(KernelBuilder &k) const {
  ImplicitLocOpBuilder &b = k.getBuilder();
  KernelBuffer tokens = k["tokens"], targets = k.getOptional("targets");
  // No token is a pad that i32 does not hold.
  Value padding = arith::ConstantOp::create(b, b.getI64IntegerAttr(pad));
  Value end = k.getIndex("real");
  k.forItems([&](Value row) {
    Value base = k.mulIndex(row, k.index(cols));
    SmallVector<Value> one{k.index(1)};
    Value length =
        k.loop(k.index(0), end, 1, one, [&](Value at, ValueRange known) {
           Value position = k.addIndex(base, at);
           auto load = [&](KernelBuffer buffer) -> Value {
             return arith::ExtSIOp::create(b, b.getI64Type(),
                                           buffer.loadElement(position));
           };
           Value real = arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                                              load(tokens), padding);
           if (targets)
             real = arith::OrIOp::create(
                 b, real,
                 arith::CmpIOp::create(
                     b, arith::CmpIPredicate::sge, load(targets),
                     arith::ConstantOp::create(b, b.getI64IntegerAttr(0))));
           return SmallVector<Value>{arith::SelectOp::create(
               b, real, k.addIndex(at, k.index(1)), known.front())};
         }).front();
    k["result"].storeElement(
        arith::IndexCastOp::create(b, b.getI32Type(), length), row);
  });
}

/// The parameter of pages: a cache has whole ones, and a table of them.
static void visitPages(KernelParameters &parameters, int64_t sequences,
                       int64_t share, std::optional<int64_t> &pages) {
  parameters.integer("pages", pages);
  parameters.require(!pages || (*pages >= 1 && share % kPageTokens == 0 &&
                                (CheckedSize(sequences) * *pages * kPageTokens)
                                    .isAtMost(optimus_support::kMaxElements)),
                     "there are no pages, too many, or parts of them");
}

static void describePages(KernelDescription &description,
                          std::optional<int64_t> pages) {
  if (pages)
    description.option("pages" + std::to_string(*pages));
}

static void readPages(KernelDescription &description, int64_t sequences,
                      std::optional<int64_t> pages) {
  if (pages)
    description.read("pages", sequences * *pages, description.i32());
}

/// The parameter of rows that lie apart.
static void visitStride(KernelParameters &parameters, int64_t rows,
                        int64_t cols, std::optional<int64_t> &stride) {
  parameters.integer("stride", stride);
  parameters.require(!stride || (*stride >= cols &&
                                 (CheckedSize(rows) * *stride)
                                     .isAtMost(optimus_support::kMaxElements)),
                     "rows overlap, or are too many");
}

/// `count` rows from `cols` elements on, of which the last one is whole.
static void readRows(KernelDescription &description, int64_t count,
                     int64_t cols, std::optional<int64_t> stride) {
  description.read("rows", (count - 1) * stride.value_or(cols) + cols);
}

static void describeStride(KernelDescription &description,
                           std::optional<int64_t> stride) {
  if (stride)
    description.option("stride" + std::to_string(*stride));
}

void CacheAppend::visit(KernelParameters &parameters) {
  parameters.extent("batch", batch);
  parameters.extent("seq", seq);
  parameters.extent("capacity", capacity);
  parameters.extent("cols", cols);
  visitPages(parameters, batch, capacity, pages);
  visitStride(parameters, batch * seq, cols, stride);
}

void CacheAppend::describe(KernelDescription &description) const {
  describePages(description, pages);
  describeStride(description, stride);
  description.size(batch, seq);
  description.size(capacity, cols);
  description.overRows(batch * seq, cols);
  readRows(description, batch * seq, cols, stride);
  description.read("positions", batch * seq, description.i32());
  readPages(description, batch, pages);
  description.update("cache", batch * capacity * cols);
}

namespace {
/// A cache of `sequences`, each with so many rows, and perhaps a table of so
/// many pages. Rows that are appended lie `stride` apart.
struct AppendedCache {
  int64_t sequences, share, cols, stride;
  std::optional<int64_t> pages;

  /// Positions of a sequence.
  int64_t getPositions() const { return pages ? *pages * kPageTokens : share; }

  /// Copies a row to a position of a sequence.
  void append(KernelBuilder &k, Value row, Value sequence,
              Value position) const {
    if (!pages)
      return copy(k, row,
                  k.addIndex(k.mulIndex(sequence, k.index(share)), position));
    PageTable{k["pages"], sequences, *pages, share / kPageTokens}.whenThere(
        k, sequence, position, [&](Value place) { copy(k, row, place); });
  }

private:
  void copy(KernelBuilder &k, Value row, Value place) const {
    KernelBuffer rows = k["rows"], cache = k["cache"];
    Value from = k.mulIndex(row, k.index(stride)),
          to = k.mulIndex(place, k.index(cols));
    k.lanes(cols, [&](Value at, Type type) {
      rows.copyTo(cache, k.addIndex(from, at), k.addIndex(to, at), type);
    });
  }
};
} // namespace

void CacheAppend::build(KernelBuilder &k) const {
  ImplicitLocOpBuilder &b = k.getBuilder();
  const AppendedCache cache{batch, capacity, cols, stride.value_or(cols),
                            pages};
  k.forRows([&](Value row) {
    Value position = arith::IndexCastOp::create(
        b, b.getIndexType(), k["positions"].loadElement(row));
    // Unsigned: what is negative is far above.
    Value hasPlace = arith::CmpIOp::create(
        b, arith::CmpIPredicate::ult, position, k.index(cache.getPositions()));
    k.when(hasPlace, [&] {
      Value sequence = arith::DivUIOp::create(b, row, k.index(seq));
      cache.append(k, row, sequence, position);
    });
  });
}

void SlotAppend::visit(KernelParameters &parameters) {
  parameters.extent("count", count);
  parameters.extent("slots", slots);
  parameters.extent("capacity", capacity);
  parameters.extent("cols", cols);
  visitPages(parameters, slots, capacity, pages);
  visitStride(parameters, count, cols, stride);
}

void SlotAppend::describe(KernelDescription &description) const {
  describePages(description, pages);
  describeStride(description, stride);
  description.size(count);
  description.size(slots, capacity);
  description.size(cols);
  description.overRows(count, cols);
  readRows(description, count, cols, stride);
  description.read("positions", count, description.i32());
  readPages(description, slots, pages);
  description.read("slot", 1, description.i32())
      .update("cache", slots * capacity * cols)
      .scalar("first");
}

void SlotAppend::build(KernelBuilder &k) const {
  KernelBuffer slot = k["slot"];
  Value first = k.getIndex("first"), none = k.index(0);
  const AppendedCache cache{slots, capacity, cols, stride.value_or(cols),
                            pages};
  k.forRows([&](Value row) {
    whenInTable(k, slot, none, first, slots, [&](Value sequence) {
      whenInTable(
          k, k["positions"], row, none, cache.getPositions(),
          [&](Value position) { cache.append(k, row, sequence, position); });
    });
  });
}

void Take::visit(KernelParameters &parameters) {
  parameters.extent("entries", entries);
  parameters.extent("rows", rows);
  parameters.extent("cols", cols);
  parameters.flag("length", hasLength);
  parameters.integer("share", share);
  parameters.require(!share || (*share >= 1 && *share % kPageTokens == 0 &&
                                rows % kPageTokens == 0 && hasLength &&
                                (CheckedSize(entries) * *share * cols)
                                    .isAtMost(optimus_support::kMaxElements)),
                     "pages are parts of them, too many, or without a length");
}

void Take::describe(KernelDescription &description) const {
  description.option("length", hasLength);
  if (share)
    description.option("share" + std::to_string(*share));
  description.size(entries);
  description.size(rows, cols);
  description.overRows(rows, cols);
  description.read("x", entries * share.value_or(rows) * cols)
      .read("index", 1, description.i32());
  if (hasLength)
    description.read("length", 1, description.i32());
  if (share)
    description.read("pages", entries * (rows / kPageTokens),
                     description.i32());
  description.write("result", rows * cols).scalar("first");
}

void Take::build(KernelBuilder &k) const {
  KernelBuffer x = k["x"], result = k["result"],
               length = k.getOptional("length");
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value first = k.getIndex("first"), none = k.index(0);
  k.forRows([&](Value row) {
    Value to = k.mulIndex(row, k.index(cols));
    auto clear = [&] {
      k.lanes(cols, [&](Value at, Type type) {
        result.store(k.constant(0, type), k.addIndex(to, at));
      });
    };
    auto copyFrom = [&](Value place) {
      Value from = k.mulIndex(place, k.index(cols));
      k.lanes(cols, [&](Value at, Type type) {
        x.copyTo(result, k.addIndex(from, at), k.addIndex(to, at), type);
      });
    };
    auto copy = [&](Value entry) {
      if (!share)
        return copyFrom(k.addIndex(k.mulIndex(entry, k.index(rows)), row));
      PageTable{k["pages"], entries, rows / kPageTokens, *share / kPageTokens}
          .whenThere(k, entry, row, copyFrom, clear);
    };
    auto take = [&](Value entry) {
      if (!length)
        return copy(entry);
      Value end = arith::IndexCastOp::create(b, b.getIndexType(),
                                             length.loadElement(none));
      Value isReal =
          arith::CmpIOp::create(b, arith::CmpIPredicate::slt, row, end);
      k.when(
          isReal, [&] { copy(entry); }, clear);
    };
    whenInTable(k, k["index"], none, first, entries, take, clear);
  });
}

void Rotary::visit(KernelParameters &parameters) {
  parameters.extent("batch", batch);
  parameters.extent("seq", seq);
  parameters.extent("heads", heads);
  parameters.extent("dim", dim);
  parameters.number("theta", theta);
  parameters.flag("inverse", inverse);
  parameters.extent("channels", channels);
  parameters.require(channels % 2 == 0 && channels <= dim,
                     "the channels that are rotated are no pairs of a head's");
  parameters.extent("turned", turned);
  parameters.require(turned <= heads, "more heads are rotated than there are");
  parameters.flag("positions", hasPositions);
  parameters.integer("capacity", capacity);
  parameters.require(!capacity ||
                         (hasPositions && *capacity >= 1 &&
                          (CheckedSize(*capacity) * channels)
                              .isAtMost(optimus_support::kMaxElements)),
                     "a capacity is not positive or too large, or without "
                     "positions");
  parameters.numbers("frequencies", frequencies);
  parameters.require(frequencies.empty() ||
                         int64_t(frequencies.size()) == channels / 2,
                     "there are not as many frequencies as pairs");
}

/// What distinguishes a list of frequencies in a name.
static std::string hashOf(ArrayRef<double> frequencies) {
  return optimus_support::hashToHex(optimus_support::hash64(
      StringRef(reinterpret_cast<const char *>(frequencies.data()),
                frequencies.size() * sizeof(double))));
}

void Rotary::describe(KernelDescription &description) const {
  description.option("inverse", inverse);
  description.option("positions", hasPositions);
  description.size(batch, seq);
  description.size(heads, dim);
  description.size(channels, turned);
  if (capacity)
    description.text("capacity_" + Twine(*capacity));
  description.number(theta);
  if (!frequencies.empty())
    description.text("frequencies_" + hashOf(frequencies));
  description.overRows(batch * seq, heads * dim);
  int64_t n = batch * seq * heads * dim;
  description.read("x", n);
  if (hasPositions)
    description.read("positions", batch * seq, description.i32());
  description.write("result", n).inPlaceOf({"x"});
}

/// For each position, dim/2 cosines and then dim/2 sines.
static KernelBuffer getRotaryTable(KernelBuilder &k, int64_t seq, int64_t dim,
                                   double theta, ArrayRef<double> frequencies) {
  std::string name = llvm::formatv("rotary_table_{0}x{1}_{2:x-16}", seq, dim,
                                   llvm::bit_cast<uint64_t>(theta));
  if (!frequencies.empty())
    name += "_" + hashOf(frequencies);
  return k.getConstants(name, [&] {
    // Computed in f64 and rounded once, however large the angle.
    std::vector<float> values(seq * dim);
    for (int64_t position = 0; position < seq; ++position)
      for (int64_t i = 0; i < dim / 2; ++i) {
        double angle =
            position * (frequencies.empty() ? std::pow(theta, -2.0 * i / dim)
                                            : frequencies[i]);
        float *row = values.data() + position * dim;
        row[i] = static_cast<float>(std::cos(angle));
        row[i + dim / 2] = static_cast<float>(std::sin(angle));
      }
    return values;
  });
}

void Rotary::build(KernelBuilder &k) const {
  KernelBuffer x = k["x"], result = k["result"];
  const int64_t places = capacity.value_or(seq);
  KernelBuffer angles = getRotaryTable(k, places, channels, theta, frequencies);
  int64_t half = channels / 2;
  auto keep = [&](int64_t count, Value base) {
    k.lanes(count, [&](Value at, Type type) {
      Value index = k.addIndex(base, at);
      result.store(x.load(index, type), index);
    });
  };
  auto getPosition = [&](Value token) -> Value {
    ImplicitLocOpBuilder &b = k.getBuilder();
    if (!hasPositions)
      return arith::RemUIOp::create(b, token, k.index(seq));
    Value position = arith::IndexCastOp::create(
        b, b.getIndexType(), k["positions"].loadElement(token));
    return k.minIndex(k.maxIndex(position, k.index(0)), k.index(places - 1));
  };
  k.forRows([&](Value token) {
    Value position = getPosition(token);
    Value angle = k.mulIndex(position, k.index(channels));
    Value first = k.mulIndex(token, k.index(heads * dim));
    k.loop(k.index(0), k.index(turned), 1, [&](Value head) {
      Value base = k.addIndex(first, k.mulIndex(head, k.index(dim)));
      k.lanes(half, [&](Value at, Type type) {
        Value cosAt = k.addIndex(angle, at);
        Value sinAt = k.addIndex(cosAt, k.index(half));
        Num c = angles.load(cosAt, type);
        Num s = angles.load(sinAt, type);
        if (inverse)
          s = s * -1.0;
        Value lowAt = k.addIndex(base, at);
        Value highAt = k.addIndex(lowAt, k.index(half));
        Num low = x.load(lowAt, type), high = x.load(highAt, type);
        result.store(low * c - high * s, lowAt);
        result.store(high * c + low * s, highAt);
      });
      if (channels < dim)
        keep(dim - channels, k.addIndex(base, k.index(channels)));
    });
    if (turned < heads)
      keep((heads - turned) * dim, k.addIndex(first, k.index(turned * dim)));
  });
}
