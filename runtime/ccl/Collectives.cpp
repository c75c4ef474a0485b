//===- Collectives.cpp - What back-ends have in common --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Collectives.h"

namespace optrt {

std::string_view collectiveName(int32_t kind) {
  switch (kind) {
  case OPTRT_BROADCAST:
    return "broadcast";
  case OPTRT_REDUCE:
    return "reduce";
  case OPTRT_ALL_REDUCE:
    return "all_reduce";
  case OPTRT_ALL_GATHER:
    return "all_gather";
  case OPTRT_REDUCE_SCATTER:
    return "reduce_scatter";
  }
  return "unknown";
}

Status Communicator::tooManyInFlight() {
  return internal(concat("starts a collective while ", kMaxInFlight,
                         " others of its group are not waited for"));
}

Status Communicator::notStarted() {
  return internal("is waited for but was not started");
}

} // namespace optrt
