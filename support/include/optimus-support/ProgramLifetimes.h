//===- ProgramLifetimes.h - When buffers of arenas are alive ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PROGRAMLIFETIMES_H
#define OPTIMUS_SUPPORT_PROGRAMLIFETIMES_H

#include "optimus-support/Program.h"

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace optimus_support::program {

/// Steps through a function's commands and knows which of its buffers are
/// alive: begin() and end() are called for each command, in order.
class LiveBuffers {
public:
  /// Each buffer by itself has been checked. The function must outlive it.
  explicit LiveBuffers(const FunctionT &function);

  /// The buffers whose first command this is.
  std::span<const uint32_t> begin(uint32_t command);
  /// The buffers whose last command this was.
  std::span<const uint32_t> end(uint32_t command);

  /// The buffer in which bytes [begin, end) of an arena lie now.
  std::optional<uint32_t> find(uint32_t arena, int64_t begin,
                               int64_t end) const;
  /// A buffer that overlaps this one, if the earlier ones are apart.
  std::optional<uint32_t> findOverlap(uint32_t buffer) const;

private:
  const FunctionT &function;
  std::vector<uint32_t> byFirst, byLast;
  size_t begun = 0, ended = 0;
  /// By arena and offset.
  std::multimap<std::pair<uint32_t, int64_t>, uint32_t> alive;
};

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_PROGRAMLIFETIMES_H
