//===- Shard.cpp - Which part of a tensor a rank holds --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Shard.h"

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
  std::vector<bool> cuts(mesh.numAxes(), false);
  for (const std::vector<int> &dimension : axes)
    for (int axis : dimension)
      cuts[axis] = true;
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    if (!cuts[axis] && mesh.coordinate(rank, axis) != 0)
      return false;
  return true;
}
