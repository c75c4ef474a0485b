//===- CollectiveOperands.h - What a collective moves -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_COLLECTIVEOPERANDS_H
#define OPTIMUS_RUNTIME_CCL_COLLECTIVEOPERANDS_H

#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-support/CollectiveScratch.h"
#include "optimus-support/ElementType.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace optrt {

/// A collective that every back-end knows.
inline optimus_support::CollectiveShape
shapeOf(const optrt_collective_desc &desc) {
  return {optimus_support::program::CollectiveKind(desc.kind), desc.outer,
          desc.inner, desc.src_ld, desc.dst_ld};
}

/// Calls body(row, column, offset, length) for the rows of the elements
/// [begin, begin + length) of a matrix with `inner` columns.
template <typename Body>
void forEachRow(int64_t begin, int64_t length, int64_t inner, Body body) {
  for (int64_t done = 0; done != length;) {
    int64_t row = (begin + done) / inner, column = (begin + done) % inner;
    int64_t some = std::min(inner - column, length - done);
    body(row, column, done, some);
    done += some;
  }
}

/// A collective's source and destination on one rank: matrices whose rows begin
/// `ld` elements apart. What an operation in flight is derived from.
class CollectiveOperands {
protected:
  void bind(const optrt_collective_desc &newDesc, const void *newSrc,
            void *newDst) {
    desc = newDesc;
    src = static_cast<const std::byte *>(newSrc);
    dst = static_cast<std::byte *>(newDst);
    elementBytes =
        optimus_support::elementBytes(optimus_support::ElementType(desc.type));
  }

  int64_t count() const { return desc.outer * desc.inner; }
  /// Of some elements.
  int64_t bytes(int64_t elements) const { return elements * elementBytes; }
  bool isDense(int64_t ld) const { return shapeOf(desc).isDense(ld); }
  /// Whether a member of the group is to have what is reduced.
  bool wantsResult(int member) const {
    return desc.kind != OPTRT_REDUCE || member == desc.root;
  }

  /// Copies elements [begin, begin + length) of a matrix with `inner` columns
  /// out of it, and into it.
  void pack(std::byte *packed, const std::byte *matrix, int64_t ld,
            int64_t begin, int64_t length) const {
    forEachRow(begin, length, desc.inner,
               [&](int64_t row, int64_t column, int64_t at, int64_t some) {
                 std::memcpy(packed + bytes(at),
                             matrix + bytes(row * ld + column), bytes(some));
               });
  }
  void unpack(std::byte *matrix, int64_t ld, const std::byte *packed,
              int64_t begin, int64_t length) const {
    forEachRow(begin, length, desc.inner,
               [&](int64_t row, int64_t column, int64_t at, int64_t some) {
                 std::memcpy(matrix + bytes(row * ld + column),
                             packed + bytes(at), bytes(some));
               });
  }
  /// What this rank gives, to where it lies in the destination.
  void copyToOwn(std::byte *block) const {
    for (int64_t row = 0; row != desc.outer; ++row)
      std::memcpy(block + bytes(row * desc.dst_ld),
                  src + bytes(row * desc.src_ld), bytes(desc.inner));
  }

  optrt_collective_desc desc{};
  const std::byte *src = nullptr;
  std::byte *dst = nullptr;

private:
  int64_t elementBytes = 4;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_COLLECTIVEOPERANDS_H
