//===- CriticalPath.cpp - What decides when a rank ends ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include <algorithm>
#include <map>

using namespace optimus_support::program;

namespace optimus_simulation {

namespace {
/// Goes back from the end of a rank: its computing since its last wait, the
/// awaited collective, and the reason for the time of its begin.
class PathFinder {
public:
  PathFinder(const TimedProgram &program, const Ranks &ranks)
      : program(program), ranks(ranks) {}

  std::vector<CriticalPart> find(int64_t rank) {
    Position at{static_cast<uint32_t>(getNumCalls(rank)), 0};
    const Stop *stop = nullptr;
    while ((stop = findStop(rank, at))) {
      addComputing(rank, stop->position, at, /*isStop=*/true);
      const Meeting *meeting = &ranks.getMeeting(stop->meeting);
      addMeeting(*meeting);
      while (!meeting->waiter &&
             meeting->arrivals.front().before != kNoMeeting) {
        meeting = &ranks.getMeeting(meeting->arrivals.front().before);
        addMeeting(*meeting);
      }
      const Arrival &last = meeting->arrivals.front();
      const Cause cause =
          meeting->waiter.value_or(Cause{last.rank, last.call, last.command});
      rank = cause.rank;
      at = {cause.call, cause.command};
      // What came before is no part of the step.
      if (at.call < ranks.getFirstCounted(rank))
        return sort();
    }
    addComputing(rank, {ranks.getFirstCounted(rank), 0}, at, /*isStop=*/false);
    return sort();
  }

private:
  size_t getNumCalls(int64_t rank) const {
    return ranks.getPosition(rank).call;
  }

  /// The last stop of a rank before a position.
  const Stop *findStop(int64_t rank, Position at) const {
    const std::vector<Stop> &stops = ranks.getStops(rank);
    const auto after =
        std::partition_point(stops.begin(), stops.end(), [&](const Stop &stop) {
          return std::pair(stop.position.call, stop.position.command) <
                 std::pair(at.call, at.command);
        });
    if (after == stops.begin() ||
        std::prev(after)->position.call < ranks.getFirstCounted(rank))
      return nullptr;
    return &*std::prev(after);
  }

  void add(const TimedFunction &function, uint32_t number,
           const std::string &what, Picoseconds time) {
    const CommandT &command = *function.source->commands[number];
    const auto &texts = function.table->texts;
    const std::string path = command.path == kNone
                                 ? describeAction(program.getTarget(), command)
                                 : texts[command.path];
    seconds[{path, what}]
           [command.source == kNone ? "" : texts[command.source]] += time;
  }

  /// From a stop, or from the beginning, to before a command.
  void addComputing(int64_t rank, Position from, Position to, bool isStop) {
    for (; from.call <= to.call; from = {from.call + 1, 0}) {
      if (from.call == getNumCalls(rank))
        return;
      const TimedFunction &function = ranks.getFunction(rank, from.call);
      const size_t end =
          from.call == to.call ? to.command : function.commands.size();
      for (uint32_t number = from.command; number < end; ++number)
        addComputed(function, number,
                    ranks.getSeconds(rank, {from.call, number}));
      // What is inserted before a stop was computed before it.
      for (uint32_t number = from.command; number <= end; ++number)
        if ((number != from.command || !isStop) &&
            number != function.commands.size())
          addComputed(function, number,
                      ranks.getInserted(rank, {from.call, number}));
      isStop = false;
    }
  }

  void addComputed(const TimedFunction &function, uint32_t number,
                   Picoseconds time) {
    if (time > 0)
      add(function, number, "computing", time);
  }

  void addMeeting(const Meeting &meeting) {
    const Arrival &last = meeting.arrivals.front();
    const TimedFunction &function = ranks.getFunction(last.rank, last.call);
    const TimedCommand &command = function.commands[last.command];
    // Of what is carried, the part in the step.
    const Picoseconds begin =
        std::max(meeting.begin, ranks.getBegin(last.rank));
    if (meeting.end > begin)
      add(function, last.command, program.getExposures()[command.name].axis,
          meeting.end - begin);
  }

  std::vector<CriticalPart> sort() const {
    std::vector<CriticalPart> parts;
    for (const auto &[name, lines] : seconds) {
      CriticalPart &part = parts.emplace_back();
      part.path = name.first;
      part.what = name.second;
      Picoseconds most = 0;
      for (const auto &[line, time] : lines) {
        part.seconds += time;
        if (time > most)
          part.line = line;
        most = std::max(most, time);
      }
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const CriticalPart &a, const CriticalPart &b) {
                       return a.seconds > b.seconds;
                     });
    return parts;
  }

  const TimedProgram &program;
  const Ranks &ranks;
  /// By path and what is waited for, of each line of source.
  std::map<std::pair<std::string, std::string>,
           std::map<std::string, Picoseconds>>
      seconds;
};
} // namespace

std::vector<CriticalPart> findCriticalPath(const TimedProgram &program,
                                           const Ranks &ranks, int64_t rank) {
  return PathFinder(program, ranks).find(rank);
}

} // namespace optimus_simulation
