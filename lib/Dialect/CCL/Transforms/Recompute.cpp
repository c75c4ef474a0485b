//===- Recompute.cpp - Activations recomputed in the backward ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/Transforms/Passes.h"
#include "optimus/Dialect/CCL/Transforms/Recomputation.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/IR/ValuePattern.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-recompute"

namespace mlir::ccl {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "optimus/Dialect/CCL/Transforms/Passes.h.inc"
} // namespace mlir::ccl

using namespace mlir;
using namespace mlir::ccl;

/// Adds the values of the forward whose ids match a pattern.
static LogicalResult
addMatching(const Recomputation &program, func::FuncOp function,
            ArrayRef<std::pair<std::string, OpResult>> forward,
            StringRef pattern, ValueSet &values) {
  auto ids = optimus::ValuePattern::create(pattern);
  if (!ids)
    return function.emitError() << llvm::toString(ids.takeError());
  bool isKnown = false;
  for (const auto &[id, result] : forward) {
    if (!ids->matches(id))
      continue;
    isKnown = true;
    if (program.isActivation(result) && program.isRepeatable(result.getOwner()))
      values.insert(result);
  }
  if (isKnown)
    return success();
  return function.emitError("expected values of the forward to recompute, as "
                            "h.*.mlp.gelu:0; found none that '")
         << pattern << "' matches";
}

namespace {
class RecomputePass : public ccl::impl::RecomputePassBase<RecomputePass> {
public:
  using RecomputePassBase::RecomputePassBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    std::optional<RecomputePolicy> chosen = lookupRecomputePolicy(policy);
    if (!chosen) {
      function.emitError("unknown policy of recomputation '")
          << policy << "'; known are "
          << llvm::join(getRecomputePolicies(), ", ");
      return signalPassFailure();
    }
    bool recomputes = *chosen != RecomputePolicy::None || !values.empty();
    if (!recomputes || function.isExternal())
      return;
    if (!function.getBody().hasOneBlock()) {
      function.emitOpError("expected one block, found ")
          << function.getBody().getBlocks().size();
      return signalPassFailure();
    }
    std::optional<Recomputation> program = Recomputation::of(function);
    // To evaluate takes no backward, and may make less in the forward.
    if (!program || !program->hasBackward())
      return;
    ValueSet repeated = program->select(*chosen);
    std::vector<std::pair<std::string, OpResult>> forward;
    if (!values.empty())
      for (Operation *op : program->getForward())
        for (OpResult result : op->getResults())
          forward.emplace_back(optimus::getValueId(result), result);
    for (StringRef pattern : values)
      if (failed(addMatching(*program, function, forward, pattern, repeated)))
        return signalPassFailure();
    LDBG() << "@" << function.getSymName() << ": " << repeated.size()
           << " values, policy " << policy;
    numCloned += std::move(*program).apply(repeated);
  }
};
} // namespace
