//===- Chunks.cpp - A collective as work for any thread -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Chunks.h"

#include "../RankOrderReduction.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace optrt {
namespace {

/// Elements of a block that one chunk covers: a few microseconds of work, so
/// that threads share the rest evenly.
constexpr int64_t kChunkElements = 8 * kReductionBlock;

/// Elements written up to which one thread performs a collective alone: about
/// as long as it takes to wake another.
constexpr int64_t kSmallElements = 1 << 15;

/// Whether every rank has a part of the whole tensor.
bool isInParts(int32_t kind) {
  return kind == OPTRT_ALL_GATHER || kind == OPTRT_REDUCE_SCATTER;
}

int64_t chunksOfABlock(const optrt_collective_desc &desc) {
  return (desc.outer * desc.inner + kChunkElements - 1) / kChunkElements;
}

/// Calls body(row, column, length) for pieces of at most `longest` elements
/// that cover the elements [begin, end) of a matrix with `inner` columns.
template <typename Body>
void forEachPiece(int64_t begin, int64_t end, int64_t inner, int64_t longest,
                  Body body) {
  for (int64_t e = begin; e < end;) {
    int64_t row = e / inner, column = e % inner;
    int64_t length = std::min({inner - column, end - e, longest});
    body(row, column, length);
    e += length;
  }
}

/// Whether no matrix of a collective on whole blocks has gaps between rows.
bool isDense(std::span<const Posting> members) {
  const optrt_collective_desc &desc = members[0].desc;
  for (std::size_t r = 0; r != members.size(); ++r) {
    const optrt_collective_desc &own = members[r].desc;
    bool isRoot = static_cast<int32_t>(r) == desc.root;
    bool reads = desc.kind != OPTRT_BROADCAST || isRoot;
    bool writes = desc.kind != OPTRT_REDUCE || isRoot;
    if ((reads && own.src_ld != desc.inner) ||
        (writes && own.dst_ld != desc.inner))
      return false;
  }
  return true;
}

/// A block [outer, inner] of a member's matrix, of elements T or const T.
template <typename T>
struct Block {
  T *at(int64_t row, int64_t column) const { return data + row * ld + column; }
  T *data;
  int64_t ld;
};

/// The elements of a block that one chunk covers.
struct Range {
  int64_t begin, end;
};

/// Copies a range of a block to a place of every member: destination(r) may be
/// null.
template <typename T, typename DestinationFn>
void copyToAll(Range range, int64_t inner, int n, Block<const T> source,
               DestinationFn destination) {
  forEachPiece(range.begin, range.end, inner, kChunkElements,
               [&](int64_t row, int64_t column, int64_t length) {
                 const T *from = source.at(row, column);
                 for (int r = 0; r != n; ++r) {
                   Block<T> to = destination(r);
                   if (to.data && to.at(row, column) != from)
                     std::memcpy(to.at(row, column), from, length * sizeof(T));
                 }
               });
}

/// Reduces a range of the blocks source(r) of all members into
/// `destinations`, which may be sources too. destination(m) gives a block.
template <typename T, typename SourceFn, typename DestinationFn>
void reduceToAll(Range range, int64_t inner, int32_t reduction, int n,
                 SourceFn source, int numDestinations,
                 DestinationFn destination) {
  forEachPiece(range.begin, range.end, inner, kReductionBlock,
               [&](int64_t row, int64_t column, int64_t length) {
                 alignas(64) T result[kReductionBlock];
                 reduceBlock(
                     reduction, n,
                     [&](int r) { return source(r).at(row, column); }, result,
                     length);
                 for (int m = 0; m != numDestinations; ++m)
                   std::memcpy(destination(m).at(row, column), result,
                               length * sizeof(T));
               });
}

} // namespace

int64_t numChunks(const optrt_collective_desc &desc, int n) {
  return chunksOfABlock(desc) * (isInParts(desc.kind) ? n : 1);
}

bool isSmall(const optrt_collective_desc &desc, int n) {
  int64_t blocks = isInParts(desc.kind) ? n * n : n;
  return desc.outer * desc.inner * blocks <= kSmallElements;
}

/// runChunk() of members whose elements are T.
template <typename T>
static void runTypedChunk(std::span<const Posting> members, int64_t chunk) {
  const optrt_collective_desc &desc = members[0].desc;
  const int n = static_cast<int>(members.size());
  // Part by part, or a range of the one block.
  int64_t perBlock = chunksOfABlock(desc);
  int64_t part = chunk / perBlock;
  int64_t begin = chunk % perBlock * kChunkElements;
  // Without gaps between rows the matrix is one long row.
  bool oneRow = !isInParts(desc.kind) && isDense(members);
  int64_t inner = oneRow ? desc.outer * desc.inner : desc.inner;
  Range range{begin, std::min(begin + kChunkElements, desc.outer * desc.inner)};

  auto source = [&](int r) {
    return Block<const T>{static_cast<const T *>(members[r].src),
                          members[r].desc.src_ld};
  };
  auto destination = [&](int r) {
    return Block<T>{static_cast<T *>(members[r].dst), members[r].desc.dst_ld};
  };
  switch (desc.kind) {
  case OPTRT_BROADCAST:
    copyToAll<T>(range, inner, n, source(desc.root), destination);
    return;
  case OPTRT_REDUCE:
    reduceToAll<T>(range, inner, desc.reduction, n, source, 1,
                   [&](int) { return destination(desc.root); });
    return;
  case OPTRT_ALL_REDUCE:
    reduceToAll<T>(range, inner, desc.reduction, n, source, n, destination);
    return;
  case OPTRT_ALL_GATHER:
    copyToAll<T>(range, inner, n, source(static_cast<int>(part)), [&](int r) {
      Block<T> whole = destination(r);
      whole.data += part * inner;
      return whole;
    });
    return;
  case OPTRT_REDUCE_SCATTER:
    reduceToAll<T>(
        range, inner, desc.reduction, n,
        [&](int r) {
          Block<const T> whole = source(r);
          whole.data += part * inner;
          return whole;
        },
        1, [&](int) { return destination(static_cast<int>(part)); });
    return;
  }
  assert(false && "the kind was checked at the start");
}

void runChunk(std::span<const Posting> members, int64_t chunk) {
  withElement(members[0].desc.type, [&](auto element) {
    runTypedChunk<decltype(element)>(members, chunk);
  });
}

} // namespace optrt
