//===- Mesh.h - Named axes of devices ---------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_MESH_H
#define OPTIMUS_SUPPORT_MESH_H

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace optimus_support {

/// A mesh axis. `size` is at least 1.
struct MeshAxis {
  std::string name;
  int64_t size = 1;

  bool operator==(const MeshAxis &) const = default;
};

/// A mesh of ranks, numbered with the first axis slowest: on [row: R, col: C],
/// rank = i * C + j. A mesh without axes has one rank.
class Mesh {
public:
  Mesh() = default;
  /// The product of the sizes must fit int64_t (checked by whoever reads them).
  explicit Mesh(std::vector<MeshAxis> axes);

  std::span<const MeshAxis> axes() const { return meshAxes; }
  int numAxes() const { return int(meshAxes.size()); }
  int64_t axisSize(int axis) const { return meshAxes[axis].size; }
  int64_t numRanks() const { return ranks; }

  /// The axis called `name`, if there is one.
  std::optional<int> findAxis(std::string_view name) const;

  /// The index of `rank` on `axis`.
  int64_t coordinate(int64_t rank, int axis) const {
    return rank / strides[axis] % meshAxes[axis].size;
  }
  /// The indices of `rank` on every axis.
  std::vector<int64_t> coordinates(int64_t rank) const;
  /// The rank at `coordinates`, one an axis.
  int64_t rank(std::span<const int64_t> coordinates) const;

  /// The number of ranks along several axes together; 1 for none.
  int64_t combinedSize(std::span<const int> axes) const;
  /// The index of `rank` on several axes together, the first listed slowest;
  /// 0 for none.
  int64_t combinedIndex(int64_t rank, std::span<const int> axes) const;

  /// The lowest of the ranks that differ from `rank` only on these axes, each
  /// listed once.
  template <typename Axes>
  int64_t firstOfGroup(int64_t rank, const Axes &axes) const {
    int64_t first = rank;
    for (auto axis : axes)
      first -= coordinate(rank, int(axis)) * strides[axis];
    return first;
  }

  /// For instance "row:2,col:3".
  std::string toString() const;

  bool operator==(const Mesh &other) const {
    return meshAxes == other.meshAxes;
  }

private:
  std::vector<MeshAxis> meshAxes;
  std::vector<int64_t> strides; ///< ranks between neighbours on each axis
  int64_t ranks = 1;
};

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_MESH_H
