//===- Views.cpp - What a buffer is a view of -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Operands.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"

using namespace mlir;
using namespace mlir::exec;
using optimus_support::CheckedSize;
using optimus_support::kMaxElements;

bool mlir::exec::isMemorySpace(Attribute space) {
  auto named = dyn_cast_or_null<MemorySpaceAttr>(space);
  return !space || (named && named.getValue() != MemorySpace::Device);
}

MemorySpace mlir::exec::getMemorySpace(Value buffer) {
  auto space = dyn_cast_or_null<MemorySpaceAttr>(
      cast<MemRefType>(buffer.getType()).getMemorySpace());
  return space ? space.getValue() : MemorySpace::Device;
}

Attribute mlir::exec::getMemorySpaceAttr(MLIRContext *context,
                                         MemorySpace space) {
  if (space == MemorySpace::Device)
    return Attribute();
  return MemorySpaceAttr::get(context, space);
}

unsigned mlir::exec::getNumArenas(TypeRange arguments) {
  unsigned count = 0;
  for (Type type : arguments) {
    auto buffer = dyn_cast<MemRefType>(type);
    if (!buffer || !buffer.getElementType().isInteger(8))
      break;
    ++count;
  }
  return count;
}

/// Adds the bases of `buffer`, once each.
static void collectBases(Value buffer, SmallVectorImpl<Value> &bases) {
  if (auto view = buffer.getDefiningOp<BufferViewOpInterface>()) {
    for (Value viewed : view.getViewedBuffers())
      collectBases(viewed, bases);
    return;
  }
  if (!llvm::is_contained(bases, buffer))
    bases.push_back(buffer);
}

SmallVector<Value> mlir::exec::getBases(Value buffer) {
  SmallVector<Value> bases;
  collectBases(buffer, bases);
  return bases;
}

void mlir::exec::addCommandEffects(
    Operation *operation,
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  auto command = cast<CommandOpInterface>(operation);
  for (const Access &access : command.getAccesses()) {
    if (access.reads)
      effects.emplace_back(MemoryEffects::Read::get(), access.operand);
    if (access.writes)
      effects.emplace_back(MemoryEffects::Write::get(), access.operand);
  }
  if (command.getWaitingCommand() || command.getAwaitedCommand() ||
      command.isCarried() || isa<WaitCarriedOp>(operation))
    effects.emplace_back(MemoryEffects::Write::get(),
                         CommunicationResource::get());
  // Until the wait, the collective wrote memory that is no operand of it.
  if (command.getAwaitedCommand())
    effects.emplace_back(MemoryEffects::Write::get());
}

//===----------------------------------------------------------------------===//
// What views are
//===----------------------------------------------------------------------===//

/// A number of elements of a buffer, in bytes.
static int64_t getBytes(Value buffer, int64_t elements) {
  return elements * optimus::getElementBytes(buffer.getType());
}

SmallVector<Value, 2> SliceOp::getViewedBuffers() { return {getBuffer()}; }

RankNumber SliceOp::getByteOffset() {
  return {.constant = getBytes(getBuffer(), getOffset())};
}

SmallVector<Value, 2> SliceRankOp::getViewedBuffers() { return {getBuffer()}; }

RankNumber SliceRankOp::getByteOffset() {
  return {.axes = getAxes(), .scale = getBytes(getBuffer(), getStride())};
}

SmallVector<Value, 2> SelectRankOp::getViewedBuffers() {
  return {getMine(), getOther()};
}

std::optional<RankChoice> SelectRankOp::getChoice() {
  return RankChoice{getAxis(), static_cast<int64_t>(getIndex())};
}

RankNumber RealExtentOp::getNumber() {
  int64_t local = getLocal(), total = getTotal();
  return {total, getAxes(), -local, /*least=*/0, /*most=*/local};
}

RankNumber PartOffsetOp::getNumber() {
  return {.axes = getAxes(), .scale = static_cast<int64_t>(getLocal())};
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// Most views on the way to a base. Every look at a buffer follows all of
/// them, and a choice of two doubles them.
static constexpr int64_t kMaxViews = 8;

/// The most views on a way from `buffer` to a base, or more than `limit`.
static int64_t countViews(Value buffer, int64_t limit) {
  auto view = buffer.getDefiningOp<BufferViewOpInterface>();
  if (!view)
    return 0;
  int64_t most = 0;
  for (Value base : view.getViewedBuffers())
    if (limit > 0)
      most = std::max(most, countViews(base, limit - 1));
  return most + 1;
}

static LogicalResult verifyDepth(Operation *view) {
  if (countViews(view->getResult(0), kMaxViews) <= kMaxViews)
    return success();
  return view->emitOpError()
         << "is a view of a view of more than " << kMaxViews - 1
         << " others; expected fewer on the way to a buffer";
}

LogicalResult ArenaSlotOp::verify() {
  int64_t offset = getOffset(), alignment = getBufferAlignment();
  // C1
  if (offset < 0 || offset % alignment != 0)
    return emitOpError() << "offset " << offset << " is not a multiple of "
                         << alignment << " bytes";
  // C2
  CheckedSize end =
      CheckedSize(offset) + getBytes(getBuffer(), getExtent(getBuffer()));
  if (!end.isAtMost(getExtent(getArena())))
    return emitOpError() << "ends at byte " << end.toString()
                         << ", but the arena has " << getExtent(getArena());
  if (exec::getMemorySpace(getBuffer()) != exec::getMemorySpace(getArena()))
    return emitOpError("is in another memory space than its arena");
  return success();
}

/// Checks the elements of a view, and of how many others it is one.
static LogicalResult verifyElements(Operation *view, Value base, Value result) {
  if (getElementType(result) != getElementType(base))
    return view->emitOpError() << "makes " << getElementType(result) << " of "
                               << getElementType(base);
  if (exec::getMemorySpace(result) != exec::getMemorySpace(base))
    return view->emitOpError("is in another memory space than its buffer");
  return verifyDepth(view);
}

LogicalResult SliceOp::verify() {
  int64_t offset = getOffset();
  CheckedSize end = CheckedSize(offset) + getExtent(getResult());
  // C1
  if (offset < 0 || !end.isAtMost(getExtent(getBuffer())))
    return emitOpError() << "elements [" << offset << ", " << end.toString()
                         << ") are not all in a buffer of "
                         << getExtent(getBuffer());
  // C2, C3
  return verifyElements(*this, getBuffer(), getResult());
}

LogicalResult SliceRankOp::verify() {
  // C1
  FailureOr<int64_t> ranks = verifyAxes(*this, getAxes().getValue());
  if (failed(ranks))
    return failure();
  // C2
  int64_t stride = getStride();
  CheckedSize end = CheckedSize(*ranks - 1) * stride + getExtent(getResult());
  if (stride < 0 || stride > kMaxElements)
    return emitOpError() << "stride must be from 0 to " << kMaxElements
                         << ", found " << stride;
  if (!end.isAtMost(getExtent(getBuffer())))
    return emitOpError() << "the last rank's part ends at element "
                         << end.toString() << ", but the buffer has "
                         << getExtent(getBuffer());
  // C3, C4
  return verifyElements(*this, getBuffer(), getResult());
}

LogicalResult SelectRankOp::verify() {
  // C1
  FailureOr<int64_t> size = verifyAxes(*this, getAxisAttr());
  if (failed(size))
    return failure();
  int64_t index = getIndex();
  if (index < 0 || index >= *size)
    return emitOpError() << "index " << index << " is not on axis \""
                         << getAxis() << "\" of " << *size << " ranks";
  // C2
  return verifyDepth(*this);
}

/// Checks what all parts of a dimension are together.
static LogicalResult verifyWhole(Operation *op, CheckedSize whole) {
  if (whole.isAtMost(kMaxElements))
    return success();
  return op->emitOpError() << "all parts together must be from 0 to "
                           << kMaxElements << " elements, found "
                           << whole.toString();
}

LogicalResult RealExtentOp::verify() {
  // C1
  FailureOr<int64_t> ranks = verifyAxes(*this, getAxes().getValue());
  if (failed(ranks))
    return failure();
  // C2
  int64_t local = getLocal(), total = getTotal();
  CheckedSize whole = CheckedSize(local) * *ranks;
  if (local > 0 && failed(verifyWhole(*this, whole)))
    return failure();
  if (local <= 0 || total <= 0 || *whole.get() < total)
    return emitOpError() << *ranks << " parts of " << local
                         << " do not cover an extent of " << total;
  return success();
}

LogicalResult PartOffsetOp::verify() {
  // C1
  FailureOr<int64_t> ranks = verifyAxes(*this, getAxes().getValue());
  if (failed(ranks))
    return failure();
  // C2
  return verifyWhole(*this, CheckedSize(getLocal()) * *ranks);
}
