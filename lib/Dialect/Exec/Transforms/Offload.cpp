//===- Offload.cpp - Buffers that rest outside the device -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Offloading.h"

#include "optimus/Analysis/Pricing.h"
#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-offload"

namespace mlir::exec {
#define GEN_PASS_DEF_OFFLOADPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;
using optimus::BufferAttr;

namespace {
class OffloadPass : public exec::impl::OffloadPassBase<OffloadPass> {
public:
  using OffloadPassBase::OffloadPassBase;
  OffloadPass() = default;
  OffloadPass(const OffloadPassOptions &options,
              std::shared_ptr<const optimus::MeasuredCosts> measured)
      : OffloadPassBase(options), pricing(std::move(measured)) {}

  LogicalResult initialize(MLIRContext *context) override {
    if (llvm::Error error = pricing.load(machineProfile, profile))
      return emitError(UnknownLoc::get(context))
             << "offload: " << llvm::toString(std::move(error));
    auto read = Offloading::read({llvm::to_vector_of<StringRef>(values), space,
                                  bandwidth, window, least},
                                 pricing.getMachine());
    if (!read)
      return emitError(UnknownLoc::get(context))
             << llvm::toString(read.takeError());
    offloading = std::move(*read);
    return success();
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || values.empty() || !hasCommands(function))
      return;
    if (function->hasAttr(ExecDialect::kArenaBytes)) {
      function.emitOpError(
          "has an arena already; buffers are offloaded before");
      return signalPassFailure();
    }
    if (!function.getBody().hasOneBlock()) {
      function.emitOpError("has more than one block; only straight-line "
                           "commands can be offloaded from");
      return signalPassFailure();
    }
    if (std::optional<StringRef> unknown = offloading.findUnknown(function);
        unknown && keepsState(function)) {
      function.emitError("expected values to offload, as h.*.mlp.gelu:0; found "
                         "none that '")
          << *unknown << "' matches";
      return signalPassFailure();
    }
    FailureOr<optimus::CostModel> costs = pricing.getCosts(function);
    if (failed(costs))
      return signalPassFailure();
    offloading.chooseState(function);
    LDBG() << "@" << function.getSymName() << ": to "
           << stringifyMemorySpace(offloading.getSpace()) << ", window "
           << window;
    bool isNumbered = getCommands(function).front().getCommandId().has_value();
    numHoisted += offloading.hoistSums(function);
    offload(function, *costs);
    if (isNumbered)
      numberCommands(function);
  }

private:
  /// Whether a function trains, and so has all values that there are.
  static bool keepsState(func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (BufferAttr buffer = optimus::getArgumentBuffer(function, i);
          buffer && buffer.getLifetime() == optimus::Lifetime::State)
        return true;
    return false;
  }

  void offload(func::FuncOp function, const optimus::CostModel &costs) {
    OffloadPlan plan(function, offloading, costs);
    OffloadRewriter &rewriter = plan.getRewriter();
    if (rewriter.isEmpty())
      return;
    rewriter.run();
    numOffloaded += rewriter.getNumBuffers();
    numFetches += plan.getTransfers().fetches.size();
    numStores += plan.getTransfers().stores.size();
    annotate(function, plan.getTransfers().predict());
  }

  void annotate(func::FuncOp function, const PagingPrediction &prediction) {
    Builder b(&getContext());
    auto number = [&](StringRef name, double seconds) {
      return b.getNamedAttr(name, b.getF64FloatAttr(seconds * 1e3));
    };
    auto count = [&](StringRef name, int64_t value) {
      return b.getNamedAttr(name, b.getI64IntegerAttr(value));
    };
    function->setAttr(
        ExecDialect::kPaging,
        b.getDictionaryAttr({count("fetched_bytes", prediction.fetchedBytes),
                             count("stored_bytes", prediction.storedBytes),
                             number("fetch_ms", prediction.fetchSeconds),
                             number("store_ms", prediction.storeSeconds),
                             number("exposed_ms", prediction.exposedSeconds)}));
    auto schedule =
        function->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule);
    if (!schedule)
      return;
    NamedAttrList entries(schedule);
    StringRef step = "predicted_step_ms";
    entries.set(step, b.getF64FloatAttr(
                          schedule.getAs<FloatAttr>(step).getValueAsDouble() +
                          prediction.exposedSeconds * 1e3));
    function->setAttr(ExecDialect::kSchedule,
                      entries.getDictionary(&getContext()));
  }

  Offloading offloading;
  optimus::Pricing pricing;
};
} // namespace

std::unique_ptr<Pass> exec::createOffloadPass(
    const OffloadPassOptions &options,
    std::shared_ptr<const optimus::MeasuredCosts> measured) {
  return std::make_unique<OffloadPass>(options, std::move(measured));
}
