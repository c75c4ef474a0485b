//===- SessionCounters.cpp - What ranks moved and hold --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace optrt {

StatusOr<std::vector<std::vector<Traffic>>> Session::countTraffic() {
  const Mesh &mesh = library.manifest().mesh;
  std::ostringstream own;
  for (const std::unique_ptr<LocalRank> &rank : ranks)
    for (const Traffic &traffic : rank->context.traffic)
      own << traffic.bytes << ' ' << traffic.messages << ' ';
  std::string all;
  for (const std::string &text : control.allGather(own.str()))
    all += text;
  std::istringstream numbers(all);
  std::vector<std::vector<Traffic>> total(plans.size(),
                                          std::vector<Traffic>(mesh.numAxes()));
  std::vector<int> first(plans.size(), -1);
  for (int rank = 0; rank != control.size(); ++rank) {
    const auto plan = static_cast<std::size_t>(&planOf(rank) - plans.data());
    for (int axis = 0; axis != mesh.numAxes(); ++axis) {
      Traffic one, &sum = total[plan][axis];
      numbers >> one.bytes >> one.messages;
      sum.bytes += one.bytes;
      if (first[plan] < 0)
        sum.messages = one.messages;
      if (one.messages != sum.messages)
        return internal(concat("rank ", rank, " started ", one.messages,
                               " collectives on mesh axis ",
                               mesh.axes()[axis].name, ", rank ", first[plan],
                               " started ", sum.messages));
    }
    if (first[plan] < 0)
      first[plan] = rank;
  }
  return total;
}

StatusOr<std::vector<Traffic>> Session::trafficOfLastRun() {
  OPTRT_ASSIGN_OR_RETURN(std::vector<std::vector<Traffic>> byPlan,
                         countTraffic());
  std::vector<Traffic> total = byPlan[&planOf(0) - plans.data()];
  for (const std::vector<Traffic> &one : byPlan)
    for (std::size_t axis = 0; axis != total.size(); ++axis)
      if (&one != &byPlan[&planOf(0) - plans.data()])
        total[axis].bytes += one[axis].bytes;
  return total;
}

SlowestRank Session::communicationTimeOfLastRun() {
  const std::size_t entries = library.manifest().mesh.numAxes() + 1;
  std::ostringstream own;
  for (const std::unique_ptr<LocalRank> &rank : ranks)
    for (const CommunicationTime &time : rank->context.communicationTimes())
      own << time.inFlight << ' ' << time.exposed << ' ';
  std::string all;
  for (const std::string &text : control.allGather(own.str()))
    all += text;
  std::istringstream numbers(all);
  SlowestRank slowest;
  for (int rank = 0; rank != control.size(); ++rank) {
    std::vector<CommunicationTime> times(entries);
    for (CommunicationTime &time : times)
      numbers >> time.inFlight >> time.exposed;
    if (rank != 0 && times.back().exposed <= slowest.total.exposed)
      continue;
    slowest.rank = rank;
    slowest.total = times.back();
    times.pop_back();
    slowest.axes = std::move(times);
  }
  return slowest;
}

/// While any of these ran.
static int64_t unionOf(std::vector<CommandTimes> times) {
  std::sort(times.begin(), times.end(),
            [](const auto &a, const auto &b) { return a.begin < b.begin; });
  int64_t sum = 0, covered = 0;
  for (const CommandTimes &one : times) {
    sum += std::max<int64_t>(0, one.end - std::max(one.begin, covered));
    covered = std::max(covered, one.end);
  }
  return sum;
}

bool Session::hadSubnormals() const {
  return std::ranges::any_of(
      ranks, [](const auto &rank) { return rank->hasSubnormals; });
}

PagingTime Session::pagingOfLastRun() {
  std::ostringstream own;
  for (const std::unique_ptr<LocalRank> &rank : ranks) {
    const Transfers &all = rank->transfers;
    own << all.bytesIn << ' ' << all.bytesOut << ' ' << unionOf(all.times)
        << ' ' << all.waited << ' ';
  }
  std::string texts;
  for (const std::string &text : control.allGather(own.str()))
    texts += text;
  std::istringstream numbers(texts);
  PagingTime result;
  for (int rank = 0; rank != control.size(); ++rank) {
    int64_t in = 0, out = 0;
    double copied = 0, waited = 0;
    numbers >> in >> out >> copied >> waited;
    result.bytesIn += in;
    result.bytesOut += out;
    if (rank != 0 && waited * 1e-9 <= result.exposed)
      continue;
    result.seconds = copied * 1e-9;
    // Waiting takes a little where nothing is copied, too.
    result.exposed = std::min(waited, copied) * 1e-9;
  }
  return result;
}

std::vector<std::vector<Traffic>> Session::predictTraffic() const {
  std::vector<std::vector<Traffic>> predicted(
      plans.size(), std::vector<Traffic>(manifest().mesh.numAxes()));
  // Bytes are those of all ranks: a function's count where it is first.
  std::map<const Function *, std::size_t> firstIn;
  for (std::size_t plan = 0; plan != plans.size(); ++plan)
    for (const Call &call : submitted[plan]) {
      const Function *function = callables[call.callable].function;
      const bool isFirst =
          firstIn.try_emplace(function, plan).first->second == plan;
      for (const AxisTraffic &axis : function->communication) {
        predicted[plan][axis.axis].bytes += isFirst ? axis.bytes : 0;
        predicted[plan][axis.axis].messages += axis.messages;
      }
    }
  return predicted;
}

Status Session::checkTraffic(std::string_view name) {
  const Mesh &mesh = library.manifest().mesh;
  OPTRT_ASSIGN_OR_RETURN(const std::vector<std::vector<Traffic>> counted,
                         countTraffic());
  const std::vector<std::vector<Traffic>> predicted = predictTraffic();
  if (plans.size() == 1 && submitted[0].size() == 1)
    name = callables[submitted[0].front().callable].function->name;
  for (int axis = 0; axis != mesh.numAxes(); ++axis) {
    // The manifest lists axes with more than one rank only.
    if (mesh.axisSize(axis) == 1)
      continue;
    auto sumOf = [&](const std::vector<std::vector<Traffic>> &byPlan) {
      int64_t bytes = 0;
      for (const std::vector<Traffic> &one : byPlan)
        bytes += one[axis].bytes;
      return bytes;
    };
    for (std::size_t plan = 0; plan != plans.size(); ++plan)
      if (sumOf(counted) != sumOf(predicted) ||
          counted[plan][axis].messages != predicted[plan][axis].messages)
        return internal(concat(
            name, " communicated ", sumOf(counted), " bytes in ",
            counted[plan][axis].messages, " messages on mesh axis ",
            mesh.axes()[axis].name, ", but the manifest predicts ",
            sumOf(predicted), " bytes in ", predicted[plan][axis].messages));
  }
  return okStatus();
}

RankMemory Session::largestRankMemory() {
  RankMemory largest;
  auto consider = [&](const RankMemory &memory) {
    if (memory.total() > largest.total())
      largest = memory;
  };
  int64_t sumOfDevices = 0;
  for (const std::unique_ptr<LocalRank> &rank : ranks)
    sumOfDevices += static_cast<int64_t>(rank->context.device->scratchBytes());
  for (const std::unique_ptr<LocalRank> &rank : ranks) {
    RankMemory own = rank->plan.memory;
    own.snapshot = snapshotBytes;
    own.device = static_cast<int64_t>(rank->context.device->scratchBytes());
    own.communication = rank->context.queued ? rank->context.queued->heldBytes()
                                             : rank->communicationBytes;
    if (lanes.size() > 1)
      own.device = sumOfDevices;
    own.code = std::max<int64_t>(
        0, rank->context.device->codeBytes() -
               (rank->context.queued ? own.communication : 0));
    consider(own);
  }
  std::ostringstream own;
  own << largest.parameters << ' ' << largest.state << ' ' << largest.gradients
      << ' ' << largest.inputs << ' ' << largest.arena << ' ' << largest.device
      << ' ' << largest.communication << ' ' << largest.offloaded << ' '
      << largest.staging << ' ' << largest.snapshot << ' ' << largest.code;
  for (const std::string &text : control.allGather(own.str())) {
    std::istringstream numbers(text);
    RankMemory memory;
    numbers >> memory.parameters >> memory.state >> memory.gradients >>
        memory.inputs >> memory.arena >> memory.device >>
        memory.communication >> memory.offloaded >> memory.staging >>
        memory.snapshot >> memory.code;
    consider(memory);
  }
  return largest;
}

} // namespace optrt
