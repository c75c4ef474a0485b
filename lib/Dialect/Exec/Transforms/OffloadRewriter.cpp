//===- OffloadRewriter.cpp - Copies between homes and the device *- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OffloadRewriter.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/ExtraWorkspace.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"

#include "optimus-support/Pages.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::exec;
using optimus_support::kPageBytes;

std::optional<Bandwidth> Bandwidth::parse(StringRef text) {
  Bandwidth result;
  if (text.empty())
    return result;
  auto [in, out] = text.split(',');
  std::optional<int64_t> fetched = parseBytes(in),
                         stored =
                             text.contains(',') ? parseBytes(out) : fetched;
  if (!fetched || !stored || *fetched == 0 || *stored == 0)
    return std::nullopt;
  result.in = static_cast<double>(*fetched);
  result.out = static_cast<double>(*stored);
  return result;
}

void OffloadRewriter::add(Value base, ArrayRef<ResidentInterval> intervals) {
  const bool isArgument = isa<BlockArgument>(base);
  const int64_t bytes = getBufferBytes(base);
  buffers.push_back({base, {}});
  std::optional<size_t> stored;
  int64_t storedAt = 0;
  for (auto [number, interval] : llvm::enumerate(intervals)) {
    Visit visit{buffers.size() - 1, interval};
    const bool hasContents = isArgument || number > 0;
    if (interval.reads && hasContents) {
      visit.fetch = plan.fetches.size();
      plan.fetches.push_back({interval.first, bytes,
                              rates.getFetchSeconds(bytes),
                              stored ? storedAt + 1 : 0, stored});
    }
    // Somebody reads it later: an interval of an allocation that overwrites all
    // of it could have had a buffer of its own.
    if (interval.writes && (isArgument || number + 1 < intervals.size())) {
      visit.store = stored = plan.stores.size();
      storedAt = interval.last;
      plan.stores.push_back(
          {interval.last, bytes, rates.getStoreSeconds(bytes)});
    }
    visitsOf[base].push_back(visits.size());
    visits.push_back(visit);
  }
}

void OffloadRewriter::forEachRange(VisitRange visitRange) const {
  for (const Visit &visit : visits) {
    int64_t first = visit.interval.first, last = visit.interval.last;
    if (visit.fetch)
      first = plan.fetches[*visit.fetch].begin;
    if (visit.store)
      last = std::max(last, plan.stores[*visit.store].end - 1);
    visitRange(buffers[visit.buffer].base, first, last);
  }
}

void OffloadRewriter::run() {
  for (Buffer &buffer : buffers)
    makeHome(buffer);
  insertCopies();
  replaceUses();
  eraseUnusedViews(function.getBody().front());
  // Those of allocations have homes of their own.
  for (Buffer &buffer : buffers)
    if (auto allocation = buffer.base.getDefiningOp<AllocOp>())
      allocation.erase();
  setLags();
}

void OffloadRewriter::makeHome(Buffer &buffer) {
  auto type = cast<MemRefType>(buffer.base.getType());
  auto homeType =
      MemRefType::get(type.getShape(), type.getElementType(), type.getLayout(),
                      exec::getMemorySpaceAttr(function.getContext(), space));
  auto allocation = buffer.base.getDefiningOp<AllocOp>();
  if (!allocation) {
    // Its uses get other buffers, of the old type.
    buffer.home = buffer.base;
    return;
  }
  OpBuilder builder(allocation);
  buffer.home = AllocOp::create(
      builder, allocation.getLoc(), homeType, allocation.getCategoryAttr(),
      allocation.getNameAttr(), allocation.getValuesAttr(),
      builder.getI64IntegerAttr(kPageBytes));
}

void OffloadRewriter::makeSlot(Visit &visit, OpBuilder &builder) {
  Value base = buffers[visit.buffer].base;
  Location loc = getCommand(visit.interval.first).getLoc();
  IntegerAttr alignment = builder.getI64IntegerAttr(kPageBytes);
  if (auto allocation = base.getDefiningOp<AllocOp>()) {
    visit.slot = AllocOp::create(
        builder, loc, base.getType(), allocation.getCategoryAttr(),
        allocation.getNameAttr(), allocation.getValuesAttr(), alignment);
    return;
  }
  optimus::BufferAttr buffer = optimus::getArgumentBuffer(
      function, cast<BlockArgument>(base).getArgNumber());
  visit.slot = AllocOp::create(
      builder, loc, base.getType(), builder.getStringAttr("fetched"),
      builder.getStringAttr(buffer.getName()), ArrayAttr(), alignment);
}

CopyOp OffloadRewriter::makeCopy(OpBuilder &builder, Location loc, Value from,
                                 Value to) {
  int64_t elements = cast<MemRefType>(from.getType()).getNumElements();
  return CopyOp::create(builder, loc, from, to, /*rows=*/1, elements, elements,
                        elements, /*lag=*/IntegerAttr(),
                        /*kernel=*/FlatSymbolRefAttr(),
                        /*id=*/IntegerAttr(),
                        /*queue=*/StringAttr(), /*after=*/DenseI32ArrayAttr());
}

void OffloadRewriter::insertCopies() {
  OpBuilder builder(function.getContext());
  // At one command what is needed first is fetched first.
  SmallVector<size_t> order = llvm::to_vector(llvm::seq(visits.size()));
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return visits[a].interval.first < visits[b].interval.first;
  });
  for (size_t number : order) {
    Visit &visit = visits[number];
    int64_t begin =
        visit.fetch ? plan.fetches[*visit.fetch].begin : visit.interval.first;
    builder.setInsertionPoint(getCommand(begin));
    makeSlot(visit, builder);
    if (visit.fetch)
      makeCopy(builder, getCommand(visit.interval.first).getLoc(),
               buffers[visit.buffer].home, visit.slot);
  }
  // Each goes right behind the command, so the last one first.
  for (size_t number : llvm::reverse(order)) {
    Visit &visit = visits[number];
    if (!visit.store)
      continue;
    CommandOpInterface last = getCommand(visit.interval.last);
    builder.setInsertionPointAfter(last);
    CopyOp copy = makeCopy(builder, last.getLoc(), visit.slot,
                           buffers[visit.buffer].home);
    int64_t end = plan.stores[*visit.store].end;
    lagging.push_back({copy, end < plan.getNumCommands()
                                 ? getCommand(end).getOperation()
                                 : nullptr});
  }
}

Value OffloadRewriter::findSlot(Value base, int64_t position) const {
  auto found = visitsOf.find(base);
  if (found == visitsOf.end())
    return nullptr;
  for (size_t number : found->second)
    if (const Visit &visit = visits[number];
        visit.interval.first <= position && position <= visit.interval.last)
      return visit.slot;
  return nullptr;
}

Value OffloadRewriter::rebuild(Value value, int64_t position,
                               OpBuilder &builder) {
  auto view = value.getDefiningOp<BufferViewOpInterface>();
  if (!view) {
    Value slot = findSlot(value, position);
    return slot ? slot : value;
  }
  IRMapping mapping;
  bool isChanged = false;
  for (Value operand : view->getOperands()) {
    Value rebuilt = rebuild(operand, position, builder);
    isChanged |= rebuilt != operand;
    mapping.map(operand, rebuilt);
  }
  return isChanged ? builder.clone(*view, mapping)->getResult(0) : value;
}

void OffloadRewriter::replaceUses() {
  OpBuilder builder(function.getContext());
  for (auto [position, each] : llvm::enumerate(commands)) {
    CommandOpInterface command = each;
    builder.setInsertionPoint(command);
    for (OpOperand &operand : command->getOpOperands())
      if (isa<MemRefType>(operand.get().getType()))
        operand.set(rebuild(operand.get(), position, builder));
  }
  // Nothing but copies uses them any more.
  for (Buffer &buffer : buffers)
    if (isa<BlockArgument>(buffer.base)) {
      auto type = cast<MemRefType>(buffer.base.getType());
      buffer.base.setType(MemRefType::get(
          type.getShape(), type.getElementType(), type.getLayout(),
          exec::getMemorySpaceAttr(function.getContext(), space)));
    }
  function.setFunctionType(FunctionType::get(
      function.getContext(), function.getBody().front().getArgumentTypes(),
      function.getResultTypes()));
}

void OffloadRewriter::eraseUnusedViews(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isa<BufferViewOpInterface>(op) && op.use_empty())
      op.erase();
}

void OffloadRewriter::setLags() {
  llvm::DenseMap<Operation *, int64_t> positions;
  for (auto [position, command] : llvm::enumerate(getCommands(function)))
    positions[command] = position;
  for (auto [copy, end] : lagging) {
    int64_t last = end ? positions[end] - 1 : positions.size() - 1;
    if (int64_t lag = last - positions[copy]; lag > 0)
      copy.setLag(lag);
  }
}
