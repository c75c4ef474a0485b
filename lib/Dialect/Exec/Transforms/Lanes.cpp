//===- Lanes.cpp - Several programs as lanes of one -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-lanes"

namespace mlir::exec {
#define GEN_PASS_DEF_LANESPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;
using optimus_support::kMaxLanes;

namespace {
class LanesPass : public exec::impl::LanesPassBase<LanesPass> {
public:
  using LanesPassBase::LanesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(check(module)))
      return signalPassFailure();
    LDBG() << count.getValue() << " lanes";
    if (count != 1)
      module->setAttr(ExecDialect::kLanes,
                      Builder(module).getI64IntegerAttr(count));
  }

private:
  LogicalResult check(ModuleOp module) const {
    if (count < 1 || count > kMaxLanes)
      return module.emitError("expected 1 to ")
             << kMaxLanes << " lanes, found " << count.getValue();
    if (module->hasAttr(ExecDialect::kLanes))
      return module.emitError("has ") << getLanes(module) << " lanes already";
    if (count == 1)
      return success();
    if (optimus::MeshOp mesh = optimus::getMesh(module))
      for (optimus::MeshAxisAttr axis : mesh.getAxisList())
        if (axis.getSize() != 1)
          return mesh.emitOpError("has ")
                 << axis.getSize() << " ranks on axis " << axis.getName()
                 << "; expected one rank for a program of " << count.getValue()
                 << " lanes. Compile it for the mesh row:1,col:1";
    // Collectives, and copies between memories.
    WalkResult found = module.walk([&](CommandOpInterface command) {
      if (command.getOwnQueue() == kComputeQueue)
        return WalkResult::advance();
      command->emitOpError("belongs on the queue ")
          << command.getOwnQueue()
          << "; expected computation alone in a program of " << count.getValue()
          << " lanes";
      return WalkResult::interrupt();
    });
    return failure(found.wasInterrupted());
  }
};
} // namespace
