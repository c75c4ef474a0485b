//===- Offloading.cpp - What rests outside the device ------------ -*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Offloading.h"

#include "Dependences.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-offload"

using namespace mlir;
using namespace mlir::exec;
using optimus::BufferAttr;
using optimus::ValuePattern;

llvm::Expected<Offloading>
Offloading::read(const OffloadRequest &request,
                 const optimus::MachineProfile &machine) {
  auto fail = [](const Twine &mistake) {
    return llvm::createStringError("offload: " + mistake);
  };
  Offloading result;
  auto asked = OffloadChoice::parse(request.values);
  if (!asked)
    return fail(llvm::toString(asked.takeError()));
  result.asked = std::move(*asked);
  result.any = !request.values.empty();
  std::optional<MemorySpace> space = symbolizeMemorySpace(request.space);
  if (!space || *space == MemorySpace::Device)
    return fail("expected file or host as the space, found '" + request.space +
                "'");
  result.space = *space;
  std::optional<Bandwidth> rates = Bandwidth::parse(request.bandwidth);
  if (!rates)
    return fail("expected bytes a second, as 512MiB, or two of them, in and "
                "out; found '" +
                request.bandwidth + "'");
  result.rates = *rates;
  if (const auto &link = machine.hostLink;
      link && request.bandwidth.empty() && *space == MemorySpace::Host)
    result.rates = {link->in, link->out, link->alpha};
  result.window = request.window;
  result.least = request.least;
  return result;
}

static bool isStateOfParameter(BufferAttr buffer) {
  return buffer.getLifetime() == optimus::Lifetime::State && buffer.getOf();
}

static bool matches(const ValuePattern &pattern, AllocOp allocation) {
  ArrayAttr values = allocation.getValuesAttr();
  return values &&
         llvm::any_of(values.getAsValueRange<StringAttr>(),
                      [&](StringRef id) { return pattern.matches(id); });
}

std::optional<StringRef> Offloading::findUnknown(func::FuncOp function) const {
  for (const ValuePattern &pattern : asked.patterns) {
    bool isKnown = false;
    function.walk(
        [&](AllocOp allocation) { isKnown |= matches(pattern, allocation); });
    if (!isKnown)
      return pattern.getText();
  }
  return std::nullopt;
}

void Offloading::chooseState(func::FuncOp function) {
  chosen.clear();
  if (!asked.stateBytes)
    return;
  SmallVector<std::pair<int64_t, unsigned>> state; // bytes, argument
  for (BlockArgument argument : function.getArguments())
    if (BufferAttr buffer =
            optimus::getArgumentBuffer(function, argument.getArgNumber());
        buffer && isStateOfParameter(buffer))
      state.push_back({getBufferBytes(argument), argument.getArgNumber()});
  llvm::sort(state);
  int64_t left = *asked.stateBytes;
  for (auto [bytes, argument] : state) {
    if (left <= 0)
      break;
    chosen.insert(argument);
    left -= bytes;
  }
}

/// Of an argument: all functions must agree on that.
bool Offloading::takes(BufferAttr buffer, unsigned argument) const {
  switch (buffer.getLifetime()) {
  case optimus::Lifetime::Parameter:
    return asked.kinds.contains("parameters");
  case optimus::Lifetime::State:
    return isStateOfParameter(buffer) &&
           (asked.kinds.contains("state") || chosen.contains(argument));
  case optimus::Lifetime::Sequence:
    return buffer.getOf() && asked.kinds.contains("gradients");
  case optimus::Lifetime::Call:
    return false;
  }
  llvm_unreachable("unknown lifetime");
}

bool Offloading::takes(AllocOp allocation) const {
  StringRef category = allocation.getCategory();
  if ((category == "gradient" && asked.kinds.contains("gradients")) ||
      (category == "activation" && asked.kinds.contains("activations")))
    return true;
  return llvm::any_of(asked.patterns, [&](const ValuePattern &pattern) {
    return matches(pattern, allocation);
  });
}

bool Offloading::takes(Value base) const {
  auto type = cast<MemRefType>(base.getType());
  if (!isa<FloatType>(type.getElementType()) || type.getElementType().isF64() ||
      getBufferBytes(base) < least)
    return false;
  if (auto allocation = base.getDefiningOp<AllocOp>())
    return takes(allocation);
  auto argument = dyn_cast<BlockArgument>(base);
  if (!argument)
    return false;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  BufferAttr buffer =
      optimus::getArgumentBuffer(function, argument.getArgNumber());
  return buffer && takes(buffer, argument.getArgNumber());
}

/// Whether a command reads much that is offloaded and writes little.
bool Offloading::sumsUp(CommandOpInterface command) const {
  int64_t read = 0, written = 0;
  bool readsSelected = false;
  for (const Access &access : command.getAccesses()) {
    Value buffer = access.operand->get();
    (access.writes ? written : read) += getBufferBytes(buffer);
    for (Value base : getBases(buffer)) {
      readsSelected |= !access.writes && takes(base);
      if (access.writes && takes(base))
        return false;
    }
  }
  constexpr int64_t kMuch = 16;
  return readsSelected && read >= kMuch * written;
}

static void moveAfter(Operation *op, Operation *place) {
  op->moveAfter(place);
  for (Value operand : op->getOperands())
    if (Operation *definition = operand.getDefiningOp();
        definition && op->isBeforeInBlock(definition))
      moveAfter(definition, place);
}

unsigned Offloading::hoistSums(func::FuncOp function) const {
  unsigned numHoisted = 0;
  std::vector<ProgramNode> nodes = computeDependences(function);
  for (ProgramNode &node : nodes) {
    if (node.isCollective() || node.before.empty() || !sumsUp(node.command))
      continue;
    Operation *last = nodes[node.before.front()].getEnd();
    for (unsigned before : node.before)
      if (Operation *end = nodes[before].getEnd(); last->isBeforeInBlock(end))
        last = end;
    if (last->getNextNode() == node.command)
      continue;
    moveAfter(node.command, last);
    ++numHoisted;
    LDBG() << "hoisted: " << node.command->getName() << " of "
           << optimus::describeLocation(node.command->getLoc())
           << " reads much that is offloaded and writes little";
  }
  return numHoisted;
}

OffloadPlan::OffloadPlan(func::FuncOp function, const Offloading &offloading,
                         const optimus::CostModel &costs)
    : commands(exec::getCommands(function)),
      rewriter(function, commands, offloading.getSpace(), offloading.getRates(),
               transfers) {
  transfers.times.push_back(0);
  for (CommandOpInterface command : commands) {
    bool isWaited = command.getWaitingCommand() || command.getAwaitedCommand();
    transfers.times.push_back(
        transfers.times.back() +
        (isWaited ? 0 : costs.getComputeSeconds(command)));
  }
  const Bandwidth &rates = offloading.getRates();
  // A rest is long where a copy out and in fits into it, or much of the step.
  double much = transfers.times.back() / 8;
  auto intervals = collectResidentIntervals(
      commands, [&](Value base) { return offloading.takes(base); },
      [&](Value base, int64_t earlier, int64_t later) {
        int64_t bytes = getBufferBytes(base);
        double moved =
            rates.getFetchSeconds(bytes) + rates.getStoreSeconds(bytes);
        return transfers.times[later] - transfers.times[earlier + 1] <
               std::min(moved, much);
      });
  for (auto &[base, own] : intervals)
    if (isa<BlockArgument>(base) || own.size() > 1) {
      LDBG() << "offload " << getBufferBytes(base) << " bytes, resident "
             << own.size() << " times: " << base;
      rewriter.add(base, own);
    }
  // An argument that this function leaves alone lies there, too.
  for (BlockArgument argument : function.getArguments())
    if (!intervals.contains(argument) && offloading.takes(argument))
      rewriter.add(argument, {});
  if (!rewriter.isEmpty())
    transfers.schedule(offloading.getWindow());
}
