//===- CollectiveScratch.h - What collectives over TCP keep -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks that are threads read each other's buffers; those that are processes
// keep some of their own. Over TCP these follow from the collective alone, so
// that the compiler reports them and the runtime keeps to them.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_COLLECTIVESCRATCH_H
#define OPTIMUS_SUPPORT_COLLECTIVESCRATCH_H

#include "optimus-support/Program.h"

#include <array>
#include <cstdint>

namespace optimus_support {

/// What of a collective its buffers depend on.
struct CollectiveShape {
  program::CollectiveKind kind;
  int64_t outer, inner;
  int64_t srcLd, dstLd;

  int64_t count() const { return outer * inner; }
  /// Whether a matrix has no gaps between rows.
  bool isDense(int64_t ld) const { return outer == 1 || ld == inner; }
};

/// Elements up to which everything goes to everybody in one exchange: two would
/// take longer.
inline bool isSmallCollective(const CollectiveShape &shape) {
  constexpr int64_t kSmallElements = 1024;
  return shape.count() <= kSmallElements;
}

/// Elements of the buffers that an operation keeps.
struct TcpScratch {
  int64_t packed = 0;  ///< of what is sent and lies in rows apart
  int64_t slots = 0;   ///< of what comes and is added up or lies in rows apart
  int64_t reduced = 0; ///< of this member's part of the result

  std::array<int64_t, 3> all() const { return {packed, slots, reduced}; }
};

/// Among so many members.
inline TcpScratch tcpScratchFor(const CollectiveShape &shape, int64_t size) {
  using program::CollectiveKind;
  const int64_t count = shape.count();
  if (count == 0 || size == 1)
    return {};
  const bool isSrcDense = shape.isDense(shape.srcLd);
  const bool areBothDense = isSrcDense && shape.isDense(shape.dstLd);
  const int64_t part =
      isSmallCollective(shape) ? count : (count + size - 1) / size;
  switch (shape.kind) {
  case CollectiveKind::Broadcast:
    return {areBothDense ? 0 : count, 0, 0};
  case CollectiveKind::AllGather:
    return {isSrcDense ? 0 : count, shape.outer == 1 ? 0 : size * count, 0};
  case CollectiveKind::ReduceScatter:
    return {shape.outer == 1 ? 0 : size * count, size * count, count};
  default:
    return {areBothDense ? 0 : count, size * part, part};
  }
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_COLLECTIVESCRATCH_H
