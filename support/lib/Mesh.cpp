//===- Mesh.cpp - Named axes of devices -----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Mesh.h"

#include <cassert>

using namespace optimus_support;

Mesh::Mesh(std::vector<MeshAxis> axes)
    : meshAxes(std::move(axes)), strides(meshAxes.size()) {
  for (int axis = numAxes() - 1; axis >= 0; --axis) {
    assert(meshAxes[axis].size >= 1 && "a mesh axis needs a rank");
    strides[axis] = ranks;
    ranks *= meshAxes[axis].size;
  }
}

std::optional<int> Mesh::findAxis(std::string_view name) const {
  for (int axis = 0; axis < numAxes(); ++axis)
    if (meshAxes[axis].name == name)
      return axis;
  return std::nullopt;
}

std::vector<int64_t> Mesh::coordinates(int64_t rank) const {
  std::vector<int64_t> result(meshAxes.size());
  for (int axis = 0; axis < numAxes(); ++axis)
    result[axis] = coordinate(rank, axis);
  return result;
}

int64_t Mesh::rank(std::span<const int64_t> coordinates) const {
  assert(coordinates.size() == meshAxes.size());
  int64_t result = 0;
  for (int axis = 0; axis < numAxes(); ++axis)
    result += coordinates[axis] * strides[axis];
  return result;
}

int64_t Mesh::combinedSize(std::span<const int> axes) const {
  int64_t size = 1;
  for (int axis : axes)
    size *= axisSize(axis);
  return size;
}

int64_t Mesh::combinedIndex(int64_t rank, std::span<const int> axes) const {
  int64_t index = 0;
  for (int axis : axes)
    index = index * axisSize(axis) + coordinate(rank, axis);
  return index;
}

std::string Mesh::toString() const {
  std::string text;
  for (const MeshAxis &axis : meshAxes) {
    if (!text.empty())
      text += ',';
    text += axis.name + ':' + std::to_string(axis.size);
  }
  return text;
}
