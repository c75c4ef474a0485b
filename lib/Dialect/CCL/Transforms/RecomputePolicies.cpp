//===- RecomputePolicies.cpp - What policies recompute ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where one activation alone leads on, but for statistics of rows, the forward
// has a cut: everything after it follows from that value and the parameters.
// Between the blocks of a transformer, the residual stream is a cut. The policy
// decides on the operations to run twice and the cuts to keep. Of a GPT-2 on
// row:2,col:2:
//
//   forward                                    `layer`
//   e  = embedding(tokens)    [b/2, s, h]      (partial sums, of full width)
//   x0 = reduce_scatter(e)    [b/2, s, h/2]    kept: e and x0 are one cut
//   m, r = moments of x0's rows                kept: statistics
//   y  = normalize(x0, m, r)                   recomputed
//   q  = y · W                                 recomputed
//   o, lse = attention(q)                      recomputed, both: o needs it
//   x1 = x0 + o · V                            recomputed: half a layer
//   x2 = x1 + mlp(x1)                          kept: a layer
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/Transforms/Recomputation.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/OptimusInterfaces.h"

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

/// Recomputable statistics of rows are kept up to such a part of the kept cuts'
/// bytes.
static constexpr int64_t kStatisticsPart = 8;

/// Cuts within layers are kept where the estimated peak is less by such a part.
static constexpr int64_t kWithinLayer = 4;

static int64_t getBytes(Value value) {
  return optimus::getBytes(value.getType());
}

static bool isStatistic(OpResult result) {
  auto op = dyn_cast<optimus::RowReductionOpInterface>(result.getOwner());
  return op &&
         llvm::is_contained(op.getRowStatistics(), result.getResultNumber());
}

namespace {
/// Applies a policy to one function.
class PolicyChoice {
public:
  PolicyChoice(const Recomputation &program, Policy policy, size_t layersPerCut)
      : program(program), policy(policy), layersPerCut(layersPerCut) {}

  ValueSet run() {
    findNeeded();
    findCuts();
    keepCuts();
    decide();
    keepStatistics();
    return std::move(repeated);
  }

private:
  void findNeeded();
  void findCuts();
  /// How many cuts a layer has: after so many the operations are the same
  /// again. 1 where nothing repeats.
  size_t findPeriod() const;
  /// Every `stride`-th cut from the first on.
  SmallVector<Value> selectCuts(size_t stride) const;
  /// What lives at most when these cuts are kept: they, and what the backward
  /// needs of the forward between two of them.
  int64_t estimatePeak(ArrayRef<Value> selected) const;
  void keepCuts();
  void decide();
  /// Statistics of rows are kept, as far as they are little, where something
  /// would run again for them alone.
  void keepStatistics();
  /// True if an operation may run twice.
  bool mayRepeat(Operation *op) const;

  int64_t getPosition(Value value) const {
    return program.getPosition(value.getDefiningOp());
  }

  const Recomputation &program;
  Policy policy;
  /// 0 where that is to be found.
  size_t layersPerCut;
  /// Values of the forward that the backward uses.
  llvm::SetVector<Value> needed;
  /// Values from which, with parameters, all of the forward after them follows,
  /// in order, with products between them.
  SmallVector<Value> cuts;
  /// Of the cuts that are kept.
  int64_t cutBytes = 0;
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
  Value alone;
  bool hasProduct = true;
  for (Operation *op : program.getForward()) {
    int64_t here = program.getPosition(op);
    hasProduct |= op->hasTrait<optimus::MovesInPanels>();
    live.remove_if([&](Value value) { return lastUse.lookup(value) <= here; });
    // Statistics, as lengths of sequences, may lead past any number of cuts.
    for (OpResult result : op->getResults())
      if (lastUse.lookup(result) > here && !isStatistic(result))
        live.insert(result);
    if (live.size() != 1 || live.front() == alone)
      continue;
    alone = live.front();
    // Of the values that follow from each other without a product, the smallest
    // is the cut: an embedding's partial sums, their reduce-scattered part and
    // its sum with positions; or a sum and its norm. Of equal ones it is the
    // first: the others take no product from there.
    if (hasProduct)
      cuts.push_back(alone);
    else if (getBytes(alone) < getBytes(cuts.back()))
      cuts.back() = alone;
    hasProduct = false;
  }
}

size_t PolicyChoice::findPeriod() const {
  // What leads from each cut to the next one.
  SmallVector<SmallVector<Operation *>> segments(
      std::max<size_t>(cuts.size(), 1) - 1);
  for (Operation *op : program.getForward()) {
    if (llvm::none_of(op->getResults(), [&](Value result) {
          return program.isActivation(result);
        }))
      continue;
    const Value *end = llvm::lower_bound(
        cuts, program.getPosition(op),
        [&](Value cut, int64_t at) { return getPosition(cut) < at; });
    if (end != cuts.begin() && end != cuts.end())
      segments[end - cuts.begin() - 1].push_back(op);
  }
  auto areAlike = [](Operation *a, Operation *b) {
    return a->getName() == b->getName() &&
           a->getResultTypes() == b->getResultTypes();
  };
  // The first one has the end of the embedding, too, and the last one may have
  // what the head begins with.
  for (size_t period = 1; 2 * period <= segments.size(); ++period) {
    auto compared = ArrayRef(segments).drop_front(period + 1);
    if (compared.size() > 1)
      compared = compared.drop_back();
    auto before = ArrayRef(segments).drop_front(1);
    if (llvm::all_of(llvm::zip_first(compared, before), [&](auto pair) {
          return llvm::equal(std::get<0>(pair), std::get<1>(pair), areAlike);
        }))
      return period;
  }
  return 1;
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
  // Where nothing but what is cheap runs twice, no cut can be recomputed.
  const size_t layer = policy == Policy::Layer ? findPeriod() : 1;
  const size_t first = layer * std::max<size_t>(layersPerCut, 1);
  SmallVector<Value> best = selectCuts(first);
  int64_t leastPeak = estimatePeak(best);
  auto take = [&](size_t stride, int64_t most) {
    SmallVector<Value> selected = selectCuts(stride);
    if (int64_t peak = estimatePeak(selected); peak < most) {
      best = std::move(selected);
      leastPeak = peak;
    }
  };
  const bool isOpen = policy == Policy::Layer && layersPerCut == 0;
  for (size_t stride = 2 * layer; isOpen && stride < cuts.size();
       stride += layer)
    take(stride, leastPeak);
  // What one layer needs is most of it where there are two of them.
  for (size_t stride = 1; isOpen && stride < layer; ++stride)
    take(stride, leastPeak / kWithinLayer * (kWithinLayer - 1));
  for (Value cut : best)
    cutBytes += getBytes(cut);
  kept.insert_range(best);
}

bool PolicyChoice::mayRepeat(Operation *op) const {
  return program.isRepeatable(op) &&
         (policy == Policy::Layer ||
          (isMemoryEffectFree(op) && !optimus::isProduct(op)));
}

void PolicyChoice::decide() {
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
      if (canRepeat)
        repeated.insert(result);
      else if (needed.contains(result))
        kept.insert(result);
    }
  }
}

void PolicyChoice::keepStatistics() {
  // From the end: the needs of the backward, and of the operations run again
  // for it.
  ValueSet wanted;
  auto addWanted = [&](ValueRange values) {
    for (Value value : values)
      if (repeated.contains(value))
        wanted.insert(value);
  };
  for (Operation *op : program.getBackward())
    addWanted(op->getOperands());
  struct Statistics {
    SmallVector<OpResult> results;
    int64_t bytes = 0;
  };
  std::vector<Statistics> found;
  for (Operation *op : llvm::reverse(program.getForward())) {
    Statistics all;
    all.results =
        llvm::filter_to_vector(op->getResults(), [&](OpResult result) {
          return wanted.contains(result);
        });
    if (all.results.empty())
      continue;
    if (!llvm::all_of(all.results, isStatistic)) {
      addWanted(op->getOperands());
      continue;
    }
    for (OpResult result : all.results)
      all.bytes += getBytes(result);
    found.push_back(std::move(all));
  }
  // Equally large ones are kept together or not at all, so that layers stay
  // alike.
  llvm::stable_sort(found, [](const Statistics &a, const Statistics &b) {
    return a.bytes < b.bytes;
  });
  int64_t left = cutBytes / kStatisticsPart;
  for (auto begin = found.begin(); begin != found.end();) {
    auto end = std::find_if(begin, found.end(), [&](const Statistics &other) {
      return other.bytes != begin->bytes;
    });
    left -= (end - begin) * begin->bytes;
    if (left < 0)
      return;
    for (; begin != end; ++begin)
      for (OpResult result : begin->results)
        repeated.erase(result);
  }
}

ValueSet Recomputation::select(RecomputePolicy policy,
                               size_t layersPerCut) const {
  return policy == Policy::None
             ? ValueSet()
             : PolicyChoice(*this, policy, layersPerCut).run();
}
