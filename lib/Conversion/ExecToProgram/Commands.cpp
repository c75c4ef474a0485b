//===- Commands.cpp - Commands as entries of a table ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionBuilder.h"

#include "optimus-support/ProgramRegions.h"

#include "optimus/Conversion/ExecToProgram/ProgramActionOpInterface.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::optimus;

LogicalResult FunctionBuilder::build() {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expected straight-line commands, found "
                                "control flow");
  if (function.getNumResults() != 0)
    return function.emitOpError("expected no results on a function of "
                                "commands; run --optimus-to-exec first");
  result.name = function.getSymName();
  result.prepares = getEntryKind(function) == EntryKind::Prepare;
  if (failed(addMemory()))
    return failure();
  for (Operation &op : function.getBody().front())
    if (failed(addCommand(&op)))
      return failure();
  addBuffers();
  program::setArgumentAccess(result, ranks);
  return success();
}

LogicalResult FunctionBuilder::addMemory() {
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto buffer = dyn_cast<MemRefType>(type);
    if (!buffer)
      return function.emitOpError("expected buffers as arguments, found ")
             << type << "; run --optimus-to-exec first";
    if (buffer.getElementType().isInteger(8)) {
      auto arena = std::make_unique<program::ArenaT>();
      arena->space = static_cast<program::MemorySpace>(
          exec::getMemorySpace(function.getArgument(index)));
      arena->bytes = buffer.getNumElements();
      result.arenas.push_back(std::move(arena));
      continue;
    }
    auto argument = std::make_unique<program::ArgumentT>();
    argument->buffer = getBufferName(getArgumentBuffer(function, index));
    argument->type = getElementType(buffer.getElementType());
    argument->space = static_cast<program::MemorySpace>(
        exec::getMemorySpace(function.getArgument(index)));
    argument->bytes =
        buffer.getNumElements() * program::elementBytes(argument->type);
    result.arguments.push_back(std::move(argument));
  }
  return success();
}

/// Those that commands touch: nobody else knows when they are alive.
void FunctionBuilder::addBuffers() {
  for (auto [value, interval] : exec::computeLiveIntervals(function)) {
    auto slot = value.getDefiningOp<exec::ArenaSlotOp>();
    if (!slot)
      continue;
    auto buffer = std::make_unique<program::BufferT>();
    buffer->arena = cast<BlockArgument>(slot.getArena()).getArgNumber();
    buffer->offset = slot.getOffset();
    buffer->bytes = exec::getBufferBytes(value);
    buffer->first = interval.first;
    buffer->last = interval.last;
    buffer->category = texts.getNumber(slot.getCategory());
    if (std::optional<StringRef> name = slot.getName())
      buffer->name = texts.getNumber(*name);
    Source source = getSource(slot.getLoc());
    buffer->path = source.path;
    buffer->source = source.line;
    if (ArrayAttr values = slot.getValuesAttr())
      for (StringRef each : values.getAsValueRange<StringAttr>())
        buffer->values.push_back(texts.getNumber(each));
    result.buffers.push_back(std::move(buffer));
  }
}

FailureOr<uint32_t>
FunctionBuilder::getQueue(exec::CommandOpInterface command) {
  std::optional<StringRef> name = command.getCommandQueue();
  if (!name)
    return command.emitOpError(
        "has no queue; run --optimus-order-commands first");
  auto [entry, isNew] = queues.try_emplace(*name, result.queues.size());
  if (!isNew)
    return entry->second;
  auto queue = std::make_unique<program::QueueT>();
  if (*name == exec::kFetchQueue || *name == exec::kStoreQueue) {
    queue->kind = program::QueueKind::Copies;
  } else if (*name != exec::kComputeQueue) {
    FailureOr<uint32_t> axis = addresses.getAxis(command, *name);
    if (failed(axis))
      return failure();
    queue->kind = program::QueueKind::Communication;
    queue->axes.push_back(*axis);
  }
  result.queues.push_back(std::move(queue));
  return entry->second;
}

FunctionBuilder::Source FunctionBuilder::describeSource(Location location) {
  Source result;
  if (std::string path = getPathWithPhase(location); !path.empty())
    result.path = texts.getNumber(path);
  if (FileLineColLoc file = getFileLine(location))
    result.line = texts.getNumber(
        (llvm::sys::path::filename(file.getFilename().getValue()) + ":" +
         Twine(file.getLine()))
            .str());
  return result;
}

FunctionBuilder::Source FunctionBuilder::getSource(Location location) {
  auto [entry, isNew] = sources.try_emplace(location);
  if (isNew)
    entry->second = describeSource(location);
  return entry->second;
}

LogicalResult FunctionBuilder::addOperands(program::CommandT &command,
                                           ArrayRef<Value> buffers) {
  auto shapes = program::shapesOf(command.action, ranks);
  // Only of operands that verifiers would have refused.
  if (!shapes)
    return function.emitOpError("has a command whose sizes do not fit");
  for (auto [buffer, shape] : llvm::zip(buffers, *shapes)) {
    auto operand = std::make_unique<program::OperandT>();
    if (buffer) {
      FailureOr<uint32_t> address = addresses.getAddress(buffer);
      if (failed(address))
        return failure();
      *operand = program::makeOperand(shape, getElementType(buffer), *address);
    }
    command.operands.push_back(std::move(operand));
  }
  return success();
}

/// Whether an operation only makes or names what commands use, and is written
/// where they use it.
static bool isFlattened(Operation *op) {
  return isa<exec::ArenaSlotOp, exec::BufferViewOpInterface,
             exec::RankNumberOpInterface>(op) ||
         op->hasTrait<OpTrait::ConstantLike>() ||
         op->hasTrait<OpTrait::IsTerminator>();
}

LogicalResult FunctionBuilder::addCommand(Operation *op) {
  if (isFlattened(op))
    return success();
  if (isa<exec::AllocOp>(op))
    return op->emitOpError("has no place in the arena; run "
                           "--optimus-place-buffers first");
  auto described = dyn_cast<exec::CommandOpInterface>(op);
  if (!described)
    return op->emitOpError("is no command of the device program; run "
                           "--optimus-to-exec first");
  if (!described.getCommandId())
    return op->emitOpError("has no number; run --optimus-to-exec first");
  if (*described.getCommandId() != result.commands.size())
    return op->emitOpError("expected number ")
           << result.commands.size() << ", found " << *described.getCommandId();
  FailureOr<uint32_t> queue = getQueue(described);
  if (failed(queue))
    return failure();
  auto action = dyn_cast<ProgramActionOpInterface>(op);
  if (!action)
    return op->emitOpError("has no place in a table of commands");
  auto command = std::make_unique<program::CommandT>();
  command->queue = *queue;
  for (int32_t earlier : described.getCommandsBefore())
    command->after.push_back(earlier);
  Source source = getSource(op->getLoc());
  command->path = source.path;
  command->source = source.line;
  if (failed(action.setAction(*this, *command)))
    return failure();
  result.commands.push_back(std::move(command));
  return success();
}
