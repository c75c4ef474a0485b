//===- SessionLanes.cpp - Several runs of a program side by side ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A processor is best used where each of its threads has lanes of its own: no
// thread waits for another one before the call ends. So the only rank of a
// program with lanes is several LocalRanks, each with a part of the threads,
// and with an arena for its lanes, which it runs one after the other.
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"
#include "PlannedMemory.h"
#include "optimus-runtime/RankTeam.h"

#include <algorithm>

namespace optrt {

Status Session::checkLanes(const SessionOptions &options) const {
  const int64_t most = library.target().tables.front()->lanes;
  if (options.lanes < 1 || options.lanes > most)
    return invalidArgument(
        concat("expected 1 to ", most, most == 1 ? " lane" : " lanes", ", as `",
               library.path(), "` was compiled, found ", options.lanes,
               "; optimus-compile --lanes ", options.lanes, " makes as many"));
  if (options.lanes == 1)
    return okStatus();
  if (options.observe)
    return invalidArgument(concat("expected nobody to observe commands of ",
                                  options.lanes,
                                  " lanes; profile a run of one lane"));
  if (options.placement == Placement::Dynamic)
    return invalidArgument(concat("expected planned placement of ",
                                  options.lanes,
                                  " lanes, found dynamic placement"));
  return okStatus();
}

void Session::placeLanes() {
  if (lanes.size() == 1) {
    for (const std::unique_ptr<LocalRank> &rank : ranks)
      rank->lanes = {0};
    lanes[0] = {0, 0};
    return;
  }
  for (RankPlan &plan : plans)
    plan.memory = ofLanes(plan.memory, std::ssize(lanes), std::ssize(ranks));
  for (std::size_t lane = 0; lane != lanes.size(); ++lane) {
    const std::size_t rank = lane % ranks.size();
    lanes[lane] = {rank, std::ssize(ranks[rank]->lanes)};
    ranks[rank]->lanes.push_back(static_cast<int64_t>(lane));
  }
}

std::span<const std::unique_ptr<Session::LocalRank>>
Session::ranksOfLane() const {
  return lanes.size() == 1
             ? std::span(ranks)
             : std::span(ranks).subspan(lanes[chosenLane]->rank, 1);
}

Status Session::onRanks(const std::function<Status(LocalRank &rank)> &body) {
  const auto chosen = ranksOfLane();
  return team->run([&](int i) {
    const bool isChosen =
        &ranks[i] >= chosen.data() && &ranks[i] < chosen.data() + chosen.size();
    return isChosen ? body(*ranks[i]) : okStatus();
  });
}

void Session::chooseLane(int64_t lane) {
  chosenLane = lane;
  if (lanes.size() > 1)
    ranks[lanes[lane]->rank]->buffers.chooseLane(lanes[lane]->place);
}

Status Session::moveLane(int64_t lane, LanePlace to) {
  const LanePlace from = *std::exchange(lanes[lane], to);
  RankBuffers &buffers = ranks[from.rank]->buffers;
  buffers.chooseLane(from.place);
  ranks[from.rank]->lanes.pop_back();
  ranks[to.rank]->lanes.resize(
      std::max<std::size_t>(ranks[to.rank]->lanes.size(), to.place + 1));
  ranks[to.rank]->lanes[to.place] = lane;
  return buffers.copyLane(ranks[to.rank]->buffers, to.place);
}

Status Session::endLane(int64_t lane) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a lane was ended"));
  const LanePlace place = *std::exchange(lanes[lane], std::nullopt);
  LocalRank &rank = *ranks[place.rank];
  if (rank.lanes.back() == lane)
    rank.lanes.pop_back();
  else
    OPTRT_RETURN_IF_ERROR(moveLane(rank.lanes.back(), place));
  // No part of the threads has nothing to do while another has two.
  const auto busiest = std::ranges::max_element(
      ranks, {}, [](const auto &one) { return one->lanes.size(); });
  if ((*busiest)->lanes.size() >= rank.lanes.size() + 2)
    OPTRT_RETURN_IF_ERROR(moveLane((*busiest)->lanes.back(),
                                   {place.rank, std::ssize(rank.lanes)}));
  const auto left = std::ranges::find_if(
      lanes, [](const auto &one) { return one.has_value(); });
  if (left != lanes.end())
    chooseLane(left - lanes.begin());
  return okStatus();
}

} // namespace optrt
