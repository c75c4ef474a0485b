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

int64_t firstOfGroup(const optimus_support::Mesh &mesh, int64_t rank,
                     std::span<const int> axes) {
  std::vector<int64_t> coordinates = mesh.coordinates(rank);
  for (int axis : axes)
    coordinates[axis] = 0;
  return mesh.rank(coordinates);
}

Status Communicator::tooManyInFlight() {
  return internal(concat("starts a collective while ", kMaxInFlight,
                         " others of its group are not waited for"));
}

Status Communicator::notStarted() {
  return internal("is waited for but was not started");
}

} // namespace optrt
