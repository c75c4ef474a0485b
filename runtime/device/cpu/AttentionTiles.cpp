//===- AttentionTiles.cpp - Attention of bf16 by tiles (AMX) ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The forward of AttentionKernels.inc, block pair by block pair, with both of
// its products by instructions that multiply tiles of bf16 and add in f32.
//
// S = Q_i K_j^T: a product of two elements is exact in f32, and their sum is
// scaled in place of the keys. O += P V_j: P is f32, and the sum of three
// numbers of bf16, which have 8 of its 24 bits each; so these products are
// exact, too. Nothing is rounded but sums, as where operands are widened, and
// in another order: of 32 elements one half is summed apart from the other.
//
// A tile has 16 rows of 16 words. Words of the left factor are pairs of
// neighbours along the sum; so words of the right one are pairs of its rows,
//   queries  [16 tokens]      x [channels 2w and 2w + 1]
//   keys     [2w and 2w + 1]  x [16 tokens]
//   P        [16 tokens]      x [keys w and w + 16 of 32]
//   values   [w and w + 16]   x [16 channels]
// with zeros beyond the last channel and key.
//
//===----------------------------------------------------------------------===//

#include "AttentionSoftmax.inc"

static_assert(lanes == 16, "a vector is a row of a tile");

namespace {

constexpr int64_t rowsOfTile = 16, tileWords = 16 * 16;
/// Channels, or keys, that are summed by one instruction.
constexpr int64_t depthOfTile = 32;
constexpr int64_t rowBytes = 64;
/// Tiles of sums that are open at a time: with one of the left factor and three
/// of the right one these are all that there are.
constexpr int openTiles = 4;
/// The numbers of bf16 whose sum is one of f32.
constexpr int partsOfF32 = 3;

//===----------------------------------------------------------------------===//
// Instructions. The compiler's own do not say that they read and write memory.
//===----------------------------------------------------------------------===//

template <int tile>
OPTIMUS_INLINE void loadTile(const void *from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(from), "r"(stride), "i"(tile)
               : "memory");
}

template <int tile>
OPTIMUS_INLINE void storeTile(void *to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(to), "r"(stride), "i"(tile)
               : "memory");
}

template <int tile>
OPTIMUS_INLINE void clearTile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(tile));
}

/// sums += left x right.
template <int sums, int left, int right>
OPTIMUS_INLINE void addProduct() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
               :
               : "i"(sums), "i"(left), "i"(right));
}

/// While it lives, the thread's tiles are of 16 rows of 64 bytes.
class OpenTiles {
  struct Config {
    uint8_t palette = 1, startRow = 0, reserved[14] = {};
    uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };

public:
  OpenTiles() {
    const Config config;
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  ~OpenTiles() { asm volatile("tilerelease"); }
};

//===----------------------------------------------------------------------===//
// Tiles of sums
//===----------------------------------------------------------------------===//

template <typename Fn, int tile = 0>
OPTIMUS_INLINE void eachTile(int64_t count, Fn fn) {
  if constexpr (tile < openTiles)
    if (tile < count) {
      fn.template operator()<tile>();
      eachTile<Fn, tile + 1>(count, fn);
    }
}

OPTIMUS_INLINE void clearSums(int64_t count) {
  eachTile(count, []<int tile>() { clearTile<tile>(); });
}

/// Of tiles side by side, rows of which lie `stride` elements apart.
OPTIMUS_INLINE void loadSums(int64_t count, const float *from, int64_t stride) {
  eachTile(count, [&]<int tile>() {
    loadTile<tile>(from + tile * lanes, stride * (int64_t)sizeof(float));
  });
}

OPTIMUS_INLINE void storeSums(int64_t count, float *to, int64_t stride) {
  eachTile(count, [&]<int tile>() {
    storeTile<tile>(to + tile * lanes, stride * (int64_t)sizeof(float));
  });
}

/// Adds to them the products of a left tile, whose rows lie `stride` words
/// apart, with one right tile each; these begin `distance` words apart.
OPTIMUS_INLINE void addTiles(int64_t count, const uint32_t *left,
                             int64_t stride, const uint32_t *right,
                             int64_t distance) {
  loadTile<openTiles>(left, stride * (int64_t)sizeof(uint32_t));
  eachTile(count, [&]<int tile>() {
    constexpr int factor = openTiles + 1 + tile % 3;
    loadTile<factor>(right + tile * distance, rowBytes);
    addProduct<tile, openTiles, factor>();
  });
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

OPTIMUS_INLINE void store(uint32_t *p, UintVec v) { *(LooseUintVec *)p = v; }

/// Gives `use` the first `size` of `count` elements, with zeros beyond.
template <int64_t size, typename UseFn>
OPTIMUS_INLINE UintVec loadFirst(const uint16_t *from, int64_t count,
                                 UseFn use) {
  if (count >= size)
    return use(from);
  uint16_t some[size] = {};
  for (int64_t i = 0; i < count; ++i)
    some[i] = from[i];
  return use(some);
}

/// The first 32 of `count` elements as 16 pairs, with zeros beyond.
OPTIMUS_INLINE UintVec loadPairs(const uint16_t *from, int64_t count) {
  return loadFirst<depthOfTile>(from, count, [](const uint16_t *all) {
    UintVec pairs;
    __builtin_memcpy(&pairs, all, sizeof pairs);
    return pairs;
  });
}

/// The first 16 of `count` elements, a word each, with zeros beyond.
OPTIMUS_INLINE UintVec loadWords(const uint16_t *from, int64_t count) {
  return loadFirst<lanes>(from, count, [](const uint16_t *all) {
    return __builtin_convertvector(*(const LooseNarrowVec *)all, UintVec);
  });
}

/// Of squares of 2 * half rows, exchanges the half of columns above the diagonal
/// with the one below.
template <int half>
OPTIMUS_INLINE void exchange(UintVec (&rows)[lanes]) {
  IntVec upper, lower;
  for (int j = 0; j < lanes; ++j) {
    upper[j] = j & half ? lanes + j - half : j;
    lower[j] = j & half ? lanes + j : j + half;
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i)
    if (!(i & half)) {
      const UintVec above = rows[i], below = rows[i + half];
      rows[i] = __builtin_shuffle(above, below, upper);
      rows[i + half] = __builtin_shuffle(above, below, lower);
    }
}

/// Tiles of the pairs of `count` rows of x, at most a block; rows of tiles, and
/// of each `groups` tiles side by side.
void packQueries(const uint16_t *x, int64_t count, int64_t stride,
                 int64_t channels, int64_t groups, uint32_t *to) {
  for (int64_t r = 0; r < roundUp(count, rowsOfTile); ++r)
    for (int64_t g = 0; g < groups; ++g, to += lanes) {
      const int64_t at = g * depthOfTile;
      store(to, r < count ? loadPairs(x + r * stride + at, channels - at)
                          : UintVec{});
    }
}

/// The same transposed, tile by tile.
void packKeys(const uint16_t *x, int64_t count, int64_t stride,
              int64_t channels, int64_t groups, uint32_t *to) {
  for (int64_t r = 0; r < count; r += rowsOfTile)
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t at = g * depthOfTile;
      UintVec rows[lanes];
#pragma GCC unroll 16
      for (int64_t i = 0; i < lanes; ++i)
        rows[i] = r + i < count
                      ? loadPairs(x + (r + i) * stride + at, channels - at)
                      : UintVec{};
      exchange<8>(rows);
      exchange<4>(rows);
      exchange<2>(rows);
      exchange<1>(rows);
#pragma GCC unroll 16
      for (int64_t i = 0; i < lanes; ++i, to += lanes)
        store(to, rows[i]);
    }
}

/// Tiles of pairs of rows that lie 16 apart, tile by tile.
void packValues(const uint16_t *x, int64_t count, int64_t stride,
                int64_t channels, uint32_t *to) {
  for (int64_t r = 0; r < count; r += depthOfTile)
    for (int64_t c = 0; c < channels; c += lanes)
      for (int64_t i = r; i < r + lanes; ++i, to += lanes) {
        auto row = [&](int64_t at) {
          return at < count ? loadWords(x + at * stride + c, channels - c)
                            : UintVec{};
        };
        store(to, row(i) | row(i + lanes) << 16);
      }
}

/// The next part of a vector, which is left the rest.
OPTIMUS_INLINE UintVec takePart(Vec &x) {
  const UintVec part = (UintVec)x & 0xFFFF0000;
  x -= (Vec)part;
  return part;
}

/// 16 rows of P in parts, each [16, block] of bf16; a word has two keys that lie
/// 16 apart. The first `seen(row)` keys of a row are there, the others zero.
template <typename Seen>
OPTIMUS_INLINE void splitRows(const float *scores, int64_t keys, Seen seen,
                              uint32_t *to) {
  constexpr int64_t words = block / 2, partWords = rowsOfTile * words;
  for (int64_t r = 0; r < rowsOfTile; ++r, scores += block, to += words) {
    const int64_t count = seen(r);
    for (int64_t key = 0; key < keys; key += depthOfTile) {
      Vec low = key < count ? load(scores + key) : Vec{};
      Vec high = key + lanes < count ? load(scores + key + lanes) : Vec{};
#pragma GCC unroll 3
      for (int part = 0; part < partsOfF32; ++part)
        store(to + part * partWords + key / 2,
              takePart(low) >> 16 | takePart(high));
    }
  }
}

//===----------------------------------------------------------------------===//
// One head
//===----------------------------------------------------------------------===//

struct TiledScratch : RowScratch {
  int64_t groups, width; ///< of 32 channels; channels up to whole vectors
  uint32_t *queries, *keys, *values;
  TiledScratch(const AttentionHead &h, Scratch &scratch)
      : RowScratch(h, scratch),
        groups(roundUp(h.headDim, depthOfTile) / depthOfTile),
        width(roundUp(h.headDim, lanes)) {
    const int64_t rows = roundUp(h.capacity, block);
    auto take = [&](int64_t words) { return (uint32_t *)scratch.take(words); };
    queries = take(block * groups * lanes);
    keys = take(rows * groups * lanes);
    values = take(rows / 2 * width);
  }
  /// Of a block.
  const uint32_t *keysOf(int64_t j) const {
    return keys + j * block * groups * lanes;
  }
  const uint32_t *valuesOf(int64_t j) const {
    return values + j * block / 2 * width;
  }
};

/// The scores of a block's queries, but for tiles above the diagonal.
void scoreBlock(const TiledScratch &s, int64_t rows, int64_t columns,
                bool diagonal, const uint32_t *keys) {
  static_assert(block == openTiles * lanes);
  for (int64_t r = 0; r < rows; r += rowsOfTile) {
    const int64_t end = diagonal ? min(r + rowsOfTile, columns) : columns;
    const int64_t count = roundUp(end, lanes) / lanes;
    clearSums(count);
    for (int64_t g = 0; g < s.groups; ++g)
      addTiles(count, s.queries + (r * s.groups + g) * lanes, s.groups * lanes,
               keys + g * tileWords, s.groups * tileWords);
    storeSums(count, s.scores + r * block, block);
  }
}

/// Adds P V to the sums, or begins them.
void addValues(const TiledScratch &s, int64_t rows, int64_t columns,
               bool diagonal, const uint32_t *values, bool begins) {
  constexpr int64_t words = block / 2, partWords = rowsOfTile * words;
  alignas(64) uint32_t parts[partsOfF32 * partWords];
  for (int64_t r = 0; r < rows; r += rowsOfTile) {
    const int64_t end = diagonal ? min(r + rowsOfTile, columns) : columns;
    splitRows(
        s.scores + r * block, end,
        [&](int64_t row) {
          const int64_t last = diagonal ? min(r + row + 1, columns) : columns;
          return r + row < rows ? last : 0;
        },
        parts);
    for (int64_t c = 0; c < s.width; c += openTiles * lanes) {
      const int64_t count = min(openTiles, (s.width - c) / lanes);
      float *sums = s.sums + r * s.width + c;
      if (begins)
        clearSums(count);
      else
        loadSums(count, sums, s.width);
      for (int64_t key = 0; key < end; key += depthOfTile)
        for (int part = 0; part < partsOfF32; ++part)
          addTiles(count, parts + part * partWords + key / 2, words,
                   values + key / 2 * s.width + c * lanes, tileWords);
      storeSums(count, sums, s.width);
    }
  }
}

void forward(const AttentionHead &h, const uint16_t *q, const uint16_t *k,
             const uint16_t *v, float *out, float *lse, float *memory) {
  Scratch scratch{memory};
  TiledScratch s(h, scratch);
  const float scale = scoreScale(h.headDim) * log2OfE;
  for (int64_t key = 0; key < h.keys; key += block) {
    const int64_t count = min(block, h.keys - key), j = key / block;
    packKeys(k + key * h.kvStride, count, h.kvStride, h.headDim, s.groups,
             (uint32_t *)s.keysOf(j));
    packValues(v + key * h.kvStride, count, h.kvStride, h.headDim,
               (uint32_t *)s.valuesOf(j));
  }
  OpenTiles tiles;
  for (int64_t i = 0; i * block < h.seq; ++i) {
    const int64_t rows = min(block, h.seq - i * block);
    const int64_t first = firstBlockOf(h, i), last = lastBlockOf(h, i);
    packQueries(q + i * block * h.qStride, rows, h.qStride, h.headDim, s.groups,
                s.queries);
    for (int64_t j = first; j <= last; ++j) {
      const int64_t columns = min(block, h.keys - j * block);
      const bool diagonal = isDiagonal(h, i, j);
      scoreBlock(s, rows, columns, diagonal, s.keysOf(j));
      softmaxBlock(h, i, j, j == first, diagonal, scale, s);
      addValues(s, rows, columns, diagonal, s.valuesOf(j), j == first);
    }
    storeRows(h, i, first <= last, s, out, lse);
  }
}

int64_t forwardScratch(const AttentionHead &h) {
  Scratch counter{nullptr};
  TiledScratch pieces(h, counter);
  return counter.used;
}

} // namespace

const TiledAttention optrt::tiledAttention = {forwardScratch, forward};
