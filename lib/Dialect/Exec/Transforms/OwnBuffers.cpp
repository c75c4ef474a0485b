//===- OwnBuffers.cpp - Buffers that outlive a call ---------- -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OwnBuffers.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Exec/IR/Exec.h"

using namespace mlir;
using namespace mlir::exec;
using optimus::OptimusDialect;

static RankedTensorType getOwnType(MemRefType type, optimus::MeshOp mesh) {
  int64_t elements = type.getNumElements(), all = elements;
  SmallVector<StringRef> axes;
  if (mesh)
    for (optimus::MeshAxisAttr axis : mesh.getAxisList()) {
      axes.push_back(axis.getName().getValue());
      all *= axis.getSize();
    }
  if (axes.empty())
    return RankedTensorType::get({elements}, type.getElementType());
  auto sharding =
      optimus::ShardingAttr::get(FlatSymbolRefAttr::get(mesh.getSymNameAttr()),
                                 ArrayRef<SmallVector<StringRef>>(axes));
  return RankedTensorType::get(
      {elements}, type.getElementType(),
      ccl::LocalAttr::get(type.getContext(), {all}, sharding));
}

BlockArgument mlir::exec::appendOwnBuffer(func::FuncOp to, MemRefType type,
                                          optimus::BufferAttr buffer,
                                          StringRef access, Location location) {
  MLIRContext *context = to.getContext();
  NamedAttrList attributes;
  attributes.set(OptimusDialect::kBinding, buffer);
  attributes.set(ExecDialect::kLocalType,
                 TypeAttr::get(getOwnType(type, optimus::getMesh(to))));
  attributes.set(ExecDialect::kAccess, StringAttr::get(context, access));
  const unsigned number = to.getNumArguments();
  (void)to.insertArgument(number, type, attributes.getDictionary(context),
                          location);
  return to.getArgument(number);
}
