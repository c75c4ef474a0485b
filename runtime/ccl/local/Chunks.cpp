//===- Chunks.cpp - A collective as work for any thread -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Chunks.h"

#include "../RankOrderReduction.h"
#include "optimus-runtime/Collectives.h"

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
bool isInParts(int32_t kind) { return readsBlocks(kind) || writesBlocks(kind); }

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
    const bool reads = hasSource(own.kind, isRoot),
               writes = hasDestination(own.kind, isRoot);
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

/// Copies a range of a block to n places: destination(r) may be null.
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

namespace {
/// A chunk of members whose elements are T.
template <typename T>
class TypedChunk {
public:
  TypedChunk(std::span<const Posting> members, int64_t chunk)
      : members(members), desc(members[0].desc),
        n(static_cast<int>(members.size())) {
    // Part by part, or a range of the one block.
    const int64_t perBlock = chunksOfABlock(desc);
    part = static_cast<int>(chunk / perBlock);
    range.begin = chunk % perBlock * kChunkElements;
    range.end = std::min(range.begin + kChunkElements, desc.outer * desc.inner);
    // Without gaps between rows the matrix is one long row.
    const bool oneRow = !isInParts(desc.kind) && isDense(members);
    inner = oneRow ? desc.outer * desc.inner : desc.inner;
  }

  void move() const {
    switch (desc.kind) {
    case OPTRT_BROADCAST:
      copyToAll<T>(range, inner, n, source(desc.root),
                   [&](int r) { return destination(r); });
      return;
    case OPTRT_ALL_GATHER:
      copyToAll<T>(range, inner, n, source(part),
                   [&](int r) { return destination(r, part); });
      return;
    case OPTRT_SEND:
      copyToAll<T>(range, inner, 1, source(0),
                   [&](int) { return destination(1); });
      return;
    case OPTRT_ALL_TO_ALL:
      for (int r = 0; r != n; ++r)
        copyToAll<T>(range, inner, 1, source(r, part),
                     [&](int) { return destination(part, r); });
      return;
    }
    assert(false && "the kind was checked at the start");
  }

  void reduce() const {
    auto first = [&](int r) { return source(r); };
    switch (desc.kind) {
    case OPTRT_REDUCE:
      reduceToAll<T>(range, inner, desc.reduction, n, first, 1,
                     [&](int) { return destination(desc.root); });
      return;
    case OPTRT_ALL_REDUCE:
      reduceToAll<T>(range, inner, desc.reduction, n, first, n,
                     [&](int r) { return destination(r); });
      return;
    case OPTRT_REDUCE_SCATTER:
      reduceToAll<T>(
          range, inner, desc.reduction, n,
          [&](int r) { return source(r, part); }, 1,
          [&](int) { return destination(part); });
      return;
    }
    assert(false && "the kind was checked at the start");
  }

private:
  /// The block of a member's matrix that is of another.
  Block<const T> source(int r, int block = 0) const {
    return {static_cast<const T *>(members[r].src) + block * inner,
            members[r].desc.src_ld};
  }
  /// Null where a member has no destination.
  Block<T> destination(int r, int block = 0) const {
    T *const whole = static_cast<T *>(members[r].dst);
    return {whole ? whole + block * inner : nullptr, members[r].desc.dst_ld};
  }

  const std::span<const Posting> members;
  const optrt_collective_desc &desc;
  const int n;
  int part;
  Range range;
  int64_t inner;
};
} // namespace

void runChunk(std::span<const Posting> members, int64_t chunk) {
  const optrt_collective_desc &desc = members[0].desc;
  if (addsUp(desc.kind)) {
    const SubnormalScope scope(members[0].flushes);
    withElement(desc.type, [&](auto element) {
      TypedChunk<decltype(element)>(members, chunk).reduce();
    });
  } else {
    withBits(desc.type, [&](auto element) {
      TypedChunk<decltype(element)>(members, chunk).move();
    });
  }
}

} // namespace optrt
