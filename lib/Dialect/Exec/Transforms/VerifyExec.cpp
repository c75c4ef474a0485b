//===- VerifyExec.cpp - Checks what no single command can check -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LiveRanges.h"
#include "Regions.h"

#include "optimus-support/model_abi.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::exec {
#define GEN_PASS_DEF_VERIFYEXECPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {
class VerifyExecPass : public exec::impl::VerifyExecPassBase<VerifyExecPass> {
public:
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    bool isGood = succeeded(verifyCollectives(function)) &&
                  succeeded(verifyArena(function)) &&
                  succeeded(verifyNumbers(function));
    if (!isGood)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verifyCollectives(func::FuncOp function) {
    WalkResult result = function.walk([&](Block *block) {
      return failed(verifyCollectives(*block)) ? WalkResult::interrupt()
                                               : WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  LogicalResult verifyCollectives(Block &block) {
    llvm::MapVector<Operation *, CollectiveRegions> underWay;
    llvm::StringMap<SmallVector<CollectiveStartOp>> started;
    for (Operation &op : block) {
      if (auto wait = dyn_cast<WaitOp>(op)) {
        underWay.erase(wait.getStart());
        continue;
      }
      auto command = dyn_cast<CommandOpInterface>(op);
      if (!command)
        continue;
      if (!underWay.empty() && failed(verifyDuring(command, underWay)))
        return failure();
      auto start = dyn_cast<CollectiveStartOp>(op);
      if (!start)
        continue;
      // V2
      WaitOp wait = start.getWait();
      if (wait->getBlock() != &block || wait->isBeforeInBlock(start))
        return start.emitOpError(
            "V2: its exec.wait does not follow in the same block");
      // V5
      SmallVectorImpl<CollectiveStartOp> &before = started[start.getAxis()];
      before.push_back(start);
      if (before.size() > OPTRT_MAX_IN_FLIGHT) {
        CollectiveStartOp first =
            before[before.size() - 1 - OPTRT_MAX_IN_FLIGHT];
        if (underWay.contains(first)) {
          InFlightDiagnostic error =
              start.emitOpError("V5: starts while the collective that started ")
              << OPTRT_MAX_IN_FLIGHT << " before it on axis \""
              << start.getAxis() << "\" is under way";
          error.attachNote(first.getLoc()) << "the collective started here";
          return error;
        }
      }
      underWay.insert({start, getRegions(start)});
    }
    return success();
  }

  /// V1: checks a command while collectives are under way.
  LogicalResult verifyDuring(
      CommandOpInterface command,
      const llvm::MapVector<Operation *, CollectiveRegions> &underWay) {
    auto check = [&](ArrayRef<MemoryRegion> touched,
                     bool writes) -> LogicalResult {
      for (const auto &[start, regions] : underWay) {
        StringRef fault;
        if (writes && mayOverlap(touched, regions.read))
          fault = "writes the source";
        else if (mayOverlap(touched, regions.written))
          fault = "touches the destination";
        if (fault.empty())
          continue;
        InFlightDiagnostic error = command.emitOpError()
                                   << "V1: " << fault
                                   << " of a collective that is under way";
        error.attachNote(start->getLoc()) << "the collective started here";
        return error;
      }
      return success();
    };
    if (auto start = dyn_cast<CollectiveStartOp>(*command)) {
      CollectiveRegions regions = getRegions(start);
      return success(succeeded(check(regions.read, false)) &&
                     succeeded(check(regions.written, true)));
    }
    for (const Access &access : command.getAccesses())
      if (failed(check(getRegions(access), access.writes)))
        return failure();
    return success();
  }

  LogicalResult verifyArena(func::FuncOp function) {
    struct Placed {
      ArenaSlotOp slot;
      LiveInterval interval;
      int64_t begin, end;
    };
    SmallVector<Placed> placed;
    for (auto [buffer, interval] : computeLiveIntervals(function))
      if (auto slot = buffer.getDefiningOp<ArenaSlotOp>()) {
        int64_t begin = slot.getOffset();
        placed.push_back(
            {slot, interval, begin, begin + getBufferBytes(buffer)});
      }
    // V3
    for (size_t i = 0; i < placed.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        Placed &a = placed[i], &b = placed[j];
        if (a.interval.last < b.interval.first ||
            b.interval.last < a.interval.first || a.end <= b.begin ||
            b.end <= a.begin || a.slot.getArena() != b.slot.getArena())
          continue;
        InFlightDiagnostic error =
            a.slot.emitOpError()
            << "V3: overlaps a buffer that is alive at the same time";
        error.attachNote(b.slot.getLoc()) << "the other buffer";
        return error;
      }
    return success();
  }

  LogicalResult verifyNumbers(func::FuncOp function) {
    std::optional<bool> areNumbered;
    uint32_t next = 0;
    WalkResult result = function.walk([&](CommandOpInterface command) {
      std::optional<uint32_t> id = command.getCommandId();
      if (!areNumbered)
        areNumbered = id.has_value();
      // V4
      if (id.has_value() == *areNumbered && (!id || *id == next)) {
        ++next;
        return WalkResult::advance();
      }
      InFlightDiagnostic error = command.emitOpError("V4: expected ");
      if (*areNumbered)
        error << "number " << next;
      else
        error << "no number";
      error << ", found ";
      if (id)
        error << *id;
      else
        error << "none";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }
};
} // namespace
