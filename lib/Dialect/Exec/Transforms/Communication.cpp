//===- Communication.cpp - What a device program communicates ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/Transforms/Communication.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

using namespace mlir;
using namespace mlir::exec;

SmallVector<AxisCommunication>
mlir::exec::countCommunication(func::FuncOp function) {
  SmallVector<AxisCommunication> result;
  optimus::MeshOp mesh = optimus::getMesh(function);
  if (!mesh)
    return result;
  for (optimus::MeshAxisAttr axis : mesh.getAxisList())
    if (axis.getSize() > 1)
      result.push_back({axis.getName().getValue()});
  function.walk([&](CollectiveStartOp start) {
    auto *entry = llvm::find_if(result, [&](const AxisCommunication &each) {
      return each.axis == start.getAxis();
    });
    if (entry == result.end())
      return;
    int64_t ranks = *mesh.getAxisSize(start.getAxis());
    int64_t groups = mesh.getNumRanks() / ranks;
    int64_t elements = start.getOuter() * start.getInner();
    // The ABI's inner extent is one rank's block of these.
    if (start.getKind() == CollectiveKind::AllGather ||
        start.getKind() == CollectiveKind::ReduceScatter)
      elements *= ranks;
    int64_t factor = start.getKind() == CollectiveKind::AllReduce ? 2 : 1;
    entry->bytes += factor * (ranks - 1) * elements *
                    static_cast<int64_t>(sizeof(float)) * groups;
    ++entry->messages;
  });
  return result;
}
