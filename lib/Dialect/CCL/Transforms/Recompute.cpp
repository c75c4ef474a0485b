//===- Recompute.cpp - Activations recomputed in the backward ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A function that differentiates is straight-line: the forward pass, the
// operation that makes the loss and its gradient, the backward pass. A value of
// the forward that the backward uses is kept in memory in between, unless it is
// recomputed from what is kept.
//
// Where one activation alone leads on, the forward has a cut: everything after
// it follows from that value and the parameters. Between the blocks of a
// transformer, the residual stream is a cut. Which operations may run twice and
// which cuts are kept is the policy's to say.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/CCL/Transforms/Passes.h"
#include "optimus/Dialect/CCL/Transforms/RecomputePolicy.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace mlir::ccl {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "optimus/Dialect/CCL/Transforms/Passes.h.inc"
} // namespace mlir::ccl

using namespace mlir;
using namespace mlir::ccl;
using optimus::OptimusDialect;

using Policy = RecomputePolicy;

static constexpr StringRef policyNames[] = {"none", "attention", "layer"};

ArrayRef<StringRef> mlir::ccl::getRecomputePolicies() { return policyNames; }

std::optional<RecomputePolicy>
mlir::ccl::lookupRecomputePolicy(StringRef name) {
  for (auto [number, known] : llvm::enumerate(policyNames))
    if (known == name)
      return static_cast<RecomputePolicy>(number);
  return std::nullopt;
}

namespace {
/// The forward and the backward of one function, and what lives between them.
class Recomputation {
public:
  /// `boundary` makes the loss and its gradient.
  Recomputation(Operation *boundary, Policy policy)
      : block(*boundary->getBlock()), policy(policy), boundary(boundary) {}

  void run();

  int64_t getNumCloned() const { return numCloned; }

private:
  void findActivations();
  void findNeeded();
  void findCuts();
  /// Every `stride`-th cut from the first on.
  SmallVector<Value> selectCuts(size_t stride) const;
  /// What lives at most when these cuts are kept: they, and what the backward
  /// needs of the forward between two of them.
  int64_t estimatePeak(ArrayRef<Value> selected) const;
  void keepCuts();
  void decide();
  /// True if an operation may run twice.
  bool isRepeatable(Operation *op) const;
  /// A value of the forward as the backward has it: kept or recomputed before
  /// the insertion point.
  Value materialize(Value value, OpBuilder &builder);

  bool isForward(Value value) const {
    Operation *op = value.getDefiningOp();
    return op && op->getBlock() == &block && position.lookup(op) < numForward;
  }
  int64_t getPosition(Value value) const {
    return position.lookup(value.getDefiningOp());
  }
  bool isActivation(Value value) const { return activations.contains(value); }

  static int64_t getBytes(Value value) {
    return optimus::getBytes(value.getType());
  }

  Block &block;
  Policy policy;
  Operation *boundary;
  SmallVector<Operation *> forward, backward;
  int64_t numForward = 0;
  llvm::DenseMap<Operation *, int64_t> position;
  /// What depends on the batch; parameters in any layout do not.
  llvm::DenseSet<Value> activations;
  /// Values of the forward that the backward uses.
  llvm::SetVector<Value> needed;
  /// Values from which, with parameters, all of the forward after them follows,
  /// in order.
  SmallVector<Value> cuts;
  llvm::DenseSet<Value> kept;
  llvm::DenseSet<Value> repeated;
  IRMapping again;
  int64_t numCloned = 0;
};
} // namespace

void Recomputation::findActivations() {
  for (BlockArgument argument : block.getArguments())
    if (cast<RankedTensorType>(argument.getType()).getElementType().isInteger())
      activations.insert(argument);
  for (Operation *op : forward)
    if (llvm::any_of(op->getOperands(),
                     [&](Value operand) { return isActivation(operand); }))
      activations.insert_range(op->getResults());
}

void Recomputation::findNeeded() {
  for (Operation *op : backward)
    for (Value operand : op->getOperands())
      if (isForward(operand) && isActivation(operand))
        needed.insert(operand);
}

void Recomputation::findCuts() {
  // The position of the last operation of the forward that uses each value.
  llvm::DenseMap<Value, int64_t> lastUse;
  auto addUses = [&](Operation *op, int64_t at) {
    for (Value operand : op->getOperands())
      if (isForward(operand) && isActivation(operand))
        lastUse[operand] = at;
  };
  for (Operation *op : forward)
    addUses(op, position[op]);
  addUses(boundary, numForward);
  llvm::SetVector<Value> live;
  for (Operation *op : forward) {
    live.remove_if(
        [&](Value value) { return lastUse.lookup(value) <= position[op]; });
    for (Value result : op->getResults())
      if (lastUse.lookup(result) > position[op])
        live.insert(result);
    if (live.size() == 1 && !llvm::is_contained(cuts, live.front()))
      cuts.push_back(live.front());
  }
}

SmallVector<Value> Recomputation::selectCuts(size_t stride) const {
  SmallVector<Value> selected;
  for (size_t i = 0; i < cuts.size(); i += stride)
    selected.push_back(cuts[i]);
  return selected;
}

int64_t Recomputation::estimatePeak(ArrayRef<Value> selected) const {
  int64_t sum = 0, largest = 0;
  for (Value cut : selected)
    sum += getBytes(cut);
  SmallVector<int64_t> ends = llvm::map_to_vector(
      selected, [&](Value cut) { return getPosition(cut); });
  SmallVector<int64_t> segments(ends.size() + 1);
  for (Value value : needed)
    if (!llvm::is_contained(selected, value))
      segments[llvm::lower_bound(ends, getPosition(value)) - ends.begin()] +=
          getBytes(value);
  for (int64_t segment : segments)
    largest = std::max(largest, segment);
  return sum + largest;
}

void Recomputation::keepCuts() {
  if (cuts.empty())
    return;
  SmallVector<Value> best = selectCuts(1);
  int64_t leastPeak = estimatePeak(best);
  // Where nothing but what is cheap runs twice, no cut can be recomputed.
  for (size_t stride = 2; policy == Policy::Layer && stride < cuts.size();
       ++stride) {
    SmallVector<Value> selected = selectCuts(stride);
    if (int64_t peak = estimatePeak(selected); peak < leastPeak) {
      best = std::move(selected);
      leastPeak = peak;
    }
  }
  kept.insert_range(best);
}

bool Recomputation::isRepeatable(Operation *op) const {
  return policy == Policy::Layer ||
         (isMemoryEffectFree(op) && !optimus::isProduct(op));
}

void Recomputation::decide() {
  // Statistics of rows are not worth the collective that merges them.
  int64_t small = 0;
  for (Value cut : cuts)
    small = std::max(small, getBytes(cut) / 8);
  auto isAtHand = [&](Value value) {
    return !isForward(value) || !isActivation(value) || kept.contains(value) ||
           repeated.contains(value);
  };
  for (Operation *op : forward) {
    int64_t missingBytes = 0, neededBytes = 0;
    SmallVector<Value> missing;
    for (Value operand : op->getOperands())
      if (!isAtHand(operand) && !llvm::is_contained(missing, operand)) {
        missing.push_back(operand);
        missingBytes += getBytes(operand);
      }
    for (Value result : op->getResults())
      if (needed.contains(result) && !kept.contains(result))
        neededBytes += getBytes(result);
    // What it is made from is kept where that is less.
    bool canRepeat =
        isRepeatable(op) && (missing.empty() || missingBytes < neededBytes);
    if (canRepeat)
      kept.insert_range(missing);
    for (Value result : op->getResults()) {
      if (!isActivation(result) || kept.contains(result))
        continue;
      if (needed.contains(result) && (!canRepeat || getBytes(result) <= small))
        kept.insert(result);
      else if (canRepeat)
        repeated.insert(result);
    }
  }
}

Value Recomputation::materialize(Value value, OpBuilder &builder) {
  if (!repeated.contains(value))
    return value;
  if (Value known = again.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, materialize(operand, builder));
  Operation *clone = builder.clone(*op, operands);
  clone->setAttr(OptimusDialect::kRecomputed, builder.getUnitAttr());
  clone->setLoc(
      optimus::withPhase(clone->getLoc(), optimus::ProgramPhase::Recomputed));
  again.map(op->getResults(), clone->getResults());
  ++numCloned;
  return again.lookup(value);
}

void Recomputation::run() {
  bool isBackward = false;
  for (Operation &op : block.without_terminator()) {
    position[&op] = position.size();
    if (&op == boundary) {
      numForward = forward.size();
      isBackward = true;
    } else {
      (isBackward ? backward : forward).push_back(&op);
    }
  }
  findActivations();
  findNeeded();
  findCuts();
  keepCuts();
  decide();
  for (Operation *op : backward) {
    OpBuilder builder(op);
    for (OpOperand &operand : op->getOpOperands())
      if (isForward(operand.get()))
        operand.set(materialize(operand.get(), builder));
  }
}

/// What makes the loss: the first operation with several operands on the way
/// back from the result that is it. Null where there is none.
static Operation *findBoundary(func::FuncOp function) {
  Operation *terminator = function.front().getTerminator();
  for (auto [number, value] : llvm::enumerate(terminator->getOperands())) {
    optimus::BufferAttr buffer = optimus::getResultBuffer(function, number);
    if (!buffer || buffer.getRole() != "loss_sum")
      continue;
    Operation *op = value.getDefiningOp();
    while (op && op->getNumOperands() == 1)
      op = op->getOperand(0).getDefiningOp();
    return op;
  }
  return nullptr;
}

namespace {
class RecomputePass : public ccl::impl::RecomputePassBase<RecomputePass> {
public:
  using RecomputePassBase::RecomputePassBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    std::optional<Policy> chosen = lookupRecomputePolicy(policy);
    if (!chosen) {
      function.emitError("unknown policy of recomputation '")
          << policy << "'; known are "
          << llvm::join(getRecomputePolicies(), ", ");
      return signalPassFailure();
    }
    if (*chosen == Policy::None || function.isExternal())
      return;
    if (!function.getBody().hasOneBlock()) {
      function.emitOpError("expected one block, found ")
          << function.getBody().getBlocks().size();
      return signalPassFailure();
    }
    Operation *boundary = findBoundary(function);
    if (!boundary)
      return;
    Recomputation recomputation(boundary, *chosen);
    recomputation.run();
    numCloned += recomputation.getNumCloned();
  }
};
} // namespace
