//===- Communication.cpp - What a device program communicates ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/Transforms/Communication.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

using namespace mlir;
using namespace mlir::exec;
using optimus_support::CheckedSize;

/// What a collective moves on an axis of so many ranks, in all of its groups.
static CheckedSize countBytes(CollectiveStartOp start, int64_t ranks,
                              int64_t groups) {
  CheckedSize bytes = CheckedSize(start.getOuter()) * start.getInner() *
                      optimus::getElementBytes(start.getSrc().getType());
  // The ABI's inner extent is one rank's block of these.
  if (start.getKind() == CollectiveKind::AllGather ||
      start.getKind() == CollectiveKind::ReduceScatter)
    bytes = bytes * ranks;
  int64_t factor = start.getKind() == CollectiveKind::AllReduce ? 2 : 1;
  return bytes * (ranks - 1) * groups * factor;
}

FailureOr<ArrayAttr> mlir::exec::describeCommunication(func::FuncOp function) {
  Builder builder(function.getContext());
  SmallVector<Attribute> entries;
  SmallVector<CollectiveStartOp> starts;
  function.walk([&](CollectiveStartOp start) { starts.push_back(start); });
  optimus::MeshOp mesh = optimus::getMesh(function);
  for (optimus::MeshAxisAttr axis :
       mesh ? mesh.getAxisList() : SmallVector<optimus::MeshAxisAttr>()) {
    int64_t ranks = axis.getSize(), messages = 0;
    if (ranks == 1)
      continue;
    CheckedSize bytes = 0;
    for (CollectiveStartOp start : starts) {
      if (start.getAxisAttr() != axis.getName())
        continue;
      bytes = bytes + countBytes(start, ranks, mesh.getNumRanks() / ranks);
      ++messages;
    }
    if (!bytes.get())
      return function.emitOpError("moves ")
             << bytes.toString() << " bytes over axis " << axis.getName()
             << " of all ranks; expected a program that can be counted";
    entries.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("axis", axis.getName()),
         builder.getNamedAttr("bytes", builder.getI64IntegerAttr(*bytes.get())),
         builder.getNamedAttr("messages",
                              builder.getI64IntegerAttr(messages))}));
  }
  return builder.getArrayAttr(entries);
}
