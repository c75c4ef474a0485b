//===- VerifyExec.cpp - Checks what no single command can check -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/Transforms/VerifyExec.h"

#include "optimus-support/Sizes.h"
#include "optimus-support/model_abi.h"
#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/Communication.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"
#include "optimus/Dialect/Exec/Transforms/Regions.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/DebugLog.h"

#include <map>

#define DEBUG_TYPE "optimus-verify-exec"

namespace mlir::exec {
#define GEN_PASS_DEF_VERIFYEXECPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;
using optimus_support::CheckedSize;

namespace {
class ExecVerifier {
public:
  static LogicalResult verify(func::FuncOp function) {
    if (failed(verifyOneArena(function)) || failed(verifyCollectives(function)))
      return failure();
    const std::vector<Placed> placed = collectPlaced(function);
    const SmallVector<CommandOpInterface> commands = getCommands(function);
    LDBG() << "@" << function.getSymName() << ": " << placed.size()
           << " slots, live bytes " << getPeak(placed);
    return success(
        succeeded(verifyArena(placed)) && succeeded(verifyNumbers(commands)) &&
        succeeded(verifyCounts(function, commands.size(), placed)) &&
        succeeded(verifyApart(commands)) && succeeded(verifyOrder(commands)));
  }

private:
  static LogicalResult verifyCollectives(func::FuncOp function) {
    WalkResult result = function.walk([&](Block *block) {
      return failed(verifyCollectives(*block)) ? WalkResult::interrupt()
                                               : WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  static LogicalResult verifyCollectives(Block &block) {
    llvm::MapVector<Operation *, CommandRegions> underWay;
    llvm::StringMap<SmallVector<CommandOpInterface>> started;
    for (auto command : block.getOps<CommandOpInterface>()) {
      if (Operation *awaited = command.getAwaitedCommand()) {
        underWay.erase(awaited);
        continue;
      }
      if (!underWay.empty() && failed(verifyDuring(command, underWay)))
        return failure();
      Operation *wait = command.getWaitingCommand();
      if (!wait && !command.isCarried())
        continue;
      // V2
      if (wait &&
          (wait->getBlock() != &block || wait->isBeforeInBlock(command)))
        return command.emitOpError(
            "V2: its exec.wait does not follow in the same block");
      // V5
      SmallVectorImpl<CommandOpInterface> &before =
          started[command.getOwnQueue()];
      before.push_back(command);
      if (before.size() > OPTRT_MAX_IN_FLIGHT) {
        CommandOpInterface first =
            before[before.size() - 1 - OPTRT_MAX_IN_FLIGHT];
        if (underWay.contains(first)) {
          InFlightDiagnostic error =
              command.emitOpError(
                  "V5: starts while the collective that started ")
              << OPTRT_MAX_IN_FLIGHT << " before it on axis \""
              << command.getOwnQueue() << "\" is under way";
          error.attachNote(first.getLoc()) << "the collective started here";
          return error;
        }
      }
      underWay.insert({command, getRegions(command)});
    }
    return success();
  }

  /// V1: checks a command while collectives are under way.
  static LogicalResult
  verifyDuring(CommandOpInterface command,
               const llvm::MapVector<Operation *, CommandRegions> &underWay) {
    for (const Access &access : command.getAccesses()) {
      MemoryRegions touched = getRegions(access);
      for (const auto &[start, regions] : underWay) {
        StringRef fault;
        if (access.writes && mayOverlap(touched, regions.read))
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
    }
    return success();
  }

  /// A slot and when it is alive.
  struct Placed {
    ArenaSlotOp slot;
    LiveInterval interval;
    int64_t begin, end;
  };

  static std::vector<Placed> collectPlaced(func::FuncOp function) {
    std::vector<Placed> placed;
    for (auto [buffer, interval] : computeLiveIntervals(function))
      if (auto slot = buffer.getDefiningOp<ArenaSlotOp>()) {
        int64_t begin = slot.getOffset();
        placed.push_back(
            {slot, interval, begin, begin + getBufferBytes(buffer)});
      }
    return placed;
  }

  /// V3: the slots alive, by offset, are apart until one comes that overlaps a
  /// neighbour.
  static LogicalResult verifyArena(ArrayRef<Placed> placed) {
    std::vector<const Placed *> byStart;
    for (const Placed &each : placed)
      byStart.push_back(&each);
    llvm::stable_sort(byStart, [](const Placed *a, const Placed *b) {
      return a->interval.first < b->interval.first;
    });
    std::vector<const Placed *> byEnd = byStart;
    llvm::stable_sort(byEnd, [](const Placed *a, const Placed *b) {
      return a->interval.last < b->interval.last;
    });
    // Arenas by address: only whether they are the same matters.
    auto getKey = [](const Placed *each) {
      ArenaSlotOp slot = each->slot;
      return std::pair(slot.getArena().getAsOpaquePointer(), each->begin);
    };
    std::map<std::pair<const void *, int64_t>, const Placed *> alive;
    auto nextEnd = byEnd.begin();
    for (const Placed *each : byStart) {
      for (; (*nextEnd)->interval.last < each->interval.first; ++nextEnd)
        alive.erase(getKey(*nextEnd));
      auto [here, isNew] = alive.try_emplace(getKey(each), each);
      const Placed *other = isNew ? nullptr : here->second;
      auto reaches = [](const auto &low, const auto &high) {
        return low.first.first == high.first.first &&
               low.second->end > high.second->begin;
      };
      if (!other && here != alive.begin() && reaches(*std::prev(here), *here))
        other = std::prev(here)->second;
      if (!other && std::next(here) != alive.end() &&
          reaches(*here, *std::next(here)))
        other = std::next(here)->second;
      if (!other)
        continue;
      InFlightDiagnostic error =
          ArenaSlotOp(each->slot).emitOpError()
          << "V3: overlaps a buffer that is alive at the same time";
      error.attachNote(ArenaSlotOp(other->slot).getLoc()) << "the other buffer";
      return error;
    }
    return success();
  }

  /// V6: the arena given by the runtime is the one used.
  static LogicalResult verifyOneArena(func::FuncOp function) {
    auto bytes = function->getAttrOfType<IntegerAttr>(ExecDialect::kArenaBytes);
    if (!bytes)
      return success();
    auto expected = MemRefType::get({bytes.getInt()},
                                    IntegerType::get(bytes.getContext(), 8));
    ArrayRef<Type> arguments = function.getArgumentTypes();
    if (arguments.empty() || arguments.front() != expected)
      return function.emitOpError("V6: expected an arena ")
             << expected << " as the first argument, as '"
             << ExecDialect::kArenaBytes << "' says, found "
             << arguments.take_front();
    // Those of other memory spaces follow, one a space, in order.
    llvm::SmallDenseSet<Value> arenas;
    int64_t space = -1;
    for (BlockArgument argument : function.getArguments()) {
      auto type = dyn_cast<MemRefType>(argument.getType());
      if (!type || !type.getElementType().isInteger(8))
        break;
      int64_t own = static_cast<int64_t>(getMemorySpace(argument));
      if (own <= space)
        break;
      space = own;
      arenas.insert(argument);
    }
    WalkResult result = function.walk([&](ArenaSlotOp slot) {
      if (arenas.contains(slot.getArena()))
        return WalkResult::advance();
      slot.emitOpError("V6: is not in the arena, the function's first argument")
          << (getMemorySpace(slot.getArena()) == MemorySpace::Device
                  ? ""
                  : " of its memory space");
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// V7: what the function says of itself.
  static LogicalResult verifyCounts(func::FuncOp function, int64_t count,
                                    ArrayRef<Placed> placed) {
    auto fail = [&](StringRef name, auto expected) {
      return function.emitOpError("V7: expected '")
             << name << "' to be " << expected << ", found "
             << function->getAttr(name);
    };
    if (auto commands =
            function->getAttrOfType<IntegerAttr>(ExecDialect::kCommands);
        commands && commands.getInt() != count)
      return fail(ExecDialect::kCommands, count);
    if (auto found =
            function->getAttrOfType<ArrayAttr>(ExecDialect::kCommunication)) {
      FailureOr<ArrayAttr> counted = describeCommunication(function);
      if (failed(counted))
        return failure();
      if (*counted != found)
        return fail(ExecDialect::kCommunication, *counted);
    }
    auto bound =
        function->getAttrOfType<IntegerAttr>(ExecDialect::kLowerBoundBytes);
    auto arena = function->getAttrOfType<IntegerAttr>(ExecDialect::kArenaBytes);
    if (!bound || !arena)
      return success();
    int64_t peak = getPeak(placed);
    if (bound.getInt() < peak || bound.getInt() > arena.getInt())
      return fail(ExecDialect::kLowerBoundBytes,
                  "from " + Twine(peak) +
                      ", the most bytes alive at once, to " +
                      Twine(arena.getInt()) + ", those of the arena");
    CheckedSize sum = 0;
    auto peaks =
        function->getAttrOfType<DictionaryAttr>(ExecDialect::kPeakBytes);
    for (NamedAttribute entry :
         peaks ? peaks.getValue() : ArrayRef<NamedAttribute>())
      sum = sum + cast<IntegerAttr>(entry.getValue()).getInt();
    if (peaks && sum.get() != bound.getInt())
      return fail(ExecDialect::kPeakBytes,
                  Twine(bound.getInt()) + " together, as '" +
                      ExecDialect::kLowerBoundBytes + "' says");
    return success();
  }

  static int64_t getPeak(ArrayRef<Placed> placed) {
    std::map<int64_t, int64_t> changes;
    for (const Placed &each : placed) {
      ArenaSlotOp slot = each.slot;
      if (getMemorySpace(slot.getBuffer()) != MemorySpace::Device)
        continue;
      int64_t bytes = getPlacedBytes(slot.getBuffer());
      changes[each.interval.first] += bytes;
      changes[each.interval.last + 1] -= bytes;
    }
    int64_t alive = 0, peak = 0;
    for (auto [position, change] : changes)
      peak = std::max(peak, alive += change);
    return peak;
  }

  /// V8
  static LogicalResult verifyApart(ArrayRef<CommandOpInterface> commands) {
    for (CommandOpInterface command : commands) {
      if (!command.needsOperandsApart())
        continue;
      SmallVector<Access> accesses = command.getAccesses();
      for (const Access &written : accesses)
        for (const Access &other : accesses)
          if (written.writes && written.operand != other.operand &&
              mayOverlap(getRegions(written), getRegions(other)))
            return command.emitOpError("V8: writes memory that it reads as "
                                       "another operand");
    }
    return success();
  }

  /// V9
  static LogicalResult verifyOrder(ArrayRef<CommandOpInterface> commands) {
    const bool areOrdered =
        !commands.empty() &&
        CommandOpInterface(commands.front()).getCommandQueue().has_value();
    for (CommandOpInterface command : commands) {
      std::optional<StringRef> queue = command.getCommandQueue();
      StringRef expected = command.getOwnQueue();
      bool isRight = areOrdered ? queue == expected : !queue;
      for (int32_t earlier : command.getCommandsBefore())
        isRight &= queue && earlier >= 0 && command.getCommandId() &&
                   static_cast<uint32_t>(earlier) < *command.getCommandId();
      if (isRight)
        continue;
      InFlightDiagnostic error = command.emitOpError("V9: expected ");
      if (areOrdered)
        error << "queue \"" << expected << "\" and earlier commands in 'after'";
      else
        error << "neither queue nor 'after', as the first command has none";
      return error;
    }
    return success();
  }

  /// V4
  static LogicalResult verifyNumbers(ArrayRef<CommandOpInterface> commands) {
    const bool areNumbered =
        !commands.empty() &&
        CommandOpInterface(commands.front()).getCommandId().has_value();
    for (auto [next, each] : llvm::enumerate(commands)) {
      CommandOpInterface command = each;
      std::optional<uint32_t> id = command.getCommandId();
      if (id.has_value() == areNumbered && (!id || *id == next))
        continue;
      InFlightDiagnostic error = command.emitOpError("V4: expected ");
      if (areNumbered)
        error << "number " << next;
      else
        error << "no number";
      error << ", found ";
      if (id)
        error << *id;
      else
        error << "none";
      return error;
    }
    return success();
  }
};
} // namespace

LogicalResult exec::verifyFunction(func::FuncOp function) {
  return ExecVerifier::verify(function);
}

namespace {
class VerifyExecPass : public exec::impl::VerifyExecPassBase<VerifyExecPass> {
public:
  void runOnOperation() override {
    if (failed(verifyFunction(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
