//===- MeshTiles.cpp - A mesh in equal parts ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/MeshTiles.h"

using namespace optimus_support;

TilePlace optimus_support::placeInTile(const Mesh &mesh,
                                       std::span<const int64_t> extents,
                                       int64_t rank) {
  TilePlace place;
  for (int axis = 0; axis != mesh.numAxes(); ++axis) {
    const int64_t at = mesh.coordinate(rank, axis), extent = extents[axis];
    place.tile = place.tile * (mesh.axisSize(axis) / extent) + at / extent;
    place.inside = place.inside * extent + at % extent;
  }
  return place;
}
