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

/// Whether an axis shards some dimension.
static bool isSharding(const ShardLayout &layout, int axis) {
  return std::ranges::any_of(
      layout.axes, [&](const std::vector<int> &dimension) {
        return std::ranges::find(dimension, axis) != dimension.end();
      });
}

bool ShardLayout::areOfOneReplica(const Mesh &mesh, int64_t one,
                                  int64_t other) const {
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    if (mesh.coordinate(one, axis) != mesh.coordinate(other, axis) &&
        !isSharding(*this, axis))
      return false;
  return true;
}

int64_t ShardLayout::holderOf(const Mesh &mesh, int64_t element,
                              int64_t replica) const {
  std::vector<int64_t> coordinates(mesh.numAxes(), 0);
  for (int axis = mesh.numAxes() - 1; axis >= 0; --axis)
    if (!isSharding(*this, axis)) {
      coordinates[axis] = replica % mesh.axisSize(axis);
      replica /= mesh.axisSize(axis);
    }
  for (size_t d = shape.size(); d-- > 0; element /= shape[d]) {
    int64_t index = element % shape[d] / localShape[d];
    for (auto axis = axes[d].rbegin(); axis != axes[d].rend(); ++axis) {
      coordinates[*axis] = index % mesh.axisSize(*axis);
      index /= mesh.axisSize(*axis);
    }
  }
  return mesh.rank(coordinates);
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

void ShardRuns::step(Dimension &dimension, int64_t count) {
  run.globalOffset += count * dimension.globalStride;
  run.localOffset += count * dimension.localStride;
  dimension.index += count;
}

void ShardRuns::advance() {
  run.globalOffset -= dropped;
  run.localOffset -= dropped;
  run.count += dropped + clipped;
  dropped = clipped = 0;
  for (auto dim = outer.rbegin(); dim != outer.rend(); ++dim) {
    step(*dim, 1);
    if (dim->index < dim->extent) {
      clip();
      return;
    }
    step(*dim, -dim->extent);
  }
  finished = true;
}

void ShardRuns::skipTo(int64_t element) {
  if (finished || element <= run.globalOffset)
    return;
  // Counted from the shard's first element, each dimension's index is a digit:
  // what lies inside it spans less than one of its strides.
  int64_t rest = element - run.globalOffset;
  for (Dimension &dimension : outer) {
    const int64_t index = rest / dimension.globalStride;
    if (index >= dimension.extent) {
      // Beyond what this dimension has: the last run of it is the one before.
      for (Dimension *inner = &dimension; inner != outer.data() + outer.size();
           ++inner)
        step(*inner, inner->extent - 1);
      return advance();
    }
    step(dimension, index);
    rest -= index * dimension.globalStride;
  }
  if (rest >= run.count)
    return advance();
  drop(rest);
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
