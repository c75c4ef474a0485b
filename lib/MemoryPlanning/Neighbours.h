//===- Neighbours.h - Buffers alive at the same time ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_MEMORYPLANNING_NEIGHBOURS_H
#define OPTIMUS_LIB_MEMORYPLANNING_NEIGHBOURS_H

#include "Problem.h"

namespace optimus_planning {

/// For each buffer the others alive at the same time, one after the other in
/// one array.
class Neighbours {
public:
  /// `maxPairs`: gives up, leaving itself empty, when there are more.
  Neighbours(const Component &component, int64_t maxPairs);

  bool empty() const { return begins.empty(); }
  std::span<const int32_t> of(int32_t buffer) const {
    return std::span<const int32_t>(members).subspan(
        begins[buffer], begins[buffer + 1] - begins[buffer]);
  }

private:
  std::vector<int64_t> begins;
  std::vector<int32_t> members;
};

} // namespace optimus_planning

#endif // OPTIMUS_LIB_MEMORYPLANNING_NEIGHBOURS_H
