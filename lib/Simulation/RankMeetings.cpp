//===- RankMeetings.cpp - What ranks start and wait for ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include "optimus-support/ProgramRegions.h"

#include <algorithm>
#include <utility>

using namespace optimus_support::program;

namespace optimus_simulation {

//===----------------------------------------------------------------------===//
// Starts and waits
//===----------------------------------------------------------------------===//

MeetingKey Ranks::getKey(uint32_t number, const Rank &rank,
                         const TimedCommand &command) const {
  MeetingKey key{command.axes, folding.getGroup(number, command.axes),
                 kNoMeeting};
  if (command.kind == TimedCommand::Collective)
    return key;
  // With messages, nobody is folded.
  const optimus_support::Mesh &mesh = program.getMesh();
  const std::vector<uint32_t> &axes = program.getAxes()[command.axes];
  const CommandT &source = *rank.functions[rank.position.call]
                                ->source->commands[rank.position.command];
  const SendT *send = source.action.AsSend();
  std::vector<int64_t> coordinates = mesh.coordinates(number);
  coordinates[axes.front()] = evaluate(
      send ? *send->peer : *source.action.AsReceive()->peer, coordinates);
  const auto peer = static_cast<uint32_t>(mesh.rank(coordinates));
  key.first = send ? number : peer;
  key.second = send ? peer : number;
  return key;
}

void Ranks::start(uint32_t number, Rank &rank, const TimedCommand &command) {
  MeetingKey key = getKey(number, rank, command);
  uint32_t &count = rank.counts[key];
  key.index = count++;
  auto [entry, isNew] =
      open.try_emplace(key, static_cast<uint32_t>(meetings.size()));
  const uint32_t meeting = entry->second;
  if (isNew) {
    const bool isMessage = command.kind != TimedCommand::Collective;
    meetings.push_back(
        {.key = key,
         .expected = isMessage ? 2 : folding.getSize(number, command.axes),
         // Without cores there is no order in time.
         .isAwaited = command.isAwaited && contention && !devices &&
                      !network,
         .arrivals = {}});
  }
  uint32_t transfer = static_cast<uint32_t>(transfers.size());
  if (freeTransfers.empty()) {
    transfers.emplace_back();
  } else {
    transfer = freeTransfers.back();
    freeTransfers.pop_back();
  }
  transfers[transfer] = {meeting, rank.now, rank.now, rank.computedInAll};
  keep(Deed::Start, rank, meeting);
  rank.started[rank.position.command] = transfer;
  if (command.carried != 0)
    rank.carried[command.carried] = transfer;
  const uint32_t linkNumber = program.getLink(command.axes);
  Link &link = rank.links[linkNumber];
  link.gathered.push_back({number, folding.getColour(number), linkNumber,
                           transfer, meeting, rank.position.call,
                           rank.position.command, rank.now, rank.now,
                           command.seconds, kNoMeeting, command.priority});
  if (!command.endsGroup)
    return;
  for (Arrival &one : link.gathered)
    one.post = rank.now;
  numByLayer += isByLayer(link.gathered);
  link.waiting.push_back(std::exchange(link.gathered, {}));
  advanceLink(link);
  settle();
}

bool Ranks::wait(Rank &rank, uint32_t number, const TimedCommand &command) {
  if (whatIf.overlap == Overlap::Perfect)
    return true;
  const Transfer &transfer = transfers[number];
  if (!meetings[transfer.meeting].isOver) {
    rank.awaited = transfer.meeting;
    rank.awaitedLink = program.getLink(meetings[transfer.meeting].key.axes);
    return false;
  }
  const Meeting &meeting = meetings[transfer.meeting];
  if (meeting.end <= rank.now)
    return true;
  const Arrival &last = meeting.arrivals.front();
  const uint32_t name =
      ranks[last.rank].functions[last.call]->commands[last.command].name;
  rank.stops.push_back({rank.position, transfer.meeting, rank.now});
  const Picoseconds exposed = account(rank, transfer, name);
  if (command.carried != 0)
    rank.times.carried.exposed += exposed;
  return true;
}

Picoseconds Ranks::account(Rank &rank, const Transfer &transfer,
                           uint32_t name) {
  const Meeting &meeting = meetings[transfer.meeting];
  const Picoseconds exposed = meeting.end - rank.now;
  const Picoseconds late = std::min(exposed, meeting.begin - transfer.ready);
  const Picoseconds queued =
      std::min(exposed - late, transfer.ready - transfer.post);
  // Messages may take less than the closed form says of them alone.
  const Picoseconds shared = std::min(
      exposed - late - queued,
      std::max<Picoseconds>(0, meeting.end - meeting.begin - meeting.alone));
  Exposure &entry = rank.exposures[name];
  ++entry.count;
  entry.all += exposed;
  entry.late += late;
  entry.queued += queued;
  entry.shared += shared;
  if (transfer.computed == rank.computedInAll)
    entry.idle += exposed - late - queued - shared;
  rank.times.exposed += exposed;
  rank.now = meeting.end;
  return exposed;
}

//===----------------------------------------------------------------------===//
// Meetings
//===----------------------------------------------------------------------===//

void Ranks::arrive(Link &link, Batch &batch) {
  numByLayer -= isByLayer(batch);
  link.pending = static_cast<uint32_t>(batch.size());
  link.next = link.free;
  if (keepsDeeds) {
    link.before = std::exchange(link.present, {});
    for (const Arrival &one : batch)
      link.present.push_back(one.meeting);
  }
  for (Arrival &one : batch) {
    one.ready = std::max(one.post, link.free);
    one.before = link.free > one.post ? link.last : kNoMeeting;
    transfers[one.transfer].post = one.post;
    transfers[one.transfer].ready = one.ready;
    Meeting &meeting = meetings[one.meeting];
    meeting.arrivals.push_back(one);
    if (meeting.arrivals.size() == meeting.expected)
      complete.push_back(one.meeting);
  }
}

void Ranks::advanceLink(Link &link) {
  if (link.pending != 0 || link.waiting.empty())
    return;
  if (isByLayer(link.waiting.front()))
    return;
  Batch batch = std::move(link.waiting.front());
  link.waiting.pop_front();
  arrive(link, batch);
}

bool Ranks::beginByLayer(Picoseconds before) {
  if (numByLayer == 0)
    return false;
  // Of all that some member's link may carry next.
  struct Choice {
    Picoseconds begin = 0;
    uint32_t priority = 0;
    Picoseconds post = 0;
    uint32_t call = 0, command = 0, rank = 0, members = 0;

    auto operator<=>(const Choice &) const = default;
  };
  std::unordered_map<uint32_t, Choice> choices;
  forEachByLayer([&](Link &link, const Arrival &one) {
    Choice &choice = choices[one.meeting];
    const bool isFirst = choice.members++ == 0;
    choice.begin = std::max({choice.begin, one.post, link.free});
    choice.post = std::max(choice.post, one.post);
    choice.priority = one.priority;
    choice.call = one.call;
    choice.command = one.command;
    choice.rank = isFirst ? one.rank : std::min(choice.rank, one.rank);
  });
  std::optional<std::pair<Choice, uint32_t>> next;
  for (const auto &[meeting, choice] : choices)
    if (choice.members == meetings[meeting].expected && choice.begin < before &&
        (!next || choice < next->first))
      next.emplace(choice, meeting);
  if (!next)
    return false;
  std::vector<Link *> taking;
  forEachByLayer([&](Link &link, const Arrival &one) {
    if (one.meeting == next->second)
      taking.push_back(&link);
  });
  for (Link *link : taking) {
    const auto found =
        std::ranges::find_if(link->waiting, [&](const Batch &batch) {
          return batch.front().meeting == next->second;
        });
    Batch batch = std::move(*found);
    link->waiting.erase(found);
    arrive(*link, batch);
  }
  return true;
}

bool Ranks::arriveInOrder() {
  bool hasCome = false;
  for (Rank &rank : ranks)
    for (Link &link : rank.links)
      if (link.pending == 0 && !link.waiting.empty()) {
        Batch batch = std::move(link.waiting.front());
        link.waiting.pop_front();
        arrive(link, batch);
        hasCome = true;
      }
  return hasCome;
}

/// What starts together keeps its order.
bool Ranks::isByLayer(const Batch &batch) {
  return batch.size() == 1 && batch.front().priority != 0;
}

template <typename Visit>
void Ranks::forEachByLayer(Visit visit) {
  for (Rank &rank : ranks)
    for (Link &link : rank.links) {
      if (link.pending != 0)
        continue;
      for (const Batch &batch : link.waiting) {
        if (!isByLayer(batch))
          break;
        visit(link, batch.front());
      }
    }
}

/// Lets complete meetings take place, and so links go on.
void Ranks::settle() {
  while (!complete.empty()) {
    const uint32_t number = complete.back();
    complete.pop_back();
    Meeting &meeting = meetings[number];
    meeting.isHeld = meeting.isAwaited && !isWaitedFor(meeting);
    if (meeting.isHeld)
      held.push_back(number);
    else
      hold(number);
  }
}

bool Ranks::isWaitedFor(const Meeting &meeting) const {
  return std::ranges::any_of(meeting.arrivals, [&](const Arrival &one) {
    const Rank &rank = ranks[one.rank];
    return rank.awaited != kNoMeeting && !meetings[rank.awaited].isOver &&
           rank.awaitedLink == one.link;
  });
}

void Ranks::beginHeld(uint32_t number) {
  const Rank &rank = ranks[number];
  std::vector<uint32_t> begun;
  std::erase_if(held, [&](uint32_t one) {
    const bool begins = isWaitedFor(meetings[one]);
    if (begins)
      begun.push_back(one);
    return begins;
  });
  for (uint32_t one : begun) {
    meetings[one].waiter =
        Cause{number, rank.position.call, rank.position.command};
    hold(one);
  }
}

void Ranks::hold(uint32_t number) {
  Meeting &meeting = meetings[number];
  const Arrival *last = &meeting.arrivals.front();
  for (const Arrival &one : meeting.arrivals) {
    if (one.isAfter(*last))
      last = &one;
    meeting.alone = std::max(meeting.alone, one.seconds);
  }
  meeting.begin = last->ready;
  if (meeting.isHeld)
    meeting.begin = std::max(meeting.begin, ranks[meeting.waiter->rank].now);
  std::swap(meeting.arrivals.front(),
            meeting.arrivals[last - &meeting.arrivals.front()]);
  if (!network && !contention)
    return end(number, meeting.begin + meeting.alone);
  const Arrival &first = meeting.arrivals.front();
  const TimedCommand &command =
      getFunction(first.rank, first.call).commands[first.command];
  const bool isMessage = meeting.key.second != kNoMeeting;
  const Contention::Move move{
      .meeting = number,
      .actor = meeting.waiter ? meeting.waiter->rank : first.rank,
      .begin = meeting.begin,
      .seconds = meeting.alone,
      .processors = command.processors,
      .beside = command.beside,
      .members = meeting.arrivals,
      .groups =
          isMessage
              ? 1
              : folding.listGroups(meeting.key.axes, meeting.key.first).size()};
  if (!network)
    return contention->move(move);
  double scale = 0;
  for (const Arrival &one : meeting.arrivals)
    scale = std::max(
        scale, getFunction(one.rank, one.call).commands[one.command].scale);
  const Transport transport = network->describe(
      meeting.key,
      *getFunction(first.rank, first.call).source->commands[first.command],
      scale);
  meeting.alone = transport.alone;
  if (transport.protocol)
    protocols[transport.protocol] += static_cast<int64_t>(move.groups);
  if (messages)
    messages->begin(number, meeting.begin + transport.latency,
                    *transport.messages);
  else
    links->add(meeting.begin + transport.latency,
               {number, transport.bytes, transport.loads});
  if (contention)
    contention->moveOnLinks(move,
                            transport.bytes * 1e12 /
                                double(std::max<Picoseconds>(
                                    1, transport.alone - transport.latency)));
}

void Ranks::end(uint32_t number, Picoseconds time) {
  ++events;
  Meeting &meeting = meetings[number];
  meeting.end = time;
  meeting.isOver = true;
  if (network && contention)
    contention->endOnLinks(number, time);
  const std::vector<Arrival> arrivals = std::move(meeting.arrivals);
  meeting.arrivals = {arrivals.front()};
  open.erase(meeting.key);
  if (keepsDeeds) {
    Deed &deed =
        deeds.emplace_back(Deed{.kind = Deed::Meet, .meeting = number});
    for (const Arrival &one : arrivals) {
      const Link &link = ranks[one.rank].links[one.link];
      deed.before.insert(deed.before.end(), link.before.begin(),
                         link.before.end());
    }
  }
  for (const Arrival &one : arrivals) {
    Rank &rank = ranks[one.rank];
    Link &link = rank.links[one.link];
    if (one.call >= rank.firstCounted) {
      rank.times.communicating += time - meeting.begin;
      link.busy += time - meeting.begin;
      if (rank.functions[one.call]->commands[one.command].carried != 0) {
        ++rank.times.carried.count;
        rank.times.carried.all += time - meeting.begin;
        rank.carriedUntil = std::max(rank.carriedUntil, time);
      }
    }
    if (records)
      rank.recorded[one.call].transfers.push_back(
          {one.command, {one.post, time}});
    if (time >= link.next) {
      link.next = time;
      link.lastOfNext = number;
    }
    if (--link.pending != 0)
      continue;
    link.free = link.next;
    link.last = link.lastOfNext;
    advanceLink(link);
  }
  if (auto found = waiting.find(number); found != waiting.end()) {
    runnable.insert(runnable.end(), found->second.rbegin(),
                    found->second.rend());
    waiting.erase(found);
  }
}

} // namespace optimus_simulation
