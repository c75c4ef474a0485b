//===- RecomputeChoiceTest.cpp - What to recompute within a budget --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Planning/RecomputeChoice.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace mlir::optimus;

namespace {

constexpr int kLayers = 4;
constexpr int64_t kStream = 10, kCheap = 40, kDear = 40;

/// A stack of layers. Each layer makes a value from the stream x in 1 s, a
/// second value from the first one in 8 s, and the next x from both. The
/// backward uses all of them, the last layer first.
struct Stack {
  Stack() {
    unsigned x = addValue(0);
    for (int layer = 0; layer < kLayers; ++layer) {
      stream.push_back(x);
      cheap.push_back(addOp(1, {x}, kCheap));
      dear.push_back(addOp(8, {cheap.back()}, kDear));
      x = addOp(2, {x, dear.back()}, kStream);
    }
    program.numForward = program.ops.size();
    unsigned gradient = addOp(1, {x}, kStream);
    for (int layer = kLayers; layer-- > 0;)
      gradient = addOp(1, {gradient, dear[layer], cheap[layer], stream[layer]},
                       kStream);
    for (unsigned op = 0; op < program.numForward; ++op)
      program.ops[op].isRepeatable = true;
  }

  unsigned addValue(int64_t bytes) {
    program.bytes.push_back(bytes);
    return program.bytes.size() - 1;
  }

  unsigned addOp(double seconds, std::vector<unsigned> operands,
                 int64_t bytes) {
    unsigned result = addValue(bytes);
    program.ops.push_back({seconds, std::move(operands), {result}, {}});
    return result;
  }

  RepeatedValues none() const { return RepeatedValues(program.bytes.size()); }
  RecomputeCost cost(const RepeatedValues &repeated) const {
    return getCost(program, {repeated});
  }
  RecomputeCost cost(const ValueChoice &choice) const {
    return getCost(program, choice);
  }

  RecomputeProgram program;
  std::vector<unsigned> stream, cheap, dear;
};

// The peak is at the last layer's backward: the gradient of its stream is
// there, another one is made, and all kept values are alive.
constexpr int64_t kAll =
    kLayers * (kCheap + kDear) + (kLayers - 1) * kStream + 2 * kStream;

TEST(RecomputeChoice, CountsWhatIsAlive) {
  Stack stack;
  EXPECT_EQ(stack.cost(stack.none()).peakBytes, kAll);
  EXPECT_EQ(stack.cost(stack.none()).seconds, 0);
  RepeatedValues first = stack.none();
  first[stack.cheap[0]] = true;
  EXPECT_EQ(stack.cost(first).peakBytes, kAll - kCheap);
  EXPECT_EQ(stack.cost(first).seconds, 1);
  // What the backward needs first is there at the peak whether kept or not.
  RepeatedValues last = stack.none();
  last[stack.cheap[kLayers - 1]] = true;
  EXPECT_EQ(stack.cost(last).peakBytes, kAll);
}

TEST(RecomputeChoice, CountsAPlaceThatIsTakenOverOnce) {
  Stack stack;
  // Each gradient lies where what it is made from did.
  for (size_t i = stack.program.numForward; i < stack.program.ops.size(); ++i) {
    RecomputeProgram::Op &op = stack.program.ops[i];
    op.places = {{op.results.front(), op.operands.front()}};
  }
  EXPECT_EQ(stack.cost(stack.none()).peakBytes, kAll - kStream);
}

TEST(RecomputeChoice, KeepsAllWhereThatFits) {
  Stack stack;
  auto chosen = chooseValues(stack.program, kAll, {stack.none()});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->repeated, stack.none());
  // From any start.
  RepeatedValues all = stack.none();
  for (unsigned op = 0; op < stack.program.numForward; ++op)
    all[stack.program.ops[op].results.front()] = true;
  chosen = chooseValues(stack.program, kAll, {all});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(stack.cost(*chosen).seconds, 0);
}

TEST(RecomputeChoice, TakesTheCheapFirst) {
  Stack stack;
  auto chosen = chooseValues(stack.program, kAll - 2 * kCheap, {stack.none()});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(stack.cost(*chosen).seconds, 2);
  EXPECT_TRUE(chosen->repeated[stack.cheap[0]]);
  EXPECT_TRUE(chosen->repeated[stack.cheap[1]]);
}

TEST(RecomputeChoice, RecomputesWhatIsMadeFromWhatIsRecomputed) {
  Stack stack;
  // Of all but the last layer, whose values the peak needs, only the streams.
  int64_t least = kAll - (kLayers - 1) * (kCheap + kDear);
  auto chosen = chooseValues(stack.program, least, {stack.none()});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(stack.cost(*chosen).peakBytes, least);
  EXPECT_EQ(stack.cost(*chosen).seconds, (kLayers - 1) * 9);
  EXPECT_FALSE(chosen->repeated[stack.dear[kLayers - 1]]);
}

TEST(RecomputeChoice, SaysWhereThereIsNoWay) {
  Stack stack;
  EXPECT_FALSE(chooseValues(stack.program, kCheap + kDear, {stack.none()}));
  for (RecomputeProgram::Op &op : stack.program.ops)
    op.isRepeatable = false;
  EXPECT_FALSE(chooseValues(stack.program, kAll - 1, {stack.none()}));
}

TEST(RecomputeChoice, KeepsAsMuchOfEqualLayersTogether) {
  Stack stack, alike;
  for (unsigned op = 0; op < alike.program.numForward; ++op)
    alike.program.ops[op].kind = op % 3;
  for (int64_t budget = kAll; budget > 130; budget -= 5) {
    RepeatedValues all = stack.none();
    for (unsigned op = 0; op < stack.program.numForward; ++op)
      all[stack.program.ops[op].results.front()] = true;
    auto apart = chooseValues(stack.program, budget, {all});
    auto together = chooseValues(alike.program, budget, {all});
    ASSERT_EQ(bool(apart), bool(together));
    if (apart)
      EXPECT_EQ(apart->repeated, together->repeated);
  }
}

TEST(RecomputeChoice, KeepsStatistics) {
  Stack stack;
  stack.program.statistics = stack.none();
  for (unsigned value : stack.cheap)
    stack.program.statistics[value] = true;
  auto chosen = chooseValues(stack.program, kAll - kDear, {stack.none()});
  ASSERT_TRUE(chosen);
  EXPECT_TRUE(chosen->repeated[stack.dear[0]]);
  for (unsigned value : stack.cheap)
    EXPECT_FALSE(chosen->repeated[value]);
}

TEST(RecomputeChoice, RefetchesWhatOnlyClonesNeed) {
  // Each dear operation has a gathered weight, which the backward does not use.
  constexpr int64_t weight = 1000;
  auto build = [&](bool isRefetched) {
    Stack stack;
    Stack with;
    with.program.ops.clear();
    with.program.refetched.assign(with.program.bytes.size(), false);
    for (unsigned op = 0; op < stack.program.ops.size(); ++op) {
      if (op < stack.program.numForward && op % 3 == 1) {
        unsigned gathered = with.addOp(1, {}, weight);
        with.program.refetched.push_back(isRefetched);
        with.program.ops.push_back(stack.program.ops[op]);
        with.program.ops.back().operands.push_back(gathered);
      } else {
        with.program.ops.push_back(stack.program.ops[op]);
      }
    }
    with.program.numForward += kLayers;
    return with;
  };
  for (bool isRefetched : {false, true}) {
    Stack stack = build(isRefetched);
    RepeatedValues repeated = stack.none();
    for (unsigned value : stack.dear)
      repeated[value] = true;
    // One at a time, or all from the forward to the backward.
    int64_t peak = stack.cost(repeated).peakBytes;
    EXPECT_EQ(peak > kLayers * weight, !isRefetched);
    EXPECT_LT(peak, isRefetched ? 2 * weight : (kLayers + 1) * weight);
  }
}

/// Layers whose values are worth a copy.
Stack makeLarge(double rate) {
  Stack stack;
  for (int64_t &bytes : stack.program.bytes)
    bytes *= 1000;
  stack.program.storeRate = stack.program.fetchRate = rate;
  return stack;
}

TEST(RecomputeChoice, OffloadsWhatCopiesHide) {
  // A second of computation hides all copies.
  Stack stack = makeLarge(1e9);
  constexpr int64_t budget = 1000 * (kAll - kCheap - kDear);
  auto chosen = chooseValues(stack.program, budget, {stack.none()});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->repeated, stack.none());
  EXPECT_EQ(stack.cost(*chosen).seconds, 0);
  EXPECT_LE(stack.cost(*chosen).peakBytes, budget);
  EXPECT_TRUE(chosen->offloaded[stack.cheap[0]]);
}

TEST(RecomputeChoice, RecomputesWhatTakesLongerToFetch) {
  // The backward computes for a second a layer; a copy takes 400.
  Stack stack = makeLarge(100);
  constexpr int64_t budget = 1000 * (kAll - 2 * kCheap);
  auto chosen = chooseValues(stack.program, budget, {stack.none()});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(stack.cost(*chosen).seconds, 2);
  EXPECT_TRUE(chosen->repeated[stack.cheap[0]]);
  EXPECT_EQ(chosen->offloaded, stack.none());
}

TEST(RecomputeChoice, OffloadsUntilCopiesWouldBeWaitedFor) {
  // In 0.8 of the backward's 5 s one value is fetched; the forward hides more.
  Stack stack = makeLarge(1.1 * 1000 * kCheap / 4.0);
  constexpr int64_t budget = 1000 * (kAll - 2 * kCheap);
  auto chosen = chooseValues(stack.program, budget, {stack.none()});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(
      std::count(chosen->offloaded.begin(), chosen->offloaded.end(), true), 1);
  EXPECT_EQ(std::count(chosen->repeated.begin(), chosen->repeated.end(), true),
            1);
  EXPECT_EQ(stack.cost(*chosen).seconds, 1);
}

TEST(RecomputeChoice, CountsWhatACopyTakesHoweverSmall) {
  // In 0.8 of the backward's 5 s one value is fetched.
  Stack stack = makeLarge(1e9);
  stack.program.copySeconds = 3;
  ValueChoice choice{stack.none(), stack.none()};
  choice.offloaded[stack.cheap[0]] = true;
  EXPECT_EQ(stack.cost(choice).seconds, 0);
  choice.offloaded[stack.cheap[1]] = true;
  EXPECT_NEAR(stack.cost(choice).seconds, 2, 0.01);
}

TEST(RecomputeChoice, GoesAsLowAsItCan) {
  Stack stack;
  int64_t least = kAll;
  for (int64_t budget = kAll; budget > 0; budget -= 5)
    if (auto chosen = chooseValues(stack.program, budget, {stack.none()}))
      least = stack.cost(*chosen).peakBytes;
  ValueChoice chosen = chooseLeast(stack.program, {stack.none()});
  EXPECT_LE(stack.cost(chosen).peakBytes, least);
  // Where nothing may be chosen, it is the start.
  for (RecomputeProgram::Op &op : stack.program.ops)
    op.isRepeatable = false;
  EXPECT_EQ(chooseLeast(stack.program, {stack.none()}).repeated, stack.none());
}

TEST(RecomputeChoice, NeverExceedsTheBudget) {
  Stack stack;
  int found = 0;
  for (int64_t budget = kAll; budget > 0; budget -= 5)
    if (auto chosen = chooseValues(stack.program, budget, {stack.none()})) {
      EXPECT_LE(stack.cost(*chosen).peakBytes, budget);
      ++found;
    }
  // Down to the streams and one layer.
  EXPECT_GE(found, (kAll - 130) / 5);
}

} // namespace
