//===- RecomputePolicies.cpp - What policies recompute ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where one activation alone leads on, the forward has a cut: everything after
// it follows from that value and the parameters. Between the blocks of a
// transformer, the residual stream is a cut. Which operations may run twice and
// which cuts are kept is the policy's to say.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/Transforms/Recomputation.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace mlir::ccl;

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

static int64_t getBytes(Value value) {
  return optimus::getBytes(value.getType());
}

namespace {
/// Applies a policy to one function.
class PolicyChoice {
public:
  PolicyChoice(const Recomputation &program, Policy policy)
      : program(program), policy(policy) {}

  ValueSet run() {
    findNeeded();
    findCuts();
    keepCuts();
    decide();
    return std::move(repeated);
  }

private:
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
  bool mayRepeat(Operation *op) const;

  int64_t getPosition(Value value) const {
    return program.getPosition(value.getDefiningOp());
  }

  const Recomputation &program;
  Policy policy;
  /// Values of the forward that the backward uses.
  llvm::SetVector<Value> needed;
  /// Values from which, with parameters, all of the forward after them follows,
  /// in order.
  SmallVector<Value> cuts;
  ValueSet kept, repeated;
};
} // namespace

void PolicyChoice::findNeeded() {
  for (Operation *op : program.getBackward())
    for (Value operand : op->getOperands())
      if (program.isActivation(operand))
        needed.insert(operand);
}

void PolicyChoice::findCuts() {
  // The position of the last operation of the forward that uses each value.
  llvm::DenseMap<Value, int64_t> lastUse;
  auto addUses = [&](Operation *op, int64_t at) {
    for (Value operand : op->getOperands())
      if (program.isActivation(operand))
        lastUse[operand] = at;
  };
  for (Operation *op : program.getForward())
    addUses(op, program.getPosition(op));
  addUses(program.getBoundary(), program.getForward().size());
  llvm::SetVector<Value> live;
  for (Operation *op : program.getForward()) {
    int64_t here = program.getPosition(op);
    live.remove_if(
        [&](Value value) { return lastUse.lookup(value) <= here; });
    for (Value result : op->getResults())
      if (lastUse.lookup(result) > here)
        live.insert(result);
    if (live.size() == 1 && !llvm::is_contained(cuts, live.front()))
      cuts.push_back(live.front());
  }
}

SmallVector<Value> PolicyChoice::selectCuts(size_t stride) const {
  SmallVector<Value> selected;
  for (size_t i = 0; i < cuts.size(); i += stride)
    selected.push_back(cuts[i]);
  return selected;
}

int64_t PolicyChoice::estimatePeak(ArrayRef<Value> selected) const {
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

void PolicyChoice::keepCuts() {
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

bool PolicyChoice::mayRepeat(Operation *op) const {
  return program.isRepeatable(op) &&
         (policy == Policy::Layer ||
          (isMemoryEffectFree(op) && !optimus::isProduct(op)));
}

void PolicyChoice::decide() {
  // Statistics of rows are not worth the collective that merges them.
  int64_t small = 0;
  for (Value cut : cuts)
    small = std::max(small, getBytes(cut) / 8);
  auto isAtHand = [&](Value value) {
    return !program.isActivation(value) || kept.contains(value) ||
           repeated.contains(value);
  };
  for (Operation *op : program.getForward()) {
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
    // Its sources are kept where they are smaller.
    bool canRepeat =
        mayRepeat(op) && (missing.empty() || missingBytes < neededBytes);
    if (canRepeat)
      kept.insert_range(missing);
    for (Value result : op->getResults()) {
      if (!program.isActivation(result) || kept.contains(result))
        continue;
      if (needed.contains(result) && (!canRepeat || getBytes(result) <= small))
        kept.insert(result);
      else if (canRepeat)
        repeated.insert(result);
    }
  }
}

ValueSet Recomputation::select(RecomputePolicy policy) const {
  return policy == Policy::None ? ValueSet() : PolicyChoice(*this, policy).run();
}
