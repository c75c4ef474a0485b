//===- Chunks.h - A collective as work for any thread -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A collective between buffers of one process is cut into chunks that any
// thread may perform, in any order and at the same time: each element of a
// destination is written by one chunk, which reads it from all members in rank
// order. So the bits do not depend on the threads' shares, and in-place
// operation needs no extra buffer.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_LOCAL_CHUNKS_H
#define OPTIMUS_RUNTIME_CCL_LOCAL_CHUNKS_H

#include "base/Subnormals.h"
#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-runtime/ControlPlane.h"

#include <span>

namespace optrt {

/// What one member brings to a collective. Those of a message are its sender
/// and its receiver.
struct Posting {
  int rank;
  CommandId id;
  optrt_collective_desc desc;
  const void *src;
  void *dst;
  /// As the thread that made it; so does whoever performs a chunk.
  bool flushes = flushesSubnormals();
};

/// How many chunks a collective of n members has.
int64_t numChunks(const optrt_collective_desc &desc, int n);

/// Whether a collective is done sooner by one thread than another is woken.
bool isSmall(const optrt_collective_desc &desc, int n);

/// Performs one chunk of the collective that all members have posted.
void runChunk(std::span<const Posting> members, int64_t chunk);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_LOCAL_CHUNKS_H
