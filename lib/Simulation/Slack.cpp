//===- Slack.cpp - What may end later ---------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include <algorithm>
#include <map>

namespace optimus_simulation {

namespace {
/// Goes back through all deeds, and says of each the latest time at which the
/// step takes no longer:
///
///   compute 3 | start | compute 2 | wait    the collective takes 4, from 3 to
///                                           7, and so the step takes 7
///   the wait is reached at 5 and may be at 7, so computing 2 has a slack of 2;
///   the collective and computing 3 have none
class SlackFinder {
public:
  SlackFinder(const Ranks &ranks, const Folding &folding, Picoseconds step)
      : ranks(ranks), step(step), actors(folding.getNumActors()) {
    for (uint32_t number = 0; number != actors.size(); ++number) {
      Actor &actor = actors[number];
      actor.latest = step;
      actor.slack.rank = folding.getRank(number);
      for (const CallTimes &call : ranks.getCalls(number))
        actor.slack.calls.emplace_back(call.commands.size(), kNoSlack);
    }
  }

  std::vector<Slack> find() {
    const std::vector<Deed> &deeds = ranks.getDeeds();
    std::for_each(deeds.rbegin(), deeds.rend(),
                  [&](const Deed &deed) { undo(deed); });
    std::vector<Slack> result;
    for (Actor &actor : actors)
      result.push_back(std::move(actor.slack));
    return result;
  }

private:
  struct Actor {
    /// When it may be at the command behind the present one.
    Picoseconds latest = 0;
    Slack slack;
    /// Of the present call: when copies must be done, by command, and when the
    /// next one of each queue must begin.
    std::map<uint32_t, Picoseconds> copies;
    std::map<uint32_t, Picoseconds> queues;
    Picoseconds endOfCall = 0;
  };
  /// When it must end, and begin.
  struct Bounds {
    Picoseconds end = 0, begin = 0;
  };

  void undo(const Deed &deed) {
    if (deed.kind == Deed::Meet)
      return undoMeeting(deed);
    Actor &actor = actors[deed.rank];
    if (deed.kind == Deed::EndCall) {
      actor.copies.clear();
      actor.queues.clear();
      actor.latest -= ranks.getAfter(deed.rank, deed.position.call);
      actor.endOfCall = actor.latest;
      return;
    }
    undoCommand(deed, actor);
    boundCopies(deed, actor);
  }

  void undoCommand(const Deed &deed, Actor &actor) {
    const Position at = deed.position;
    Picoseconds &slack = actor.slack.calls[at.call][at.command];
    const Picoseconds end =
        ranks.getCalls(deed.rank)[at.call].commands[at.command].end;
    switch (deed.kind) {
    case Deed::Insert:
      actor.latest -= ranks.getInserted(deed.rank, at);
      return;
    case Deed::Compute:
      slack = actor.latest - end;
      actor.latest -= ranks.getSeconds(deed.rank, at);
      return;
    case Deed::Copy: {
      const TimedCommand &command =
          ranks.getFunction(deed.rank, at.call).commands[at.command];
      auto [queue, isLast] =
          actor.queues.try_emplace(command.name, actor.endOfCall);
      Picoseconds latest = queue->second;
      if (const auto bound = actor.copies.find(at.command);
          bound != actor.copies.end())
        latest = std::min(latest, bound->second);
      slack = latest - end;
      queue->second = latest - command.seconds;
      actor.latest = std::min(actor.latest, queue->second);
      return;
    }
    case Deed::Start: {
      const Bounds bounds = getBounds(deed.meeting);
      slack = bounds.end - ranks.getMeeting(deed.meeting).end;
      actor.latest = std::min(actor.latest, bounds.begin);
      return;
    }
    case Deed::Wait:
      bound(deed.meeting, actor.latest);
      return;
    case Deed::EndCall:
    case Deed::Meet:
      return;
    }
  }

  /// Copies that the command had to wait for.
  void boundCopies(const Deed &deed, Actor &actor) {
    const TimedFunction &function =
        ranks.getFunction(deed.rank, deed.position.call);
    const uint32_t number = deed.position.command;
    // A copy waits on its own queue.
    const TimedCommand &command = function.commands[number];
    const Picoseconds latest = command.kind == TimedCommand::Copy
                                   ? actor.queues.at(command.name)
                                   : actor.latest;
    auto one = std::lower_bound(function.afterCopies.begin(),
                                function.afterCopies.end(),
                                std::pair(number, uint32_t(0)));
    for (; one != function.afterCopies.end() && one->first == number; ++one) {
      auto [entry, isNew] = actor.copies.try_emplace(one->second, latest);
      entry->second = std::min(entry->second, latest);
    }
  }

  void undoMeeting(const Deed &deed) {
    const Meeting &meeting = ranks.getMeeting(deed.meeting);
    Bounds &bounds = getBounds(deed.meeting);
    bounds.begin = bounds.end - (meeting.end - meeting.begin);
    const Picoseconds begin = bounds.begin;
    for (uint32_t before : deed.before)
      bound(before, begin);
  }

  Bounds &getBounds(uint32_t meeting) {
    return meetings.try_emplace(meeting, Bounds{step, step}).first->second;
  }
  void bound(uint32_t meeting, Picoseconds latest) {
    Bounds &bounds = getBounds(meeting);
    bounds.end = std::min(bounds.end, latest);
  }

  const Ranks &ranks;
  const Picoseconds step;
  std::vector<Actor> actors;
  std::unordered_map<uint32_t, Bounds> meetings;
};
} // namespace

std::vector<Slack> findSlack(const Ranks &ranks, const Folding &folding,
                             Picoseconds step) {
  return SlackFinder(ranks, folding, step).find();
}

} // namespace optimus_simulation
