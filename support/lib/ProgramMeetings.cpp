//===- ProgramMeetings.cpp - All ranks, step by step ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramMeetings.h"

#include "ProgramCheck.h"

#include "optimus-support/ProgramRegions.h"
#include "optimus-support/Sizes.h"

#include <algorithm>
#include <array>
#include <utility>

namespace optimus_support::program {

/// Starts and waits of all ranks together that are followed.
static constexpr int64_t kMaxEvents = int64_t(1) << 24;

//===----------------------------------------------------------------------===//
// Ranks that stand for others
//===----------------------------------------------------------------------===//

/// The table of each rank.
static std::vector<uint32_t> tablesOfRanks(const TargetT &target,
                                           const Mesh &mesh) {
  std::vector<uint32_t> tables;
  tables.reserve(static_cast<size_t>(mesh.numRanks()));
  for (const RankRange &range : target.ranks)
    tables.insert(tables.end(), range.count(), range.table());
  return tables;
}

/// Marks the mesh axes on which a message depends.
static void markAxes(const CommandT &command, std::vector<bool> &marked) {
  const IntegerT *peer = nullptr;
  if (const SendT *send = command.action.AsSend()) {
    marked[send->axis] = true;
    peer = send->peer.get();
  } else if (const ReceiveT *receive = command.action.AsReceive()) {
    marked[receive->axis] = true;
    peer = receive->peer.get();
  }
  if (peer)
    for (const Term &term : peer->terms)
      marked[term.axis()] = true;
}

void Meetings::foldAxes(const std::vector<uint32_t> &tables) {
  std::vector<bool> differs(static_cast<size_t>(mesh.numAxes()));
  for (const std::unique_ptr<ProgramTableT> &table : target.tables)
    for (const std::unique_ptr<FunctionT> &function : table->functions)
      for (const std::unique_ptr<CommandT> &command : function->commands)
        markAxes(*command, differs);
  hasMessages =
      std::find(differs.begin(), differs.end(), true) != differs.end();
  for (int axis = 0; axis != mesh.numAxes() && target.tables.size() > 1; ++axis)
    for (int64_t rank = 0; rank != mesh.numRanks() && !differs[axis]; ++rank)
      differs[axis] =
          tables[rank] != tables[mesh.firstOfGroup(rank, std::array{axis})];
  differs.flip();
  folded = std::move(differs);
}

Meetings::Meetings(const TargetT &target, const Mesh &mesh)
    : target(target), mesh(mesh) {
  const std::vector<uint32_t> tables = tablesOfRanks(target, mesh);
  foldAxes(tables);
  std::vector<int> axes;
  for (int axis = 0; axis != mesh.numAxes(); ++axis)
    if (folded[axis])
      axes.push_back(axis);
  for (int64_t rank = 0; rank != mesh.numRanks(); ++rank) {
    if (mesh.firstOfGroup(rank, axes) != rank)
      continue;
    numbers[rank] = static_cast<uint32_t>(ranks.size());
    RankState &state = ranks.emplace_back();
    state.rank = rank;
    state.table = tables[rank];
    state.coordinates = mesh.coordinates(rank);
  }
}

//===----------------------------------------------------------------------===//
// What a function starts and waits for
//===----------------------------------------------------------------------===//

const Meetings::Events &Meetings::eventsOf(const FunctionT &function) {
  auto [place, isNew] = events.try_emplace(&function);
  Events &list = place->second;
  if (!isNew)
    return list;
  /// By queue: the last start, among the events.
  std::map<uint32_t, size_t> last;
  for (uint32_t number = 0; number != function.commands.size(); ++number) {
    const CommandT &command = *function.commands[number];
    if (const WaitT *wait = command.action.AsWait()) {
      list.push_back({number, true, false, wait->carried, wait->command});
      continue;
    }
    if (!isAsynchronous(command))
      continue;
    const uint32_t group = groupOf(command);
    if (auto before = last.find(command.queue);
        group != 0 && before != last.end() &&
        groupOf(*function.commands[list[before->second].command]) == group)
      list[before->second].isLast = false;
    last[command.queue] = list.size();
    list.push_back({number, false, true, carriedOf(command), kNone});
  }
  return list;
}

Status Meetings::checkSize(const std::vector<Parts> &partsOfTables) {
  CheckedSize sum = 0;
  for (const RankState &rank : ranks)
    for (const SequencePart &part : partsOfTables[rank.table])
      for (const auto *calls : {&part.once, &part.repeated, &part.repeated})
        for (const SequencedCall &call : *calls)
          sum = sum +
                static_cast<int64_t>(
                    eventsOf(*findFunction(tableOf(rank), call.call->function))
                        .size());
  if (sum.isAtMost(kMaxEvents))
    return okStatus();
  return wrong(concat("its ranks start and wait ", sum.toString(),
                      " times together; expected at most ", kMaxEvents));
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

Status Meetings::run(const std::vector<Parts> &partsOfTables) {
  OPTRT_RETURN_IF_ERROR(checkSize(partsOfTables));
  OPTRT_RETURN_IF_ERROR(runOnce(partsOfTables));
  if (std::all_of(ranks.begin(), ranks.end(),
                  [](const RankState &rank) { return rank.carried.empty(); }))
    return okStatus();
  // Run again, it begins with what it has left under way.
  const Snapshot before = snapshot();
  OPTRT_RETURN_IF_ERROR(
      runOnce(partsOfTables).withContext("when it is run a second time"));
  if (snapshot() != before)
    return wrong(
        "leaves something else under way when it is run a second time");
  return okStatus();
}

Status Meetings::runOnce(const std::vector<Parts> &partsOfTables) {
  size_t numParts = 0;
  for (const Parts &parts : partsOfTables) {
    numParts = std::max(numParts, parts.size());
    hasTurns |= !parts.front().repeated.empty();
  }
  for (size_t part = 0; part != numParts; ++part) {
    OPTRT_RETURN_IF_ERROR(follow(partsOfTables, part, &SequencePart::once));
    // The last part alone has nothing that is repeated.
    auto repeats = [&](const Parts &parts) {
      return part < parts.size() && !parts[part].repeated.empty();
    };
    const auto numRepeats =
        std::count_if(partsOfTables.begin(), partsOfTables.end(), repeats);
    if (numRepeats == 0)
      continue;
    if (numRepeats != std::ssize(partsOfTables))
      return wrong("has different numbers of loops that the caller counts in "
                   "different tables");
    OPTRT_RETURN_IF_ERROR(follow(partsOfTables, part, &SequencePart::repeated));
    const Snapshot before = snapshot();
    OPTRT_RETURN_IF_ERROR(follow(partsOfTables, part, &SequencePart::repeated));
    if (snapshot() != before)
      return wrong("leaves more under way with each turn of a loop that the "
                   "caller counts");
  }
  return okStatus();
}

/// All ranks go through these calls of a part, to the end.
Status Meetings::follow(const std::vector<Parts> &partsOfTables, size_t part,
                        std::vector<SequencedCall> SequencePart::*calls) {
  static const std::vector<SequencedCall> none;
  // The last is taken first.
  for (uint32_t number = static_cast<uint32_t>(ranks.size()); number-- != 0;) {
    const Parts &parts = partsOfTables[ranks[number].table];
    ranks[number].calls = part < parts.size() ? &(parts[part].*calls) : &none;
    ranks[number].call = ranks[number].event = 0;
    runnable.push_back(number);
  }
  while (!runnable.empty()) {
    RankState &rank = ranks[runnable.back()];
    runnable.pop_back();
    OPTRT_RETURN_IF_ERROR(advance(rank));
  }
  for (const RankState &rank : ranks)
    if (rank.awaited != kNone)
      return stuck(rank);
  return okStatus();
}

/// Goes on until something is not done.
Status Meetings::advance(RankState &rank) {
  for (; rank.call != rank.calls->size(); ++rank.call, rank.event = 0) {
    const SequencedCall &call = (*rank.calls)[rank.call];
    const FunctionT &function =
        *findFunction(tableOf(rank), call.call->function);
    const Events &list = eventsOf(function);
    for (; rank.event != list.size(); ++rank.event) {
      const Event &event = list[rank.event];
      if (!event.isWait) {
        start(rank, call, function, event);
        OPTRT_RETURN_IF_ERROR(settle());
      } else if (!wait(rank, event)) {
        return okStatus();
      }
    }
  }
  return okStatus();
}

void Meetings::start(RankState &rank, const SequencedCall &call,
                     const FunctionT &function, const Event &event) {
  uint32_t number = static_cast<uint32_t>(operations.size());
  if (free.empty()) {
    operations.emplace_back();
  } else {
    number = free.back();
    free.pop_back();
  }
  const CommandT &command = *function.commands[event.command];
  Queue &queue = rank.queues[function.queues[command.queue]->axes];
  operations[number] = {numbers.at(rank.rank),
                        event.command,
                        &call,
                        &function,
                        &queue,
                        false,
                        false};
  (event.carried ? rank.carried[event.carried] : rank.started[event.command]) =
      number;
  if (queue.units.empty() || queue.units.back().isIssued)
    queue.units.emplace_back();
  Unit &unit = queue.units.back();
  unit.members.push_back(number);
  unit.isIssued = event.isLast;
  if (!std::exchange(queue.isPending, true))
    pending.push_back(&queue);
}

/// False where it is not done yet: then the rank stands still.
bool Meetings::wait(RankState &rank, const Event &event) {
  std::map<uint32_t, uint32_t> &from =
      event.carried ? rank.carried : rank.started;
  const auto found = from.find(event.carried ? event.carried : event.awaited);
  // Nothing was carried so far.
  if (found == from.end())
    return true;
  if (!operations[found->second].isDone) {
    rank.awaited = found->second;
    return false;
  }
  rank.awaited = kNone;
  free.push_back(found->second);
  from.erase(found);
  return true;
}

//===----------------------------------------------------------------------===//
// Queues and meetings
//===----------------------------------------------------------------------===//

/// Begins what can begin.
Status Meetings::settle() {
  while (!pending.empty()) {
    Queue &queue = *pending.back();
    pending.pop_back();
    queue.isPending = false;
    if (queue.hasBegun && queue.units.front().members.empty()) {
      queue.units.pop_front();
      queue.hasBegun = false;
    }
    if (queue.units.empty() || queue.hasBegun || !queue.units.front().isIssued)
      continue;
    queue.hasBegun = true;
    const std::vector<uint32_t> members = queue.units.front().members;
    for (uint32_t member : members)
      OPTRT_RETURN_IF_ERROR(arrive(member));
  }
  return okStatus();
}

Status Meetings::arrive(uint32_t number) {
  Operation &one = operations[number];
  one.hasBegun = true;
  const Place place = placeOf(one);
  auto [entry, isNew] = channels.try_emplace(place);
  Channel &channel = entry->second;
  if (isNew)
    channel.size = sizeOf(place);
  // A message has two ends, which one rank may be both of.
  const bool isReceive =
      one.function->commands[one.command]->action.type == Action::Receive;
  const uint64_t turn =
      channel.begun[2 * one.rank + isReceive]++ - channel.numOver;
  if (turn == channel.meetings.size())
    channel.meetings.emplace_back();
  Meeting &meeting = channel.meetings[turn];
  if (!meeting.ends.empty()) {
    const Operation &other = operations[meeting.ends.front()];
    if ((one.function != other.function || one.command != other.command) &&
        whatOf(one) != whatOf(other))
      return disagree(other, one);
  }
  meeting.ends.push_back(number);
  if (meeting.ends.size() != channel.size)
    return okStatus();
  for (uint32_t end : meeting.ends)
    finish(end);
  meeting.isDone = true;
  while (!channel.meetings.empty() && channel.meetings.front().isDone) {
    channel.meetings.pop_front();
    ++channel.numOver;
  }
  return okStatus();
}

void Meetings::finish(uint32_t number) {
  Operation &one = operations[number];
  one.isDone = true;
  std::vector<uint32_t> &open = one.queue->units.front().members;
  std::erase(open, number);
  if (open.empty() && !std::exchange(one.queue->isPending, true))
    pending.push_back(one.queue);
  if (ranks[one.rank].awaited == number)
    runnable.push_back(one.rank);
}

template <typename Message>
static int64_t peerOf(const Message &message, const Mesh &mesh,
                      std::vector<int64_t> coordinates) {
  coordinates[message.axis] = evaluate(*message.peer, coordinates);
  return mesh.rank(coordinates);
}

Meetings::Place Meetings::placeOf(const Operation &one) const {
  const RankState &rank = ranks[one.rank];
  const ActionUnion &action = one.function->commands[one.command]->action;
  if (const SendT *send = action.AsSend())
    return {{send->axis}, rank.rank, peerOf(*send, mesh, rank.coordinates)};
  if (const ReceiveT *receive = action.AsReceive())
    return {
        {receive->axis}, peerOf(*receive, mesh, rank.coordinates), rank.rank};
  const std::vector<uint32_t> &axes = action.AsCollective()->axes;
  return {axes, mesh.firstOfGroup(rank.rank, axes), -1};
}

size_t Meetings::sizeOf(const Place &place) const {
  if (place.to >= 0)
    return 2;
  size_t size = 1;
  for (uint32_t axis : place.axes)
    if (!folded[axis])
      size *= static_cast<size_t>(mesh.axisSize(static_cast<int>(axis)));
  return size;
}

Meetings::Snapshot Meetings::snapshot() const {
  Snapshot all;
  auto add = [&](uint32_t number) {
    const Operation &one = operations[number];
    all.emplace_back(one.rank, one.function, one.command, one.hasBegun,
                     one.isDone);
  };
  for (const RankState &rank : ranks) {
    for (const auto &[axes, queue] : rank.queues)
      for (const Unit &unit : queue.units)
        std::for_each(unit.members.begin(), unit.members.end(), add);
    for (const auto &[token, number] : rank.carried)
      add(number);
  }
  return all;
}

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

/// What both ends of a message, or all of a collective, must have alike.
std::string Meetings::whatOf(const Operation &one) const {
  const CommandT &command = *one.function->commands[one.command];
  const std::string_view type = toString(command.operands[0]->type);
  if (const SendT *send = command.action.AsSend())
    return concat(send->rows, "x", send->cols, " ", type);
  if (const ReceiveT *receive = command.action.AsReceive())
    return concat(receive->rows, "x", receive->cols, " ", type);
  return describeCollective(target, command);
}

/// "call 2 of forward on rank 1: h.1 (send, llama.py:7), command 12".
std::string Meetings::where(const Operation &one) const {
  const RankState &rank = ranks[one.rank];
  return concat(
      one.call->name(), " on rank ", rank.rank, ": ",
      nameWithNumber(target, tableOf(rank), *one.function, one.command));
}

/// "rank 0 sends 1x4 f32 to rank 3 (call 2 of …)".
std::string Meetings::describe(const Operation &one) const {
  const Place place = placeOf(one);
  const ActionUnion &action = one.function->commands[one.command]->action;
  const std::string what = whatOf(one);
  const std::string text =
      action.type == Action::Send
          ? concat("sends ", what, " to rank ", place.to)
      : action.type == Action::Receive
          ? concat("expects ", what, " from rank ", place.first)
          : concat("starts ", what, " on mesh axis ",
                   axesName(mesh, place.axes));
  return concat("rank ", ranks[one.rank].rank, " ", text, " (", where(one),
                ")");
}

Status Meetings::disagree(const Operation &one, const Operation &other) const {
  if (placeOf(one).to >= 0)
    return wrong(concat(describe(one), ", and ", describe(other)));
  return wrong(concat("ranks ", ranks[one.rank].rank, " and ",
                      ranks[other.rank].rank, " start different collectives: ",
                      describe(one), ", and ", describe(other)));
}

/// The operation for which a rank stands still, and the rank of a missing
/// end.
const Meetings::Operation *Meetings::missing(const RankState &rank,
                                             uint32_t &absent) {
  const Operation &awaited = operations[rank.awaited];
  absent = kNone;
  // The first of its queue: others begin after it.
  const Operation &one =
      operations[awaited.queue->units.front().members.front()];
  if (!one.hasBegun)
    return &one;
  const Place place = placeOf(one);
  const Channel &channel = channels.at(place);
  if (place.to >= 0) {
    absent = numbers.at(place.to == rank.rank ? place.first : place.to);
    return &one;
  }
  for (uint32_t other = 0; other != ranks.size(); ++other) {
    const auto begun = channel.begun.find(2 * other);
    if (mesh.firstOfGroup(ranks[other].rank, place.axes) == place.first &&
        (begun == channel.begun.end() ||
         begun->second < channel.begun.at(2 * one.rank))) {
      absent = other;
      break;
    }
  }
  return &one;
}

/// From a rank to the one for which it stands still, and so on.
Status Meetings::stuck(const RankState &first) {
  constexpr int kMostNamed = 4;
  std::string text;
  const RankState *rank = &first;
  for (int i = 0; i != kMostNamed; ++i) {
    uint32_t absent = kNone;
    const Operation &one = *missing(*rank, absent);
    text += describe(one);
    if (absent == kNone)
      return wrong(text + ", which begins with a later one of its group");
    rank = &ranks[absent];
    if (rank->awaited == kNone)
      return wrong(concat(text, "; rank ", rank->rank, " ends",
                          hasTurns ? ", or comes to a loop that the caller "
                                     "counts,"
                                   : "",
                          " without it"));
    text += "; meanwhile ";
    if (rank == &first)
      return wrong(concat("ranks wait for each other: ", text, "rank ",
                          rank->rank, " waits"));
  }
  return wrong(concat("ranks wait for each other: ", text, "others wait"));
}

} // namespace optimus_support::program
