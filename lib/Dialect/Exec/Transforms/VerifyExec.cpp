//===- VerifyExec.cpp - Checks what no single command can check -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LiveRanges.h"

#include "optimus/Dialect/Exec/Transforms/Passes.h"

namespace mlir::exec {
#define GEN_PASS_DEF_VERIFYEXECPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

/// A stretch of a base buffer, in bytes.
namespace {
struct Stretch {
  Value base;
  int64_t begin, end;

  bool overlaps(const Stretch &other) const {
    return base == other.base && begin < other.end && other.begin < end;
  }
};
} // namespace

/// The stretches that a buffer may stand for on some rank. A slice that
/// depends on the rank may be all of its base.
static void collectStretches(Value buffer, int64_t begin, int64_t end,
                             SmallVectorImpl<Stretch> &stretches) {
  Operation *definition = buffer.getDefiningOp();
  if (auto slice = dyn_cast_or_null<SliceOp>(definition)) {
    int64_t offset = slice.getOffset() *
                     slice.getResult().getType().getElementTypeBitWidth() / 8;
    return collectStretches(slice.getBuffer(), begin + offset, end + offset,
                            stretches);
  }
  if (auto slice = dyn_cast_or_null<SliceRankOp>(definition))
    return collectStretches(slice.getBuffer(), 0,
                            getBufferBytes(slice.getBuffer()), stretches);
  if (auto select = dyn_cast_or_null<SelectRankOp>(definition)) {
    collectStretches(select.getMine(), begin, end, stretches);
    return collectStretches(select.getOther(), begin, end, stretches);
  }
  if (auto slot = dyn_cast_or_null<ArenaSlotOp>(definition)) {
    int64_t offset = slot.getOffset();
    stretches.push_back({slot.getArena(), begin + offset, end + offset});
    return;
  }
  stretches.push_back({buffer, begin, end});
}

static SmallVector<Stretch> getStretches(Value buffer) {
  SmallVector<Stretch> stretches;
  collectStretches(buffer, 0, getBufferBytes(buffer), stretches);
  return stretches;
}

static bool mayOverlap(Value a, Value b) {
  SmallVector<Stretch> ofB = getStretches(b);
  return llvm::any_of(getStretches(a), [&](const Stretch &stretch) {
    return llvm::any_of(
        ofB, [&](const Stretch &other) { return stretch.overlaps(other); });
  });
}

/// What a collective writes. The root of a broadcast that receives its panel
/// where it lies writes nothing: there, the destination is but a source.
static Value getWritten(CollectiveStartOp start) {
  auto select = start.getDst().getDefiningOp<SelectRankOp>();
  if (start.getKind() == CollectiveKind::Broadcast && select &&
      select.getAxis() == start.getAxis() &&
      select.getIndex() == start.getRoot() &&
      select.getMine() == start.getSrc())
    return select.getOther();
  return start.getDst();
}

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
    WalkResult result = function.walk([&](CollectiveStartOp start) {
      WaitOp wait = start.getWait();
      // V2
      if (wait->getBlock() != start->getBlock() ||
          wait->isBeforeInBlock(start)) {
        start.emitOpError(
            "V2: its exec.wait does not follow in the same block");
        return WalkResult::interrupt();
      }
      // V1
      for (Operation *op = start->getNextNode(); op != wait.getOperation();
           op = op->getNextNode())
        if (failed(verifyDuring(start, op)))
          return WalkResult::interrupt();
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  /// Checks an operation between a collective's start and its wait.
  LogicalResult verifyDuring(CollectiveStartOp start, Operation *op) {
    auto command = dyn_cast<CommandOpInterface>(op);
    if (!command)
      return success();
    for (const Access &access : command.getAccesses()) {
      Value buffer = access.operand->get();
      StringRef fault;
      if (access.writes && mayOverlap(buffer, start.getSrc()))
        fault = "writes the source";
      else if (mayOverlap(buffer, getWritten(start)))
        fault = "touches the destination";
      if (fault.empty())
        continue;
      InFlightDiagnostic error = op->emitOpError()
                                 << "V1: " << fault
                                 << " of a collective that is under way";
      error.attachNote(start.getLoc()) << "the collective started here";
      return error;
    }
    return success();
  }

  LogicalResult verifyArena(func::FuncOp function) {
    struct Placed {
      ArenaSlotOp slot;
      LiveInterval interval;
    };
    SmallVector<Placed> placed;
    for (auto [buffer, interval] : computeLiveIntervals(function))
      if (auto slot = buffer.getDefiningOp<ArenaSlotOp>())
        placed.push_back({slot, interval});
    // V3
    for (size_t i = 0; i < placed.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        Placed &a = placed[i], &b = placed[j];
        if (a.interval.last < b.interval.first ||
            b.interval.last < a.interval.first ||
            !mayOverlap(a.slot.getBuffer(), b.slot.getBuffer()))
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
