//===- Shard.cpp - Which part of a tensor a rank holds --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Shard.h"

#include <algorithm>

using namespace optimus_support;

int64_t optimus_support::numElements(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

std::string optimus_support::shapeToString(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

int64_t ShardLayout::numElements() const {
  return optimus_support::numElements(shape);
}

int64_t ShardLayout::numLocalElements() const {
  return optimus_support::numElements(localShape);
}

int64_t ShardLayout::numRealElements(const Mesh &mesh, int64_t rank) const {
  int64_t count = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t first = mesh.combinedIndex(rank, axes[d]) * localShape[d];
    count *= std::clamp<int64_t>(shape[d] - first, 0, localShape[d]);
  }
  return count;
}

bool ShardLayout::hasPadding(const Mesh &mesh) const {
  for (size_t d = 0; d < shape.size(); ++d)
    if (localShape[d] * mesh.combinedSize(axes[d]) != shape[d])
      return true;
  return false;
}

bool ShardLayout::isCanonicalOwner(const Mesh &mesh, int64_t rank) const {
  std::vector<bool> sharding(mesh.numAxes(), false);
  for (const std::vector<int> &dimension : axes)
    for (int axis : dimension)
      sharding[axis] = true;
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    if (!sharding[axis] && mesh.coordinate(rank, axis) != 0)
      return false;
  return true;
}

ShardRuns::ShardRuns(const ShardLayout &layout, const Mesh &mesh,
                     int64_t rank) {
  const int dims = int(layout.shape.size());
  std::vector<int64_t> first(dims), extent(dims);
  for (int d = 0; d < dims; ++d) {
    first[d] = mesh.combinedIndex(rank, layout.axes[d]) * layout.localShape[d];
    extent[d] = std::min(layout.localShape[d], layout.shape[d] - first[d]);
    if (extent[d] <= 0) {
      finished = true;
      return;
    }
  }

  // Dimensions from `split` on lie together in the whole tensor and in the
  // shard: all of them but the first are held whole and unpadded.
  int split = dims;
  run.count = 1;
  while (split > 0) {
    --split;
    run.count *= extent[split];
    if (extent[split] != layout.shape[split] ||
        layout.localShape[split] != layout.shape[split])
      break;
  }

  int64_t globalSize = 1, localSize = 1;
  outer.resize(split);
  for (int d = dims - 1; d >= 0; --d) {
    if (d < split)
      outer[d] = {extent[d], globalSize, localSize};
    run.globalOffset += first[d] * globalSize;
    globalSize *= layout.shape[d];
    localSize *= layout.localShape[d];
  }
}

ShardRuns::ShardRuns(const ShardLayout &layout, const Mesh &mesh, int64_t rank,
                     int64_t begin, int64_t end)
    : ShardRuns(layout, mesh, rank) {
  localEnd = end;
  while (!finished && run.localOffset + run.count <= begin)
    advance();
  if (finished)
    return;
  clip();
  if (!finished && run.localOffset < begin)
    drop(begin - run.localOffset);
}

void ShardRuns::drop(int64_t count) {
  run.globalOffset += count;
  run.localOffset += count;
  run.count -= count;
  dropped += count;
}

void ShardRuns::clip() {
  clipped =
      std::clamp<int64_t>(run.localOffset + run.count - localEnd, 0, run.count);
  run.count -= clipped;
  finished = run.count == 0;
}

void ShardRuns::advance() {
  run.globalOffset -= dropped;
  run.localOffset -= dropped;
  run.count += dropped + clipped;
  dropped = clipped = 0;
  for (auto dim = outer.rbegin(); dim != outer.rend(); ++dim) {
    run.globalOffset += dim->globalStride;
    run.localOffset += dim->localStride;
    if (++dim->index < dim->extent) {
      clip();
      return;
    }
    run.globalOffset -= dim->extent * dim->globalStride;
    run.localOffset -= dim->extent * dim->localStride;
    dim->index = 0;
  }
  finished = true;
}

bool ShardRuns::takeBefore(int64_t end, ShardRun &part) {
  if (finished || run.globalOffset >= end)
    return false;
  part = run;
  part.count = std::min(run.count, end - run.globalOffset);
  if (part.count == run.count) {
    advance();
    return true;
  }
  drop(part.count);
  return true;
}
