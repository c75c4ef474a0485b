//===- PackedCollectives.cpp - Collectives that move stretches --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For targets with collectives of contiguous memory only: a copy packs the rows
// of a source before, and others unpack those of a destination after.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace mlir::optimus;

/// A matrix that is one stretch, each rank's block of it too.
static bool isPacked(const Matrix &matrix, const Collective &collective,
                     bool hasAllBlocks) {
  return collective.outer == 1 ||
         (!hasAllBlocks && matrix.ld == collective.inner);
}

void Lowering::collective(const Collective &collective) {
  if (target.movesStrided(collective.kind) ||
      (isPacked(collective.src, collective, collective.scatters()) &&
       isPacked(collective.dst, collective, collective.gathers())))
    moveStrided(collective);
  else
    movePacked(collective);
}

void Lowering::movePacked(Collective collective) {
  const Collective given = collective;
  const int64_t outer = given.outer, inner = given.inner;
  const int64_t ranks = *mesh.getAxisSize(given.axis);
  Type element = cast<MemRefType>(given.src.buffer.getType()).getElementType();
  // Copies between rows of a matrix and block after block of a packed one.
  auto copyBlocks = [&](const Matrix &rows, Value packed, int64_t blocks,
                        bool packs) {
    for (int64_t block = 0; block < blocks; ++block) {
      Matrix apart = {
          slice(rows.buffer, block * inner, (outer - 1) * rows.ld + inner),
          rows.ld};
      Matrix dense = {slice(packed, block * outer * inner, outer * inner),
                      inner};
      copy(packs ? apart : dense, packs ? dense : apart, outer, inner);
    }
  };
  // A packed matrix is one row of blocks.
  collective.outer = 1;
  collective.inner = outer * inner;
  auto getPacked = [&](StringRef name, int64_t blocks) {
    int64_t extent = blocks * outer * inner;
    return Matrix{allocateWorkspace(extent, element, name), extent};
  };
  const int64_t sent = given.scatters() ? ranks : 1;
  if (isPacked(given.src, given, given.scatters())) {
    collective.src.ld = outer * inner;
  } else {
    collective.src = getPacked("packed source", sent);
    copyBlocks(given.src, collective.src.buffer, sent, /*packs=*/true);
  }
  const int64_t received = given.gathers() ? ranks : 1;
  if (isPacked(given.dst, given, given.gathers())) {
    collective.dst.ld = outer * inner;
    moveStrided(collective);
    return;
  }
  collective.dst = getPacked("packed result", received);
  // Only the root's part of a reduction is written: others get theirs back.
  if (given.kind == exec::CollectiveKind::Reduce)
    copyBlocks(given.dst, collective.dst.buffer, received, /*packs=*/true);
  moveStrided(collective);
  copyBlocks(given.dst, collective.dst.buffer, received, /*packs=*/false);
}
