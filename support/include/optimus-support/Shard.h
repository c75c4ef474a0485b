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
  std::vector<int64_t> shape;         ///< whole and unpadded
  std::vector<int64_t> localShape;    ///< of each rank's shard, with padding
  std::vector<std::vector<int>> axes; ///< mesh axes that cut it, slowest first

  /// Elements of the whole tensor, without padding.
  int64_t numElements() const;
  /// Elements of a shard, with padding.
  int64_t numLocalElements() const;
  /// The real elements that `rank` holds.
  int64_t numRealElements(const Mesh &mesh, int64_t rank) const;
  /// Whether some rank's shard has padding.
  bool hasPadding(const Mesh &mesh) const;

  /// Whether `rank` is, among the ranks that hold the same shard, the one with
  /// index 0 on every axis that replicates. The canonical owners' shards make
  /// up the whole tensor exactly once.
  bool isCanonicalOwner(const Mesh &mesh, int64_t rank) const;

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

template <typename Fn>
void ShardLayout::forEachRun(const Mesh &mesh, int64_t rank, Fn &&fn) const {
  const int dims = int(shape.size());
  std::vector<int64_t> first(dims), extent(dims);
  for (int d = 0; d < dims; ++d) {
    first[d] = mesh.combinedIndex(rank, axes[d]) * localShape[d];
    extent[d] = std::min(localShape[d], shape[d] - first[d]);
    if (extent[d] <= 0)
      return;
  }

  // Dimensions from `split` on lie together in the whole tensor and in the
  // shard: all of them but the first are held whole and unpadded.
  int split = dims;
  int64_t count = 1;
  while (split > 0) {
    --split;
    count *= extent[split];
    if (extent[split] != shape[split] || localShape[split] != shape[split])
      break;
  }

  std::vector<int64_t> globalStride(dims), localStride(dims);
  int64_t globalSize = 1, localSize = 1, globalOffset = 0;
  for (int d = dims - 1; d >= 0; --d) {
    globalStride[d] = globalSize;
    localStride[d] = localSize;
    globalOffset += first[d] * globalSize;
    globalSize *= shape[d];
    localSize *= localShape[d];
  }

  std::vector<int64_t> index(dims, 0);
  int64_t localOffset = 0;
  while (true) {
    fn(ShardRun{globalOffset, localOffset, count});
    int d = split - 1;
    for (; d >= 0; --d) {
      globalOffset += globalStride[d];
      localOffset += localStride[d];
      if (++index[d] < extent[d])
        break;
      globalOffset -= extent[d] * globalStride[d];
      localOffset -= extent[d] * localStride[d];
      index[d] = 0;
    }
    if (d < 0)
      return;
  }
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
