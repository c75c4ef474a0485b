//===- ManifestLayouts.cpp - The mesh, and how tensors lie on it ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ManifestReader.h"

using namespace optrt;
using namespace optimus_support;

std::string optrt::readName(const JsonCursor &cursor,
                            std::set<std::string> &taken) {
  std::string name = cursor.string();
  if (name.empty())
    cursor.fail("expected a name, found an empty string");
  if (!taken.insert(name).second)
    cursor.fail(concat("the name \"", name, "\" is used twice"));
  return name;
}

std::optional<int> optrt::readAxis(const JsonCursor &cursor, const Mesh &mesh) {
  std::string name = cursor.string();
  std::optional<int> axis = mesh.findAxis(name);
  if (!axis)
    cursor.fail(concat("no axis \"", name, "\" in the mesh ", mesh.toString()));
  return axis;
}

std::vector<int64_t> optrt::readShape(const JsonCursor &cursor) {
  std::vector<int64_t> shape = cursor.integers(1, kMaxElements);
  if (int64_t(shape.size()) > kMaxDims) {
    cursor.fail(concat("expected at most ", kMaxDims, " dimensions, found ",
                       shape.size()));
    return {};
  }
  if (!CheckedSize::product(shape).isAtMost(kMaxElements)) {
    cursor.fail(concat("more than 2^48 elements in ", shapeToString(shape)));
    return {};
  }
  return shape;
}

Mesh optrt::readMesh(const JsonCursor &cursor) {
  std::vector<MeshAxis> axes;
  std::set<std::string> taken;
  CheckedSize ranks = 1;
  for (const JsonCursor &entry : cursor.elements()) {
    MeshAxis axis;
    axis.name = readName(entry["axis"], taken);
    axis.size = entry["size"].integer(1, kMaxRanks);
    ranks = ranks * axis.size;
    if (!ranks.isAtMost(kMaxRanks)) {
      entry.fail(concat("the mesh has more than ", kMaxRanks, " ranks"));
      return Mesh();
    }
    axes.push_back(axis);
  }
  return Mesh(std::move(axes));
}

Dimension optrt::readDimension(const JsonCursor &cursor, const Mesh &mesh,
                               std::set<std::string> &taken) {
  Dimension dimension;
  dimension.name = readName(cursor["name"], taken);
  dimension.size = cursor["size"].integer(1, kMaxElements);
  dimension.padded = cursor["padded"].integer(dimension.size, kMaxElements);
  for (const JsonCursor &axis : cursor["axes"].elements())
    if (std::optional<int> index = readAxis(axis, mesh))
      dimension.axes.push_back(*index);
  return dimension;
}

/// Reads the axes that shard each dimension: each axis once.
static bool readSharding(const JsonCursor &cursor, const Mesh &mesh,
                         std::set<int> &used,
                         std::vector<std::vector<int>> &sharding) {
  for (const JsonCursor &dimension : cursor.elements()) {
    std::vector<int> &axes = sharding.emplace_back();
    for (const JsonCursor &entry : dimension.elements()) {
      std::optional<int> axis = readAxis(entry, mesh);
      if (!axis)
        return false;
      axes.push_back(*axis);
      if (!used.insert(*axis).second)
        entry.fail(concat("the axis \"", entry.string(),
                          "\" shards the tensor twice"));
    }
  }
  return true;
}

static ShardLayout readShards(const JsonCursor &cursor,
                              const Manifest &manifest, std::set<int> &used) {
  ShardLayout layout;
  layout.shape = readShape(cursor["shape"]);
  layout.localShape = readShape(cursor["local_shape"]);
  if (!readSharding(cursor["sharding"], manifest.mesh, used, layout.axes))
    return {};
  const size_t dims = layout.shape.size();
  if (layout.localShape.size() != dims || layout.axes.size() != dims) {
    cursor.fail(concat("shape, local_shape and sharding need one entry a "
                       "dimension; they have ",
                       dims, ", ", layout.localShape.size(), " and ",
                       layout.axes.size()));
    return {};
  }

  CheckedSize all = 1;
  for (size_t d = 0; d < dims; ++d) {
    int64_t parts = manifest.mesh.combinedSize(layout.axes[d]);
    int64_t local = layout.localShape[d];
    all = all * parts * local;
    if (!all.isAtMost(kMaxElements)) {
      cursor.fail("more than 2^48 elements with padding");
      return {};
    }
    int64_t padded = local * parts;
    if (padded < layout.shape[d])
      cursor.fail(concat("local_shape[", d, "]: ", parts, " shards of ", local,
                         " do not cover the extent ", layout.shape[d]));
    if (padded == layout.shape[d])
      continue;
    bool known = false;
    for (const Dimension &dimension : manifest.dimensions)
      known |= dimension.size == layout.shape[d] && dimension.padded == padded;
    if (!known)
      cursor.fail(concat("local_shape[", d, "]: ", parts, " shards of ", local,
                         " pad the extent ", layout.shape[d], " to ", padded,
                         ", which no entry of \"dimensions\" says"));
  }
  return layout;
}

void optrt::readLayout(const JsonCursor &cursor, const Manifest &manifest,
                       Buffer &buffer) {
  std::set<int> used;
  buffer.layout = readShards(cursor, manifest, used);
  JsonCursor unreduced = cursor.find("unreduced");
  if (!unreduced)
    return;
  for (const JsonCursor &entry : unreduced.elements())
    if (std::optional<int> axis = readAxis(entry, manifest.mesh)) {
      if (!used.insert(*axis).second)
        entry.fail(concat("the axis \"", entry.string(),
                          "\" shards the tensor already, or has stood here"));
      buffer.unreduced.push_back(*axis);
    }
}
