//===- MeshTiles.h - A mesh in equal parts ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_MESHTILES_H
#define OPTIMUS_SUPPORT_MESHTILES_H

#include "optimus-support/Mesh.h"

#include <cstdint>
#include <span>

namespace optimus_support {

/// A rank's part of a mesh, and its number there. Both are numbered as ranks
/// are, with the first axis slowest.
struct TilePlace {
  int64_t tile = 0, inside = 0;
};

/// Finds a rank in equal parts of a mesh; their extents, one an axis, divide
/// the mesh's.
///
///   row:2,col:4 in parts of 2x2: rank 6, at (1, 2), is 2 of part 1
TilePlace placeInTile(const Mesh &mesh, std::span<const int64_t> extents,
                      int64_t rank);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_MESHTILES_H
