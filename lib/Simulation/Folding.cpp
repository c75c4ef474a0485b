//===- Folding.cpp - Ranks that do the same at the same time ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Folding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

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

Folding::Folding(const TimedProgram &program, const WhatIf &whatIf, bool fold,
                 Network *network)
    : isFolded(fold), network(network), factors(program.getMesh().numRanks()) {
  for (size_t rank = 0; rank != factors.size(); ++rank)
    factors[rank] = whatIf.getFactor(int64_t(rank));
  for (const std::vector<uint32_t> &axes : program.getAxes())
    for (auto &list = lowest.emplace_back(); list.size() != factors.size();)
      list.push_back(static_cast<uint32_t>(
          program.getMesh().firstOfGroup(int64_t(list.size()), axes)));
  colour(program);
  if (isFolded)
    groupFolded();
  else
    groupUnfolded(program);
  listStanding();
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

/// Begins with tables and speeds, and with the rates of links; tells ranks
/// apart by their neighbours, and links by what loads them, until none are told
/// apart any more.
void Folding::colour(const TimedProgram &program) {
  Numbers<std::tuple<const ProgramTableT *, int64_t, double>> first;
  for (size_t rank = 0; rank != factors.size(); ++rank)
    colours.push_back(
        first({&tableOf(program.getTarget(), int64_t(rank)),
               program.getVariant(int64_t(rank)), factors[rank]}));
  Numbers<std::pair<int, double>> firstLinks;
  for (uint32_t link = 0; network && link != network->getNumLinks(); ++link)
    linkColours.push_back(
        firstLinks({network->getKind(link), network->getCapacity(link)}));
  for (size_t count = first.size() + firstLinks.size(), before = 0;
       count != before;) {
    before = count;
    const Kinds kinds = findKinds();
    count = refineRanks(kinds) + refineLinks(kinds);
  }
}

/// A load as a number.
static uint64_t toUnits(const LinkLoad &load) {
  return static_cast<uint64_t>(std::llround(load.perByte / kLeastLoad));
}

/// Groups of a kind have members of the same colours, and load links of the
/// same colours alike.
Folding::Kinds Folding::findKinds() const {
  std::vector<std::vector<std::vector<std::pair<uint64_t, uint64_t>>>> keys;
  for (const std::vector<uint32_t> &groupOf : lowest) {
    auto &list = keys.emplace_back(groupOf.size());
    const auto members = listColours(groupOf, colours);
    for (size_t rank = 0; rank != members.size(); ++rank)
      for (uint32_t one : members[rank])
        list[rank].push_back({one, 0});
  }
  for (const Pattern &pattern :
       network ? network->getPatterns() : std::set<Pattern>())
    for (size_t rank = 0; rank != factors.size(); ++rank) {
      if (lowest[pattern.axes][rank] != rank)
        continue;
      std::vector<std::pair<uint64_t, uint64_t>> loads;
      for (const LinkLoad &load : network->getLoads(pattern, int64_t(rank)))
        loads.push_back({linkColours[load.link], toUnits(load)});
      std::sort(loads.begin(), loads.end());
      auto &key = keys[pattern.axes][rank];
      key.insert(key.end(), loads.begin(), loads.end());
    }
  Kinds kinds;
  for (size_t axes = 0; axes != lowest.size(); ++axes) {
    Numbers<std::vector<std::pair<uint64_t, uint64_t>>> numbers;
    auto &kind = kinds.emplace_back();
    // Of a group, the lowest rank comes first.
    for (size_t rank = 0; rank != factors.size(); ++rank)
      kind.push_back(lowest[axes][rank] == rank ? numbers(keys[axes][rank])
                                                : kind[lowest[axes][rank]]);
  }
  return kinds;
}

size_t Folding::refineRanks(const Kinds &kinds) {
  Numbers<std::vector<uint32_t>> next;
  for (size_t rank = 0; rank != factors.size(); ++rank) {
    std::vector<uint32_t> key{colours[rank]};
    for (const std::vector<uint32_t> &kind : kinds)
      key.push_back(kind[rank]);
    colours[rank] = next(key);
  }
  return next.size();
}

/// By the kinds of groups that load a link, and how much.
size_t Folding::refineLinks(const Kinds &kinds) {
  using Use = std::array<uint64_t, 3>;
  std::vector<std::vector<Use>> uses(linkColours.size());
  uint64_t number = 0;
  for (const Pattern &pattern :
       network ? network->getPatterns() : std::set<Pattern>()) {
    for (size_t rank = 0; rank != factors.size(); ++rank)
      if (lowest[pattern.axes][rank] == rank)
        for (const LinkLoad &load : network->getLoads(pattern, int64_t(rank)))
          uses[load.link].push_back(
              {number, kinds[pattern.axes][rank], toUnits(load)});
    ++number;
  }
  Numbers<std::pair<uint32_t, std::vector<Use>>> next;
  for (size_t link = 0; link != linkColours.size(); ++link) {
    std::sort(uses[link].begin(), uses[link].end());
    linkColours[link] = next({linkColours[link], std::move(uses[link])});
  }
  return next.size();
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

void Folding::listStanding() {
  for (size_t axes = 0; axes != lowest.size(); ++axes) {
    auto &list = standing.emplace_back();
    for (size_t rank = 0; rank != colours.size(); ++rank)
      if (lowest[axes][rank] == rank)
        list[groups[axes][rank]].push_back(int64_t(rank));
  }
}

} // namespace optimus_simulation
