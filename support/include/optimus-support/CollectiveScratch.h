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

#include "optimus-support/model_abi.h"

#include <array>
#include <cstdint>

namespace optimus_support {

/// Whether a matrix has no gaps between rows.
inline bool isDenseMatrix(const optrt_collective_desc &desc, int64_t ld) {
  return desc.outer == 1 || ld == desc.inner;
}

/// Elements up to which everything goes to everybody in one exchange: two would
/// take longer.
inline bool isSmallCollective(const optrt_collective_desc &desc) {
  constexpr int64_t kSmallElements = 1024;
  return desc.outer * desc.inner <= kSmallElements;
}

/// Elements of the buffers that an operation keeps.
struct TcpScratch {
  int64_t packed = 0;  ///< of what is sent and lies in rows apart
  int64_t slots = 0;   ///< of what comes and is added up or lies in rows apart
  int64_t reduced = 0; ///< of this member's part of the result

  std::array<int64_t, 3> all() const { return {packed, slots, reduced}; }
};

/// Among so many members.
inline TcpScratch tcpScratchFor(const optrt_collective_desc &desc,
                                int64_t size) {
  const int64_t count = desc.outer * desc.inner;
  if (count == 0 || size == 1)
    return {};
  const bool isSrcDense = isDenseMatrix(desc, desc.src_ld);
  const bool areBothDense = isSrcDense && isDenseMatrix(desc, desc.dst_ld);
  const int64_t part =
      isSmallCollective(desc) ? count : (count + size - 1) / size;
  switch (desc.kind) {
  case OPTRT_BROADCAST:
    return {areBothDense ? 0 : count, 0, 0};
  case OPTRT_ALL_GATHER:
    return {isSrcDense ? 0 : count, desc.outer == 1 ? 0 : size * count, 0};
  case OPTRT_REDUCE_SCATTER:
    return {desc.outer == 1 ? 0 : size * count, size * count, count};
  default:
    return {areBothDense ? 0 : count, size * part, part};
  }
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_COLLECTIVESCRATCH_H
