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

bool Lowering::packs(const Collective &collective) const {
  return !target.movesStrided(collective.kind) &&
         !isPacked(collective.src, collective, collective.scatters());
}

bool Lowering::unpacks(const Collective &collective) const {
  return !target.movesStrided(collective.kind) &&
         !isPacked(collective.dst, collective, collective.gathers());
}

/// Copies between rows of a matrix and block after block of a packed one.
static void copyBlocks(Lowering &lowering, const Collective &given,
                       const Matrix &rows, Value packed, int64_t blocks,
                       bool packs) {
  const int64_t outer = given.outer, inner = given.inner;
  for (int64_t block = 0; block < blocks; ++block) {
    Matrix apart = {lowering.slice(rows.buffer, block * inner,
                                   (outer - 1) * rows.ld + inner),
                    rows.ld};
    Matrix dense = {
        lowering.slice(packed, block * outer * inner, outer * inner), inner};
    lowering.copy(packs ? apart : dense, packs ? dense : apart, outer, inner);
  }
}

/// A packed matrix of so many blocks, which is one row.
static Matrix allocatePacked(Lowering &lowering, const Collective &given,
                             StringRef name, int64_t blocks) {
  Type element = cast<MemRefType>(given.src.buffer.getType()).getElementType();
  int64_t extent = blocks * given.outer * given.inner;
  return {lowering.allocateWorkspace(extent, element, name), extent};
}

Movement Lowering::pack(const Collective &collective) {
  Movement movement{collective, collective};
  if (!packs(collective) && !unpacks(collective))
    return movement;
  movement.isStrided = false;
  Collective &moved = movement.moved;
  moved.outer = 1;
  moved.inner = collective.outer * collective.inner;
  moved.src.ld = moved.dst.ld = moved.inner;
  if (!packs(collective))
    return movement;
  int64_t blocks = collective.scatters() ? *mesh.getAxisSize(moved.axis) : 1;
  moved.src = allocatePacked(*this, collective, "packed source", blocks);
  copyBlocks(*this, collective, collective.src, moved.src.buffer, blocks,
             /*packs=*/true);
  return movement;
}

void Lowering::finish(const Movement &movement) {
  const Collective &given = movement.given;
  if (movement.isStrided || !unpacks(given))
    return moveStrided(movement.moved);
  Collective moved = movement.moved;
  int64_t blocks = given.gathers() ? *mesh.getAxisSize(given.axis) : 1;
  moved.dst = allocatePacked(*this, given, "packed result", blocks);
  // Only the root's part of a reduction is written: others get theirs back.
  if (given.kind == exec::CollectiveKind::Reduce)
    copyBlocks(*this, given, given.dst, moved.dst.buffer, blocks,
               /*packs=*/true);
  moveStrided(moved);
  copyBlocks(*this, given, given.dst, moved.dst.buffer, blocks,
             /*packs=*/false);
}
