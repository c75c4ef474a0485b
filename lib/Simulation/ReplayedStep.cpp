//===- ReplayedStep.cpp - What ranks did in a step of a run -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReplayedStep.h"

#include "optimus/Prices/RunTimes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

using namespace optimus_prices;

namespace optimus_simulation {

void ReplayedCommand::add(const ReplayedCommand &other) {
  busy += other.busy;
  gap += other.gap;
  beforeWait += other.beforeWait;
  under += other.under;
  processors += other.processors;
  count += other.count;
  waits += other.waits;
  transfers += other.transfers;
  awaited += other.awaited;
}

namespace {
/// How much a machine gives to each of those that want its cores, by time:
///
///   2 cores, wanted by 1 until 3 and by 4 from 3 to 5
///   what takes from 2 to 5 takes 1 + 2/2 with cores of its own
///
/// Those in wait for a core, because they are about to go on, have the others'
/// rest.
class SharedTime {
public:
  /// From a time on so much more is wanted, or less.
  void change(int64_t time, double load, bool isLast) {
    changes.push_back({time, load, isLast});
  }

  void settle(double cores) {
    std::ranges::stable_sort(changes, {}, &Change::time);
    Given given;
    double wanted = 0, wantedLast = 0;
    for (Change &one : changes) {
      given.go(one.time);
      (one.isLast ? wantedLast : wanted) += one.load;
      given.rate = wanted > cores ? cores / wanted : 1;
      given.rateOfLast =
          wantedLast > 0 ? std::clamp((cores - wanted) / wantedLast, 0.0, 1.0)
                         : 1;
      one.given = given;
    }
  }

  /// Seconds on cores of its own.
  double get(RunSpan span, bool isLast) const {
    return (getUntil(span.end, isLast) - getUntil(span.begin, isLast)) * 1e-9;
  }

private:
  /// Until a time, and from then on.
  struct Given {
    int64_t time = 0;
    double all = 0, allOfLast = 0;
    double rate = 1, rateOfLast = 1;

    void go(int64_t to) {
      all += rate * double(to - time);
      allOfLast += rateOfLast * double(to - time);
      time = to;
    }
  };
  struct Change {
    int64_t time;
    double load;
    bool isLast;
    Given given = {};
  };

  double getUntil(int64_t time, bool isLast) const {
    const auto after =
        std::ranges::upper_bound(changes, time, {}, &Change::time);
    Given given;
    if (after != changes.begin())
      given = std::prev(after)->given;
    given.go(time);
    return isLast ? given.allOfLast : given.all;
  }

  std::vector<Change> changes;
};

/// A rank that takes part in a collective.
struct Member {
  int64_t rank;
  size_t place;
  /// When it had started it, and when that was over for it.
  RunSpan span;
  std::optional<int64_t> wait = {};
};

struct RunMeeting {
  uint32_t link = 0;
  std::vector<Member> members = {};
  RunSpan span = {};
  /// Cores that processors spend on it.
  double load = 0;
  bool isAwaited = false;

  /// For one of its members; where each has a clock, its own.
  int64_t getEnd(const Member &member, bool hasOneClock) const {
    return hasOneClock ? span.end : member.span.end;
  }
};

/// What a rank did between two waits, or wanted a core for, and where it
/// counts.
struct Activity {
  int64_t rank;
  RunSpan span;
  bool isLast;
  double *seconds;
};

class StepReplay {
public:
  StepReplay(const RunProfile &run, const RunStep &step,
             const ReplayMachine &machine)
      : run(run), machine(machine), ranks(machine.mesh.numRanks()) {
    for (const RunCall &call : step.calls)
      if (call.rank >= 0 && call.rank < machine.mesh.numRanks() &&
          run.functions.contains(call.function))
        calls[call.rank].push_back(&call);
    for (const auto &[rank, list] : calls)
      ranks[rank].commands.resize(run.commands.size());
  }

  std::vector<ReplayedRank> replay() {
    for (const auto &[rank, list] : calls)
      for (const RunCall *call : list)
        findMembers(*call);
    boundMeetings();
    for (const auto &[rank, list] : calls)
      followRank(rank, list);
    settle();
    return std::move(ranks);
  }

private:
  /// A start, by its call and command.
  using Start = std::pair<const RunCall *, int64_t>;
  /// A meeting's number, and its member's.
  using Membership = std::pair<size_t, size_t>;

  void findMembers(const RunCall &call);
  void addMember(const RunCall &call, const CommandSpan &start, size_t place);
  void boundMeetings();
  void bound(RunMeeting &meeting);
  double getLoad(const MeasuredCommand &command) const;
  void followRank(int64_t rank, std::span<const RunCall *const> list);
  void settle();
  int64_t getMachine(int64_t rank) const {
    return machine.cores ? rank / machine.cores->ranksPerMachine : 0;
  }

  const RunProfile &run;
  const ReplayMachine &machine;
  std::vector<ReplayedRank> ranks;
  std::map<int64_t, std::vector<const RunCall *>> calls;
  /// By axes and lowest rank and number; how many a rank has started by axes.
  std::map<std::tuple<std::string, int64_t, int64_t>, size_t> numbers;
  std::map<std::pair<int64_t, std::string>, int64_t> counts;
  std::vector<RunMeeting> meetings;
  std::map<Start, Membership> memberships;
  /// The numbers of links by axes; until when a rank's were busy.
  std::map<std::string, uint32_t> links;
  std::map<std::pair<int64_t, uint32_t>, int64_t> free;
  std::vector<Activity> activities;
};
} // namespace

/// The axes of "row+col", as far as the mesh has them.
static std::vector<int> parseAxes(const optimus_support::Mesh &mesh,
                                  std::string_view text) {
  std::vector<int> axes;
  while (!text.empty()) {
    const size_t end = std::min(text.find('+'), text.size());
    const auto axis = mesh.findAxis(text.substr(0, end));
    if (axis && std::ranges::find(axes, *axis) == axes.end())
      axes.push_back(*axis);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return axes;
}

void StepReplay::findMembers(const RunCall &call) {
  const RunFunction &function = run.functions.at(call.function);
  for (const CommandSpan &one : call.commands) {
    if (const auto place = function.places.find(one.command);
        place != function.places.end()) {
      addMember(call, one, place->second);
      continue;
    }
    const auto wait = function.waits.find(one.command);
    if (wait == function.waits.end())
      continue;
    if (const auto found = memberships.find({&call, wait->second});
        found != memberships.end()) {
      const auto [meeting, member] = found->second;
      meetings[meeting].members[member].wait = one.span.begin;
    }
  }
}

/// A collective is one meeting of its group; each end of a message is one of
/// its own, since nothing says which belong together.
void StepReplay::addMember(const RunCall &call, const CommandSpan &start,
                           size_t place) {
  const MeasuredCommand &command = run.commands[place];
  const bool isMessage = command.kind == "send" || command.kind == "receive";
  if (!isMessage && !findCollective(command.kind))
    return;
  const int64_t count = counts[{call.rank, command.axes}]++;
  const auto transfer =
      std::ranges::find(call.transfers, start.command, &CommandSpan::command);
  if (transfer == call.transfers.end())
    return;
  const auto axes = parseAxes(machine.mesh, command.axes);
  const int64_t first =
      isMessage ? -1 - call.rank : machine.mesh.firstOfGroup(call.rank, axes);
  const auto [number, isNew] =
      numbers.try_emplace({command.axes, first, count}, meetings.size());
  if (isNew) {
    const auto link =
        links.try_emplace(command.axes, uint32_t(links.size())).first;
    meetings.push_back({.link = machine.axesShareLink ? 0 : link->second,
                        .load = isMessage ? 0 : getLoad(command)});
  }
  RunMeeting &meeting = meetings[number->second];
  memberships[{&call, start.command}] = {number->second,
                                         meeting.members.size()};
  meeting.members.push_back(
      {call.rank,
       place,
       {start.span.end, std::max(start.span.end, transfer->span.end)}});
}

double StepReplay::getLoad(const MeasuredCommand &command) const {
  const auto kind = findCollective(command.kind);
  if (!machine.cores || !kind)
    return 0;
  const RankGroup group{command.ranks, command.stride};
  const double bytes = double(command.largest),
               seconds = machine.prices.getSeconds(*kind, group, bytes);
  return seconds > 0
             ? machine.prices.getProcessorSeconds(*kind, group, bytes) / seconds
             : 0;
}

void StepReplay::boundMeetings() {
  std::vector<RunMeeting *> byEnd;
  for (RunMeeting &meeting : meetings) {
    meeting.span.end = meeting.members.front().span.end;
    for (const Member &member : meeting.members)
      meeting.span.end = std::min(meeting.span.end, member.span.end);
    byEnd.push_back(&meeting);
  }
  std::ranges::stable_sort(
      byEnd, {}, [](const RunMeeting *meeting) { return meeting->span.end; });
  for (RunMeeting *meeting : byEnd)
    bound(*meeting);
}

/// It begins with its last member, and behind what its link carries. Threads
/// move data when one of them waits for it, unless there is a core for that.
void StepReplay::bound(RunMeeting &meeting) {
  const bool hasOneClock = run.hasOneClock();
  std::optional<int64_t> wait;
  int64_t begin = meeting.members.front().span.begin;
  // Of the member that waits the least for others.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Member &member : meeting.members) {
    int64_t ready = member.span.begin;
    if (const auto busy = free.find({member.rank, meeting.link});
        busy != free.end())
      ready = std::max(ready, busy->second);
    begin = std::max(begin, ready);
    least = std::min(least, std::max<int64_t>(0, member.span.end - ready));
    if (member.wait)
      wait = wait ? std::min(*wait, *member.wait) : *member.wait;
  }
  if (!hasOneClock)
    begin = meeting.span.end - least;
  const bool isByThreads = run.backend == "local" && machine.cores &&
                           hasOneClock && meeting.members.size() > 1;
  if (isByThreads && wait && *wait > begin && *wait < meeting.span.end) {
    begin = *wait;
    meeting.isAwaited = true;
  }
  meeting.span.begin = std::min(begin, meeting.span.end);
  for (const Member &member : meeting.members)
    free[{member.rank, meeting.link}] = meeting.getEnd(member, hasOneClock);
}

/// Its time without waits. Between the end of an awaited collective and the end
/// of its wait it had no core, or had to be woken.
void StepReplay::followRank(int64_t rank,
                            std::span<const RunCall *const> list) {
  ReplayedRank &result = ranks[rank];
  const bool byTurns = machine.cores && machine.cores->takesTurns();
  int64_t before = list.front()->span.begin;
  // What counts with the next command, or before the next wait.
  std::vector<Activity> open;
  auto keepOpen = [&](int64_t end, bool isLast) {
    if (end > before)
      open.push_back({rank, {before, end}, isLast, nullptr});
    before = std::max(before, end);
  };
  auto addActivity = [&](int64_t end, double &seconds) {
    keepOpen(end, /*isLast=*/false);
    for (Activity &one : open) {
      one.seconds = &seconds;
      activities.push_back(one);
    }
    open.clear();
  };
  for (const RunCall *call : list) {
    const RunFunction &function = run.functions.at(call->function);
    for (const auto &[number, span] : call->commands) {
      const auto place = function.places.find(number);
      if (place != function.places.end()) {
        ReplayedCommand &command = result.commands[place->second];
        ++command.count;
        if (run.commands[place->second].isBeside) {
          command.busy += double(span.end - span.begin) * 1e-9;
          continue;
        }
        command.gap += double(std::max<int64_t>(0, span.begin - before)) * 1e-9;
        addActivity(span.end, command.busy);
        continue;
      }
      const auto wait = function.waits.find(number);
      const auto found = wait == function.waits.end()
                             ? memberships.end()
                             : memberships.find({call, wait->second});
      if (found == memberships.end()) {
        keepOpen(span.begin, /*isLast=*/false);
        before = std::max(before, span.end);
        continue;
      }
      const RunMeeting &meeting = meetings[found->second.first];
      const Member &member = meeting.members[found->second.second];
      ReplayedCommand &awaited = result.commands[member.place];
      ++awaited.waits;
      addActivity(span.begin, awaited.beforeWait);
      before =
          std::max(before, std::clamp(meeting.getEnd(member, run.hasOneClock()),
                                      span.begin, span.end));
      keepOpen(span.end, byTurns);
    }
  }
  keepOpen(list.back()->span.end, /*isLast=*/false);
  for (const Activity &one : open)
    result.after += double(one.span.end - one.span.begin) * 1e-9;
}

/// What each took where it had cores of its own.
void StepReplay::settle() {
  std::map<int64_t, SharedTime> machines;
  auto add = [&](int64_t rank, RunSpan span, double load, bool isLast) {
    SharedTime &time = machines[getMachine(rank)];
    if (!machine.cores || load <= 0)
      return;
    time.change(span.begin, load, isLast);
    time.change(span.end, -load, isLast);
  };
  for (const Activity &one : activities)
    add(one.rank, one.span, machine.cores ? double(machine.cores->threads) : 0,
        one.isLast);
  for (const RunMeeting &meeting : meetings)
    for (const Member &member : meeting.members)
      add(member.rank, meeting.span,
          meeting.load / double(meeting.members.size()), /*isLast=*/false);
  if (machine.cores)
    for (auto &[number, time] : machines)
      time.settle(double(machine.cores->cores));
  for (const Activity &one : activities)
    *one.seconds += machines[getMachine(one.rank)].get(one.span, one.isLast);
  for (const RunMeeting &meeting : meetings)
    for (const Member &member : meeting.members) {
      ReplayedCommand &command = ranks[member.rank].commands[member.place];
      // What wants no cores is not slowed down.
      const double seconds =
          meeting.load > 0
              ? machines[getMachine(member.rank)].get(meeting.span, false)
              : double(meeting.span.end - meeting.span.begin) * 1e-9;
      command.under += seconds;
      command.processors += seconds * meeting.load;
      ++command.transfers;
      command.awaited += meeting.isAwaited;
    }
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const auto &[rank, list] : calls)
    first = std::min(first, list.front()->span.begin);
  for (const auto &[rank, list] : calls)
    ranks[rank].begin = double(list.front()->span.begin - first) * 1e-9;
}

std::vector<ReplayedRank> replayStep(const RunProfile &run, const RunStep &step,
                                     const ReplayMachine &machine) {
  return StepReplay(run, step, machine).replay();
}

} // namespace optimus_simulation
