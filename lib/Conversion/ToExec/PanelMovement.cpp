//===- PanelMovement.cpp - How panels get to and from ranks -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A panel that belongs to one rank is broadcast by it, or reduced to it. One
// with a slice of every rank's part is gathered from them, or scattered to
// them.
//
//===----------------------------------------------------------------------===//

#include "PanelMovement.h"

#include "optimus/Dialect/Optimus/IR/Provenance.h"

using namespace mlir;
using namespace mlir::optimus;

std::string mlir::optimus::getTensorId(Value tensor) {
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument)
    return getValueId(cast<OpResult>(tensor));
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  for (StringRef name : {OptimusDialect::kParam, OptimusDialect::kBinding})
    if (auto text = function.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), name))
      return text.str();
  return "argument " + std::to_string(argument.getArgNumber());
}

void PanelMovement::begin(ArrayRef<PanelProduct> products, int64_t panel) {
  fetched.clear();
  prepared = std::move(next);
  next.clear();
  if (panel + 1 < products.front().numPanels)
    next = packAhead(products, panel + 1);
}

void PanelMovement::end() {
  for (const ScatteredPanel &panel : scattered)
    finish(panel);
}

Value PanelMovement::allocatePartial(const PanelOperand &c, int64_t panel) {
  Value partial = allocatePanel(c, panel, "partial panel");
  // The owner adds to its own part where the result will lie.
  if (!c.axis.empty() && c.sharers == 1 && c.isContiguous())
    partial = selectOwner(c, panel, getOwn(c, panel).buffer, partial);
  return partial;
}

Matrix PanelMovement::getOwn(const PanelOperand &operand, int64_t panel) {
  int64_t inner = operand.getSliceInner(), ld = operand.getSliceLd();
  return {lowering.slice(operand.buffer, panel % operand.numLocal * inner,
                         (operand.outer * operand.slices - 1) * ld + inner),
          ld};
}

/// Copies between a rank's part of a panel where it lies and a packed one.
void PanelMovement::copyPart(const PanelOperand &operand, Matrix own,
                             Value packed, bool packs) {
  Matrix dense{packed, operand.getSliceInner()};
  lowering.copy(packs ? own : dense, packs ? dense : own,
                operand.outer * operand.slices, operand.getSliceInner());
}

Type mlir::optimus::getElements(const PanelOperand &operand) {
  return cast<RankedTensorType>(operand.tensor.getType()).getElementType();
}

Value PanelMovement::allocatePanel(const PanelOperand &operand, int64_t panel,
                                   StringRef name) {
  return lowering.allocateWorkspace(
      operand.outer * operand.getPanelInner(), getElements(operand), name,
      getTensorId(operand.tensor) + " panel " + std::to_string(panel));
}

/// A packed place for this rank's part of a panel.
Value PanelMovement::allocatePart(const PanelOperand &operand, int64_t panel) {
  return lowering.allocateWorkspace(
      operand.outer * operand.inner, getElements(operand), "packed part",
      getTensorId(operand.tensor) + " panel " + std::to_string(panel));
}

Value PanelMovement::selectOwner(const PanelOperand &operand, int64_t panel,
                                 Value own, Value other) {
  return exec::SelectRankOp::create(
      lowering.builder, lowering.location, own.getType(),
      lowering.builder.getStringAttr(operand.axis),
      lowering.builder.getI64IntegerAttr(operand.getOwner(panel)), own, other);
}

Matrix PanelMovement::getFactor(const PanelOperand &operand, int64_t panel) {
  if (!operand.isStreamed)
    return {operand.buffer, operand.cols};
  for (const FetchedPanel &known : fetched)
    if (known.operand->hasPanelsOf(operand))
      return known.matrix;
  Matrix matrix = fetch(operand, panel);
  fetched.push_back({&operand, matrix});
  return matrix;
}

Matrix PanelMovement::fetch(const PanelOperand &operand, int64_t panel) {
  if (operand.axis.empty()) {
    Matrix own = getOwn(operand, panel);
    if (operand.isMatrix())
      return getMatrix(operand, own.buffer);
    Value packed = allocatePanel(operand, panel, "packed panel");
    copyPart(operand, own, packed, /*packs=*/true);
    return {packed, operand.panelCols};
  }
  auto *known = llvm::find_if(prepared, [&](const PreparedPanel &other) {
    return other.operand->hasPanelsOf(operand);
  });
  PreparedPanel ready =
      known != prepared.end() ? *known : prepare(operand, panel);
  lowering.finish(ready.movement);
  return ready.matrix;
}

/// How a factor's panel moves, as it lies.
Collective PanelMovement::getMove(const PanelOperand &operand, int64_t panel,
                                  Value own, Value panelBuffer) {
  Collective collective{
      exec::CollectiveKind::Broadcast,        operand.axis,  {own, operand.ld},
      {panelBuffer, operand.getPanelInner()}, operand.outer, operand.inner};
  if (operand.sharers > 1)
    collective.kind = exec::CollectiveKind::AllGather;
  else
    collective.root = operand.getOwner(panel);
  return collective;
}

/// Packs a factor's panel where it must be.
PanelMovement::PreparedPanel PanelMovement::prepare(const PanelOperand &operand,
                                                    int64_t panel) {
  Matrix own = getOwn(operand, panel);
  Value panelBuffer = allocatePanel(operand, panel, "received panel");
  // The owner uses its panel where it lies.
  if (operand.sharers == 1 && operand.isContiguous())
    panelBuffer = selectOwner(operand, panel, own.buffer, panelBuffer);
  Collective collective = getMove(operand, panel, own.buffer, panelBuffer);
  if (operand.sharers > 1 && !operand.isWhole()) {
    collective.src = {allocatePart(operand, panel), operand.inner};
    copyPart(operand, own, collective.src.buffer, /*packs=*/true);
  }
  return {
      &operand, lowering.pack(collective), {panelBuffer, operand.panelCols}};
}

/// Prepares those factors' panels that are packed before they move.
SmallVector<PanelMovement::PreparedPanel>
PanelMovement::packAhead(ArrayRef<PanelProduct> products, int64_t panel) {
  SmallVector<PreparedPanel> ahead;
  for (const PanelProduct &product : products)
    for (const PanelOperand &operand :
         ArrayRef(product.operands).take_front(2)) {
      if (!operand.isStreamed || operand.axis.empty() ||
          llvm::any_of(ahead, [&](const PreparedPanel &known) {
            return known.operand->hasPanelsOf(operand);
          }))
        continue;
      // The strides alone decide.
      Collective collective =
          getMove(operand, panel, operand.buffer, operand.buffer);
      lowering.location = product.op->getLoc();
      if (lowering.packs(collective) ||
          (operand.sharers > 1 && !operand.isWhole()))
        ahead.push_back(prepare(operand, panel));
    }
  return ahead;
}

void PanelMovement::reduce(const PanelOperand &c, int64_t panel,
                           Value partial) {
  Matrix own = getOwn(c, panel);
  if (c.axis.empty()) {
    copyPart(c, own, partial, /*packs=*/false);
    return;
  }
  Collective collective{
      exec::CollectiveKind::Reduce, c.axis,  {partial, c.getPanelInner()},
      {own.buffer, c.ld},           c.outer, c.inner};
  if (c.sharers == 1) {
    collective.root = c.getOwner(panel);
    lowering.collective(collective);
    return;
  }
  collective.kind = exec::CollectiveKind::ReduceScatter;
  Value packed;
  if (!c.isWhole()) {
    packed = allocatePart(c, panel);
    collective.dst = {packed, c.inner};
  }
  ScatteredPanel present{&c, lowering.pack(collective), own, packed};
  if (!packed && !lowering.unpacks(collective)) {
    lowering.finish(present.movement);
    return;
  }
  // Copies behind it would keep the next product waiting.
  auto *before = llvm::find_if(scattered, [&](const ScatteredPanel &other) {
    return other.operand == &c;
  });
  if (before == scattered.end()) {
    scattered.push_back(present);
    return;
  }
  finish(*before);
  *before = present;
}

void PanelMovement::finish(const ScatteredPanel &panel) {
  lowering.finish(panel.movement);
  if (panel.packed)
    copyPart(*panel.operand, panel.own, panel.packed, /*packs=*/false);
}

Matrix PanelMovement::getMatrix(const PanelOperand &operand, Value own) {
  bool isWholeRow = operand.streamsRows || operand.isContiguous();
  return {own, isWholeRow ? operand.panelCols : operand.cols};
}
