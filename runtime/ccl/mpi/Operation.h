//===- Operation.h - A collective in flight over MPI ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MPI_OPERATION_H
#define OPTIMUS_RUNTIME_CCL_MPI_OPERATION_H

#include "../plans/PlanWalk.h"
#include "Mpi.h"

#include <vector>

namespace optrt {

/// A communicator as an operation sees it.
struct Members {
  MPI_Comm comm;
  int size, index;
  /// Whether a large broadcast goes along a chain. Among ranks of one host
  /// there is no link to save, and MPI's own has fewer copies.
  bool chainBroadcast;
};

/// One collective of a rank: a plan, or a broadcast of MPI's. A large broadcast
/// goes along a chain of ranks, and so do large f32 sums to one rank. All calls
/// are made under the back-end's lock.
class Operation final : public PlanWalk {
public:
  /// Posts what can be sent at once. `newTag` tells apart operations that are
  /// in flight on a communicator at the same time, with the number after it.
  Status begin(const Members &newMembers, int newTag,
               const optrt_collective_desc &newDesc, const void *src,
               void *dst);

  /// What it keeps for a collective, each buffer for itself.
  static std::vector<int64_t> bufferBytes(const Members &members,
                                          const optrt_collective_desc &desc);

private:
  Status post(const Message &message) override;
  Status postBroadcast(const Message &message, MPI_Request &request);
  Status test(std::vector<Message> &ended) override;

  Members members{};
  int tag = 0;
  MPI_Datatype type = MPI_FLOAT;
  // In flight.
  std::vector<Message> messages;
  std::vector<MPI_Request> requests;
  std::vector<int> complete;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_MPI_OPERATION_H
