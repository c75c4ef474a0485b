//===- CollectivePlan.cpp - A collective as steps of its members ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/CollectivePlan.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace optimus_support {
namespace {

using program::CollectiveKind;
using View = PlanView;
using Step = PlanStep;
constexpr int kNone = PlanStep::kNone;

class Planner {
public:
  Planner(const CollectiveShape &shape, int root, int index, int size,
          CollectiveRoute route, CollectivePlan former)
      : shape(shape), root(root), index(index), size(size), route(route) {
    former.steps.clear();
    former.terms.clear();
    former.after.clear();
    plan.steps.swap(former.steps);
    plan.terms.swap(former.terms);
    plan.after.swap(former.after);
  }

  CollectivePlan makeMessage(bool isSender, int peer) {
    if (isSender)
      send(peer, {View::Source}, shape.count());
    else
      receive(peer, {View::Destination}, shape.count());
    return std::move(plan);
  }

  CollectivePlan make() {
    if (shape.count() == 0)
      return plan;
    plan.steps.reserve(4 * size);
    plan.after.reserve(4 * size);
    if (size == 1)
      copy({View::Source}, {View::Destination}, shape.count());
    else if (shape.kind == CollectiveKind::Broadcast)
      broadcast();
    else if (shape.kind == CollectiveKind::AllGather)
      allGather();
    else if (shape.kind == CollectiveKind::AllToAll)
      allToAll();
    else if (route == CollectiveRoute::Chain)
      reduceAlongChain();
    else
      reduce();
    return std::move(plan);
  }

private:
  /// Elements of a block with which a member has to do.
  struct Part {
    int64_t begin, count;
    View in(View::Place place) const { return {place, 0, begin}; }
  };
  Part partOf(int member) const {
    const int64_t begin = shape.count() * member / size;
    return {begin, shape.count() * (member + 1) / size - begin};
  }

  /// Adds a step that follows those given; none for no elements.
  int add(Step step, std::span<const int> after) {
    if (step.count == 0)
      return kNone;
    step.afterBegin = static_cast<int>(plan.after.size());
    std::copy_if(after.begin(), after.end(), std::back_inserter(plan.after),
                 [](int before) { return before != kNone; });
    step.afterEnd = static_cast<int>(plan.after.size());
    plan.steps.push_back(step);
    return static_cast<int>(plan.steps.size()) - 1;
  }
  int copy(View from, View to, int64_t count, int after = kNone) {
    return add({Step::Copy, 0, kNone, count, from, to}, {&after, 1});
  }
  View makeRing(int64_t count) {
    plan.longestPassing = std::max(plan.longestPassing, count);
    return {View::Passing, 0, plan.rings++};
  }

  // What does not lie together goes through a ring.
  int send(int peer, View from, int64_t count, int after = kNone,
           uint8_t channel = 0) {
    if (count != 0 && !shape.isTogether(from)) {
      const View ring = makeRing(count);
      after = copy(from, ring, count, after);
      from = ring;
      plan.steps[after].release = after + 1;
    }
    return add({Step::Send, channel, peer, count, from, {}}, {&after, 1});
  }
  int receive(int peer, View to, int64_t count, int after = kNone,
              uint8_t channel = 0) {
    const Step step{Step::Receive, channel, peer, count, {}, to};
    if (count == 0 || shape.isTogether(to))
      return add(step, {&after, 1});
    const View ring = makeRing(count);
    after = add({Step::Receive, channel, peer, count, {}, ring}, {&after, 1});
    plan.steps[after].release = after + 1;
    return copy(ring, to, count, after);
  }

  /// Elements for several others, and the step after which they are there.
  struct Given {
    View view;
    int ready = kNone;
  };
  Given give(View view, int64_t count, int after = kNone) {
    if (shape.isTogether(view))
      return {view, after};
    plan.own = count;
    return {{View::Own}, copy(view, {View::Own}, count, after)};
  }

  /// The ith peer to send to and to receive from: each member begins with
  /// another one, so that no link has all at once.
  int receiver(int i) const { return (index + i) % size; }
  int sender(int i) const { return (index + size - i) % size; }

  void allGather() {
    auto block = [&](int member) {
      return View{View::Destination, member * shape.inner};
    };
    copy({View::Source}, block(index), shape.count());
    const Given own = give({View::Source}, shape.count());
    for (int i = 1; i != size; ++i) {
      send(receiver(i), own.view, shape.count(), own.ready);
      receive(sender(i), block(sender(i)), shape.count());
    }
  }

  void allToAll() {
    auto block = [&](View::Place place, int member) {
      return View{place, member * shape.inner};
    };
    copy(block(View::Source, index), block(View::Destination, index),
         shape.count());
    for (int i = 1; i != size; ++i) {
      send(receiver(i), block(View::Source, receiver(i)), shape.count());
      receive(sender(i), block(View::Destination, sender(i)), shape.count());
    }
  }

  void broadcast() {
    const int64_t count = shape.count();
    const bool isRoot = index == root,
               hasParts = route == CollectiveRoute::Parts;
    const View::Place place = isRoot ? View::Source : View::Destination;
    if (isRoot)
      copy({View::Source}, {View::Destination}, count);
    if (route == CollectiveRoute::Chain) {
      const int ready = isRoot ? kNone : receive(sender(1), {place}, count);
      if (receiver(1) != root)
        send(receiver(1), {place}, count, ready);
      return;
    }
    // Each member gets its part and hands it on; the root gives its own to all.
    const Part mine = hasParts ? partOf(index) : Part{0, count};
    for (int i = 1; i != size && isRoot && hasParts; ++i) {
      const Part part = partOf(receiver(i));
      send(receiver(i), part.in(place), part.count);
    }
    const int ready =
        isRoot ? kNone : receive(root, mine.in(place), mine.count);
    if (!isRoot && !hasParts)
      return;
    const Given own = give(mine.in(place), mine.count, ready);
    for (int i = 1; i != size; ++i) {
      if (receiver(i) != root)
        send(receiver(i), own.view, mine.count, own.ready, hasParts);
      const Part part = partOf(sender(i));
      if (!isRoot)
        receive(sender(i), part.in(place), part.count, kNone, 1);
    }
  }

  /// Sums go from member 0 to the last, and from there to the root.
  void reduceAlongChain() {
    const int64_t count = shape.count();
    const int last = size - 1;
    int ready; // when this member's own term may be overwritten
    if (index == 0) {
      ready = send(1, {View::Source}, count);
    } else {
      const View before = makeRing(count);
      const bool ends = index == last && root == last;
      const View sum = ends ? View{View::Destination} : before;
      const int come = receive(index - 1, before, count);
      plan.terms = {before, {View::Source}};
      ready = add({Step::Add, 0, kNone, count, {}, sum}, {&come, 1});
      plan.steps[come].release = ends ? ready
                                 : index == last
                                     ? send(root, sum, count, ready, 1)
                                     : send(index + 1, sum, count, ready);
    }
    if (index == root && root != last)
      receive(last, {View::Destination}, count, ready, 1);
  }

  /// Each member reduces its own block or part, or the whole if it wants that.
  void reduce() {
    const bool scatters = shape.kind == CollectiveKind::ReduceScatter;
    const bool isDirect = !scatters && route == CollectiveRoute::Direct;
    auto wants = [&](int member) {
      return shape.kind != CollectiveKind::Reduce || member == root;
    };
    auto reducedBy = [&](int member) {
      return !scatters && !isDirect
                 ? partOf(member)
                 : Part{0, wants(member) ? shape.count() : 0};
    };
    auto termFor = [&](int member) {
      return View{View::Source, scatters ? member * shape.inner : 0,
                  reducedBy(member).begin};
    };
    const Part mine = reducedBy(index);
    auto slotOf = [&](int member) {
      return View{View::Slots, 0, (member - (member > index)) * mine.count};
    };
    plan.slots = (size - 1) * mine.count;
    std::vector<int> sends(size, kNone), before;
    before.reserve(2 * size);
    for (int i = 1; i != size; ++i) {
      const int to = receiver(i), from = sender(i);
      sends[to] = send(to, termFor(to), reducedBy(to).count);
      before.push_back(receive(from, slotOf(from), mine.count));
      // In place, the sum is written over what is sent.
      if (isDirect)
        before.push_back(sends[to]);
    }
    for (int member = 0; member != size; ++member)
      plan.terms.push_back(member == index ? termFor(index) : slotOf(member));
    View sum = mine.in(View::Destination);
    if (!wants(index)) {
      plan.own = mine.count;
      sum = {View::Own};
    }
    const int ready = add({Step::Add, 0, kNone, mine.count, {}, sum}, before);
    if (scatters || isDirect)
      return;
    const Given own = give(sum, mine.count, ready);
    for (int i = 1; i != size; ++i) {
      const int to = receiver(i), from = sender(i);
      const Part theirs = partOf(from);
      if (wants(to))
        send(to, own.view, mine.count, own.ready, 1);
      // In place, a part of the result takes the place of a part sent before.
      if (wants(index))
        receive(from, theirs.in(View::Destination), theirs.count, sends[from],
                1);
    }
  }

  const CollectiveShape shape;
  const int root, index, size;
  const CollectiveRoute route;
  CollectivePlan plan;
};

} // namespace

CollectivePlan planCollective(const CollectiveShape &shape, int root, int index,
                              int size, CollectiveRoute route,
                              CollectivePlan former) {
  return Planner(shape, root, index, size, route, std::move(former)).make();
}

CollectivePlan planMessage(const CollectiveShape &shape, bool isSender,
                           int peer, CollectivePlan former) {
  return Planner(shape, peer, /*index=*/0, /*size=*/2, CollectiveRoute::Direct,
                 std::move(former))
      .makeMessage(isSender, peer);
}

CollectiveRoom largestRoomOverTcp(const CollectiveShape &shape, int root,
                                  int size) {
  CollectiveRoom most{};
  // Others differ from the last in the length of their part, by one at most.
  for (int index : {root, size - 1, 0}) {
    const CollectiveRoom room =
        roomFor(planCollective(shape, root, index, size, shortestRoute(shape)),
                kWholeMessages);
    std::ranges::transform(most, room, most.begin(),
                           [](int64_t a, int64_t b) { return std::max(a, b); });
  }
  return most;
}

} // namespace optimus_support
