//===- CallRecord.h - What a rank saw of a call -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROFILE_CALLRECORD_H
#define OPTIMUS_RUNTIME_PROFILE_CALLRECORD_H

#include "optimus-runtime/Device.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace optrt {

/// A call of a function on one rank. Vectors keep their memory for the next
/// call.
struct CallRecord {
  struct Transfer {
    uint32_t command; ///< that started it
    CommandTimes times;
  };
  struct Allocation {
    uint32_t buffer; ///< of the function
    const void *address;
    CommandTimes allocated, freed;
  };

  int rank = 0;
  std::size_t call = 0; ///< of the session's
  int64_t step = 0;
  CommandTimes times;
  std::vector<CommandTimes> commands; ///< by number
  std::vector<Transfer> transfers;
  std::vector<Allocation> allocations;

  std::size_t bytes() const {
    return sizeof(*this) + commands.capacity() * sizeof(CommandTimes) +
           transfers.capacity() * sizeof(Transfer) +
           allocations.capacity() * sizeof(Allocation);
  }
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROFILE_CALLRECORD_H
