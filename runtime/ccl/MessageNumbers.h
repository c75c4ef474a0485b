//===- MessageNumbers.h - The messages of a member --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MESSAGENUMBERS_H
#define OPTIMUS_RUNTIME_CCL_MESSAGENUMBERS_H

#include "optimus-runtime/CommandDescriptors.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace optrt {

/// Numbers the messages of a member, apart for each peer and direction.
class MessageNumbers {
public:
  uint64_t next(const optrt_collective_desc &desc) {
    const std::size_t line = 2 * desc.root + (desc.kind == OPTRT_RECEIVE);
    if (line >= numbers.size())
      numbers.resize(line + 1);
    return numbers[line]++;
  }

private:
  std::vector<uint64_t> numbers;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_MESSAGENUMBERS_H
