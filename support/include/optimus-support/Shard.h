//===- Shard.h - Which part of a tensor a rank holds ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place with the index arithmetic between whole tensors and their
// shards: initial values, checkpoints and inputs all go through its runs.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_SHARD_H
#define OPTIMUS_SUPPORT_SHARD_H

#include "optimus-support/Mesh.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace optimus_support {

/// A contiguous run of real (not padding) elements, in elements.
struct ShardRun {
  int64_t globalOffset; ///< in the whole, unpadded tensor, row-major
  int64_t localOffset;  ///< in the shard, row-major
  int64_t count;        ///< at least 1

  bool operator==(const ShardRun &) const = default;
};

/// How a tensor lies on a mesh. On dimension d the rank whose combined index on
/// axes[d] is k owns the padded range [k * localShape[d], (k+1) *
/// localShape[d]); what lies at or beyond shape[d] is padding. Axes named
/// nowhere replicate. The three lists have one entry a dimension; a scalar has
/// none.
struct ShardLayout {
  std::vector<int64_t> shape;      ///< whole and unpadded
  std::vector<int64_t> localShape; ///< of each rank's shard, with padding
  std::vector<std::vector<int>>
      axes; ///< mesh axes that shard it, slowest first

  /// Elements of the whole tensor, without padding.
  int64_t numElements() const;
  /// Elements of a shard, with padding.
  int64_t numLocalElements() const;
  /// The real elements that `rank` holds.
  int64_t numRealElements(const Mesh &mesh, int64_t rank) const;
  /// Whether some rank's shard has padding.
  bool hasPadding(const Mesh &mesh) const;

  /// Whether `rank` has index 0 on every axis that replicates, among the ranks
  /// with the same shard. The canonical owners' shards make up the whole tensor
  /// exactly once.
  bool isCanonicalOwner(const Mesh &mesh, int64_t rank) const {
    return areOfOneReplica(mesh, rank, 0);
  }
  /// Whether two ranks have the same index on every axis that replicates. The
  /// shards of all ranks that are of one replica with some rank make up the
  /// whole tensor exactly once.
  bool areOfOneReplica(const Mesh &mesh, int64_t one, int64_t other) const;
  /// A rank that holds an element of the whole tensor: as `replica` counts up,
  /// one replica's after the other.
  int64_t holderOf(const Mesh &mesh, int64_t element, int64_t replica) const;

  /// Calls fn(const ShardRun &) for the runs of `rank`, with ascending global
  /// and local offsets. Runs are as long as the layout allows.
  template <typename Fn>
  void forEachRun(const Mesh &mesh, int64_t rank, Fn &&fn) const;

  /// Copies the shard of `rank` out of a whole tensor, padding zeroed.
  template <typename T>
  void slice(const Mesh &mesh, int64_t rank, const T *whole, T *local) const;

  /// Copies the real elements of the shard of `rank` into a whole tensor.
  template <typename T>
  void place(const Mesh &mesh, int64_t rank, const T *local, T *whole) const;

  bool operator==(const ShardLayout &) const = default;
};

/// The product of the extents; 1 for none.
int64_t numElements(std::span<const int64_t> shape);

/// For instance "[192, 576]".
std::string shapeToString(std::span<const int64_t> shape);

/// The runs of one rank's shard one after the other, with ascending global and
/// local offsets and as long as the layout allows. A copy goes on from where
/// the original stands.
class ShardRuns {
public:
  ShardRuns(const ShardLayout &layout, const Mesh &mesh, int64_t rank);
  /// Of the elements with local offsets in [begin, end) only.
  ShardRuns(const ShardLayout &layout, const Mesh &mesh, int64_t rank,
            int64_t begin, int64_t end);

  bool done() const { return finished; }
  /// The run that comes next. Only unless done().
  const ShardRun &next() const { return run; }
  void advance();
  /// Drops the elements before a global one, at a cost independent of their
  /// number. Only before anything was taken.
  void skipTo(int64_t element);

  /// Cuts off what of the next run lies before the global element `end`: false
  /// if nothing does.
  bool takeBefore(int64_t end, ShardRun &part);

private:
  /// Of a dimension outside the runs.
  struct Dimension {
    int64_t extent, globalStride, localStride;
    int64_t index = 0;
  };
  /// Cuts so many elements off the front of the next run.
  void drop(int64_t count);
  /// Cuts off what of the next run lies beyond the last local offset.
  void clip();
  /// Moves the next run on by so many of a dimension's indices.
  void step(Dimension &dimension, int64_t count);

  std::vector<Dimension> outer; ///< slowest first
  ShardRun run{};               ///< what is left of it
  int64_t dropped = 0;          ///< elements cut off its front
  int64_t clipped = 0;          ///< elements cut off its end
  int64_t localEnd = std::numeric_limits<int64_t>::max();
  bool finished = false;
};

template <typename Fn>
void ShardLayout::forEachRun(const Mesh &mesh, int64_t rank, Fn &&fn) const {
  for (ShardRuns runs(*this, mesh, rank); !runs.done(); runs.advance())
    fn(runs.next());
}

template <typename T>
void ShardLayout::slice(const Mesh &mesh, int64_t rank, const T *whole,
                        T *local) const {
  if (hasPadding(mesh))
    std::fill_n(local, numLocalElements(), T());
  forEachRun(mesh, rank, [&](const ShardRun &run) {
    std::copy_n(whole + run.globalOffset, run.count, local + run.localOffset);
  });
}

template <typename T>
void ShardLayout::place(const Mesh &mesh, int64_t rank, const T *local,
                        T *whole) const {
  forEachRun(mesh, rank, [&](const ShardRun &run) {
    std::copy_n(local + run.localOffset, run.count, whole + run.globalOffset);
  });
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_SHARD_H
