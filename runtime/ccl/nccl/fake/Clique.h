//===- Clique.h - Members of a communicator in one process ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How a fake communicator is given back, as commReclaim() of NCCL 2.30.7
// (src/init.cc) does it. Nothing happens before the last member in a process is
// aborted or destroyed. This call waits until no graph has collectives of those
// members, but for finalized ones. Last it gives memory back, and the driver
// waits meanwhile until the GPU has nothing to do: for ever where another
// communicator's collective waits for other ranks.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_NCCL_FAKE_CLIQUE_H
#define OPTIMUS_RUNTIME_CCL_NCCL_FAKE_CLIQUE_H

#include "Operations.h"

namespace optrt::nccl::fake {

/// A member is known from when it begins to join.
void enterClique(const CommRef &comm);

/// Does not return on the GPU that $OPTIMUS_FAKE_NCCL_STUCK names, with this
/// ending.
void getStuck(int gpu, const char *ending);

/// As ncclCommAbort() and ncclCommDestroy(): returns when they do.
void reclaim(CommRef comm);

/// How many owners a communicator has that nothing refers to, but for the list
/// of handles.
inline constexpr long kCliqueOwners = 1;

} // namespace optrt::nccl::fake

#endif // OPTIMUS_RUNTIME_CCL_NCCL_FAKE_CLIQUE_H
