//===- Folding.cpp - Ranks that do the same at the same time ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Folding.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace optimus_support::program;

namespace optimus_simulation {

/// Numbers values in the order in which they are first met.
template <typename T>
class Numbers {
public:
  uint32_t operator()(const T &value) {
    return known.try_emplace(value, uint32_t(known.size())).first->second;
  }
  size_t size() const { return known.size(); }

private:
  std::map<T, uint32_t> known;
};

Folding::Folding(const TimedProgram &program, const WhatIf &whatIf, bool fold)
    : isFolded(fold), factors(program.getMesh().numRanks(), 1) {
  for (const Straggler &one : whatIf.stragglers)
    factors[one.rank] *= one.factor;
  for (const std::vector<uint32_t> &axes : program.getAxes())
    for (auto &list = lowest.emplace_back(); list.size() != factors.size();)
      list.push_back(static_cast<uint32_t>(
          program.getMesh().firstOfGroup(int64_t(list.size()), axes)));
  colour(program);
  if (isFolded)
    groupFolded();
  else
    groupUnfolded(program);
}

/// The colours of each group's members, sorted, by its lowest rank.
static std::vector<std::vector<uint32_t>>
listColours(const std::vector<uint32_t> &lowest,
            const std::vector<uint32_t> &colours) {
  std::vector<std::vector<uint32_t>> lists(lowest.size());
  for (size_t rank = 0; rank != lowest.size(); ++rank)
    lists[lowest[rank]].push_back(colours[rank]);
  for (std::vector<uint32_t> &list : lists)
    std::sort(list.begin(), list.end());
  return lists;
}

/// Begins with tables and speeds, and tells ranks apart by their neighbours
/// until none are told apart any more.
void Folding::colour(const TimedProgram &program) {
  Numbers<std::pair<const ProgramTableT *, double>> first;
  for (size_t rank = 0; rank != factors.size(); ++rank)
    colours.push_back(
        first({&tableOf(program.getTarget(), int64_t(rank)), factors[rank]}));
  for (size_t count = first.size(), before = 0; count != before;) {
    before = count;
    std::vector<std::vector<uint32_t>> kinds;
    for (const std::vector<uint32_t> &groupOf : lowest) {
      Numbers<std::vector<uint32_t>> numbers;
      const auto lists = listColours(groupOf, colours);
      for (auto &kind = kinds.emplace_back(); kind.size() != factors.size();)
        kind.push_back(numbers(lists[groupOf[kind.size()]]));
    }
    Numbers<std::vector<uint32_t>> next;
    std::vector<uint32_t> finer;
    for (size_t rank = 0; rank != factors.size(); ++rank) {
      std::vector<uint32_t> key{colours[rank]};
      for (const std::vector<uint32_t> &kind : kinds)
        key.push_back(kind[rank]);
      finer.push_back(next(key));
    }
    colours = std::move(finer);
    count = next.size();
  }
}

/// Groups of the same colours are one.
void Folding::groupFolded() {
  for (size_t rank = 0; rank != colours.size(); ++rank)
    if (colours[rank] == actors.size())
      actors.push_back(int64_t(rank));
  for (const std::vector<uint32_t> &groupOf : lowest) {
    Numbers<std::vector<uint32_t>> numbers;
    const auto lists = listColours(groupOf, colours);
    auto &group = groups.emplace_back();
    auto &size = sizes.emplace_back();
    for (size_t rank = 0; rank != colours.size(); ++rank) {
      std::vector<uint32_t> list = lists[groupOf[rank]];
      group.push_back(numbers(list));
      list.erase(std::unique(list.begin(), list.end()), list.end());
      size.resize(numbers.size());
      size[group.back()] = static_cast<uint32_t>(list.size());
    }
  }
}

void Folding::groupUnfolded(const TimedProgram &program) {
  actors.resize(colours.size());
  std::iota(actors.begin(), actors.end(), 0);
  groups = lowest;
  for (const std::vector<uint32_t> &axes : program.getAxes()) {
    int64_t members = 1;
    for (uint32_t axis : axes)
      members *= program.getMesh().axisSize(int(axis));
    sizes.emplace_back(colours.size(), uint32_t(members));
  }
}

} // namespace optimus_simulation
