//===- AdvanceReductions.cpp - Sums leave where they are made ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/CCL/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-advance-reductions"

namespace mlir::ccl {
#define GEN_PASS_DEF_ADVANCEREDUCTIONSPASS
#include "optimus/Dialect/CCL/Transforms/Passes.h.inc"
} // namespace mlir::ccl

using namespace mlir;
using namespace mlir::ccl;

/// The last operation that makes or uses the source of `scatter` besides it;
/// null where `scatter` frees nothing: its source is an argument, or is used
/// later.
static Operation *getLastBefore(ReduceScatterOp scatter) {
  Value source = scatter.getInput();
  Operation *last = source.getDefiningOp();
  if (!last)
    return nullptr;
  for (Operation *user : source.getUsers()) {
    if (user == scatter)
      continue;
    if (scatter->isBeforeInBlock(user))
      return nullptr;
    if (last->isBeforeInBlock(user))
      last = user;
  }
  return last;
}

/// Where `scatter` goes: behind `last`, the products expanded together with it,
/// and the reductions moved there before.
static Operation *getPlace(ReduceScatterOp scatter, Operation *last) {
  last = getProductGroup(last).back();
  while (isa_and_present<ReduceScatterOp>(last->getNextNode()) &&
         last->getNextNode() != scatter)
    last = last->getNextNode();
  return last;
}

namespace {
class AdvanceReductionsPass
    : public ccl::impl::AdvanceReductionsPassBase<AdvanceReductionsPass> {
public:
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock())
      return;
    for (auto scatter : llvm::make_early_inc_range(
             function.front().getOps<ReduceScatterOp>())) {
      Operation *last = getLastBefore(scatter);
      if (!last)
        continue;
      Operation *place = getPlace(scatter, last);
      if (place->getNextNode() == scatter)
        continue;
      LDBG() << "moves " << scatter << " behind " << *place;
      scatter->moveAfter(place);
      ++numAdvanced;
    }
  }
};
} // namespace
