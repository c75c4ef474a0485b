//===- TensorGather.cpp - Whole tensors, a slab at a time -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorGather.h"

#include <algorithm>

using namespace optrt;
using namespace optimus_support;

// In elements: 4 MiB, so that sixteen ranks send 256 KiB each.
static constexpr int64_t kSlab = 1 << 20;

namespace {

/// A rank that hands in a shard, and how far it has come.
struct Owner {
  int rank;
  int local; ///< of this process's ranks, or -1
  ShardRuns runs;
};

} // namespace

Status TensorGather::gather(const ShardLayout &layout, const Read &read,
                            const Take &take) {
  const int64_t size = layout.numElements();
  // No message is longer, and growing would hold two.
  message.reserve(kSlab);
  std::vector<Owner> owners;
  for (int rank = 0; rank != control.size(); ++rank) {
    int local = rank - control.firstRank();
    bool here = local >= 0 && local < control.numLocalRanks();
    if ((here || control.isRoot()) && layout.isCanonicalOwner(mesh, rank))
      owners.push_back(
          {rank, here ? local : -1, ShardRuns(layout, mesh, rank)});
  }

  for (int64_t begin = 0; begin < size; begin += kSlab) {
    const int64_t end = std::min(begin + kSlab, size);
    if (control.isRoot())
      slab.resize(end - begin);
    for (Owner &owner : owners) {
      ShardRuns runs = owner.runs;
      message.clear();
      int64_t expected = 0;
      for (ShardRun run; owner.runs.takeBefore(end, run);) {
        expected += run.count;
        if (owner.local < 0)
          continue;
        const float *from = read(owner.local, run.localOffset, run.count);
        if (control.isRoot())
          std::copy_n(from, run.count, &slab[run.globalOffset - begin]);
        else
          message.insert(message.end(), from, from + run.count);
      }
      if ((owner.local >= 0 && control.isRoot()) || expected == 0)
        continue;
      message.resize(expected);
      OPTRT_RETURN_IF_ERROR(
          control.sendToRoot(owner.rank, message.data(), message.size()));
      if (!control.isRoot())
        continue;
      const float *next = message.data();
      for (ShardRun run; runs.takeBefore(end, run); next += run.count)
        std::copy_n(next, run.count, &slab[run.globalOffset - begin]);
    }
    if (control.isRoot())
      take(slab);
  }
  return okStatus();
}
