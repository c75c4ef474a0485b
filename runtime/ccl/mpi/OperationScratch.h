//===- OperationScratch.h - What collectives over MPI keep ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MPI_OPERATIONSCRATCH_H
#define OPTIMUS_RUNTIME_CCL_MPI_OPERATIONSCRATCH_H

#include "Exchange.h"
#include "optimus-runtime/CommandDescriptors.h"

namespace optrt {

/// A communicator as an operation sees it.
struct Members {
  MPI_Comm comm;
  int size, index;
  /// Whether a large broadcast goes along a chain. Among ranks of one host
  /// there is no link to save, and MPI's own has fewer copies.
  bool chainBroadcast;
};

/// Elements up to which a reduction sends everything to everybody: one round
/// of small messages instead of two.
inline constexpr int64_t kOneRoundElements = 1024;

/// Elements from which a chain pays: its many messages cost less than what
/// the tree or the star loses in link time.
inline constexpr int64_t kChainElements = 1 << 14;

/// Elements of a segment of what one rank sends to another in an exchange.
/// Longer ones collide on the way into a rank; shorter ones cost more, which
/// shows where many ranks share a core.
inline constexpr int64_t kExchangeSegment = 1 << 15;

/// Elements of a segment of a tensor that goes along a chain.
int64_t chainSegment(int32_t kind, int64_t count, int ranks);

/// Whether the sums of a reduction to one rank go along a chain. They are f32.
bool isAlongChain(const optrt_collective_desc &desc);

/// Whether a reduction sends everything to everybody.
bool isInOneRound(const optrt_collective_desc &desc);

/// Elements of the buffers that an operation keeps for a collective.
struct OperationScratch {
  int64_t packed = 0, received = 0;
  Exchange::Room exchange, handing;
};
/// At most; out of place it may be less. The one place that says how much there
/// is: operations take their buffers by it.
OperationScratch scratchFor(const Members &members,
                            const optrt_collective_desc &desc);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_MPI_OPERATIONSCRATCH_H
