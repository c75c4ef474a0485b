//===- ShardExchange.h - Between shards and whole tensors ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_SHARDEXCHANGE_H
#define OPTIMUS_RUNTIME_SESSION_SHARDEXCHANGE_H

#include "RankBuffers.h"
#include "optimus-runtime/ControlPlane.h"
#include "optimus-support/Shard.h"

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace optrt {

/// Elements [begin, begin + count) of a buffer's whole tensor; of a tensor that
/// no rank holds, where there is no buffer.
struct BufferPart {
  static constexpr int64_t kNoBuffer = -1;
  int64_t buffer = kNoBuffer, begin = 0, count = 0;
};

/// What a process has at a time of whole tensors, in the order of its parts.
using Slab = std::vector<BufferPart>;

/// Elements of a slab: 256 KiB, kept by a core's cache from the first touch to
/// the last, and no more than a message.
inline constexpr int64_t kSlabElements = 64 << 10;

/// Notes a failure where others wait for what follows; those after the first say
/// less.
inline void keepFirst(Status &kept, Status status) {
  if (kept.ok())
    kept = std::move(status);
}

/// Moves elements between the ranks' shards and the processes' slabs of whole
/// tensors: as MPI-IO's collective buffering, so that files are read and
/// written in long pieces, whatever the mesh. Besides its slab a process takes
/// the memory of two messages.
class ShardExchange {
public:
  /// Whether a rank of the job holds a buffer. Those of one replica are alike.
  using Holds = std::function<bool(int64_t buffer, int64_t rank)>;

  /// All must outlive it. `ranks` are this process's. Without `holds` all ranks
  /// hold all buffers.
  ShardExchange(ControlPlane &control, const Manifest &manifest,
                std::vector<RankBuffers *> ranks, Holds holds = {});

  /// Fills from now on for late readers: past the caches, in two thirds of the
  /// time.
  void fillForLater() { isForLater = true; }

  int numProcesses() const { return control.size() / perProcess; }
  int process() const { return control.firstRank() / perProcess; }
  /// A process with a rank that holds a part's first element, one of each
  /// replica in turn; -1 where there is none.
  int holderOf(const BufferPart &part, int64_t turn) const;
  /// Whether some rank of a process has something of a slab.
  bool isPartOf(const Slab &slab, int process) const;

  /// Fills the slab of this process, of which `slabs` has one each. Of a tensor
  /// with replicas a process reads the one that its first rank belongs to.
  /// Unreadable elements are zeros, and the failure is returned when all others
  /// have arrived. Where `isShared`, a process gives another one its elements
  /// by give(), and no message. Collective.
  using IsShared = std::function<bool(int from, int to)>;
  Status collect(std::span<const Slab> slabs, std::span<float> own,
                 const IsShared &isShared = {});
  /// The same of buffers of other types, whose elements have a word's size.
  template <typename Word>
  Status collect(std::span<const Slab> slabs, std::span<Word> own);

  /// Sets what all ranks have of the slabs. `serves` says whether a process's
  /// slab is for another process too. As above. Collective.
  using Serves = std::function<bool(int from, int to)>;
  Status distribute(std::span<const Slab> slabs, std::span<const float> own,
                    const Serves &serves);

  /// The part of the above that lies within this process; on any thread, for
  /// several slabs at once.
  Status collectHere(const Slab &slab, std::span<float> own) {
    return give(slab, process(), own);
  }
  /// Puts what this process has of another one's slab into its memory.
  Status give(const Slab &slab, int to, std::span<float> room);
  Status distributeHere(const Slab &slab, std::span<const float> own);

private:
  /// What a rank has of a part of a slab.
  struct Share {
    int64_t buffer, at; ///< where the part begins in the slab, in elements
    int64_t part;       ///< where it begins in the tensor
    /// Between these offsets of the shard there is nothing else, but for
    /// padding.
    int64_t begin, end;
    std::vector<optimus_support::ShardRun> runs; ///< at least one
  };
  static constexpr int kAnyReplica = -1;
  /// Calls fn(share) for each part of a slab that a rank has something of: of
  /// tensors with replicas only where it is of the same one as another rank.
  template <typename Fn>
  void forEachShare(const Slab &slab, int rank, int replicaOf, Fn fn) const;
  /// Calls fn(share, rank) for what ranks of a process hand in for the slab of
  /// another.
  template <typename Fn>
  void forEachGiven(const Slab &slab, int from, int to, Fn fn) const;
  template <typename Word>
  Status collectWords(std::span<const Slab> slabs, std::span<Word> own,
                      std::vector<Word> &out, std::vector<Word> &in,
                      const IsShared &isShared = {});
  template <typename Word>
  Status giveWords(const Slab &slab, int to, std::span<Word> room);
  /// Reads a share that one of this process's ranks has: calls fn(run,
  /// elements) for each of its runs.
  template <typename Word, typename Fn>
  Status read(const Share &share, int rank, Fn fn);
  /// Writes it: fn(run) says where a run's elements are.
  template <typename Fn>
  Status write(const Share &share, int rank, Fn fn);

  bool isHolding(int64_t buffer, int64_t rank) const {
    return !holds || holds(buffer, rank);
  }
  /// A rank, where it holds a buffer, or else one that does.
  int64_t replicaFor(int64_t buffer, int64_t rank) const;

  RankBuffers &buffersOf(int rank) {
    return *ranks[rank - control.firstRank()];
  }

  ControlPlane &control;
  const Manifest &manifest;
  const int perProcess;
  std::vector<RankBuffers *> ranks;
  const Holds holds;
  bool isForLater = false;
  std::vector<float> out, in;
  std::mutex device; ///< held while one is accessed that host code cannot reach
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_SHARDEXCHANGE_H
