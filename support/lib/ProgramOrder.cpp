//===- ProgramOrder.cpp - Order between accesses to the same memory -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every command has a clock: for each queue, how many of its commands are known
// to be done when it begins. A command's clock joins the clock of its
// predecessor on the queue and those of the commands in its edges. Two accesses
// of the same bytes are in order when the later one's clock has the end of the
// earlier one: the command itself or, of a collective, its wait.
//
// Bytes of a base are cut where an access begins or ends, and each piece knows
// who touched it since it was last written whole. Neighbours that the same
// accesses touched become one piece again: what is written whole is one
// piece, however many small buffers lay there before.
//
// What a piece knows stays short. A write that covers the piece stands for all
// accesses before it: what comes after the write comes after them. A read
// stands for the reads done before it.
//
//   [0, 8) written, [4, 12) written, [0, 4) read  →
//   [0, 4): the first write, the read; [4, 12): the second write
//
// Columns of a matrix lie within the same rows. Their places are rounded to
// rows, so that all columns have one piece or two, and not one for each pair.
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ProgramOrder.h"

#include "ProgramCheck.h"

#include "optimus-support/model_abi.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>

namespace optimus_support::program {

namespace {

/// More queues than any device has; a clock has an entry for each.
constexpr size_t kMaxQueues = 64;

class OrderChecker {
public:
  OrderChecker(const TargetT &target, const ProgramTableT &table,
               const FunctionT &function, const Mesh &mesh)
      : target(target), table(table), function(function), mesh(mesh),
        numQueues(function.queues.size()),
        waitOf(function.commands.size(), kNone) {}

  Status check(Checks checks) {
    if (numQueues > kMaxQueues)
      return invalidArgument(concat("has ", numQueues,
                                    " queues; expected at most ", kMaxQueues));
    OPTRT_RETURN_IF_ERROR(checkWaits());
    OPTRT_RETURN_IF_ERROR(checkGroups());
    findEnds();
    collectTouches();
    last.assign(numQueues, kNone);
    clocks.assign(function.commands.size() * numQueues, 0);
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      tick(number);
      OPTRT_RETURN_IF_ERROR(checkTogether(number));
      OPTRT_RETURN_IF_ERROR(checkApart(number));
      if (checks == Checks::All)
        for (const Touch &touch : touchesOfCommand(number))
          OPTRT_RETURN_IF_ERROR(visit(number, touch));
    }
    return okStatus();
  }

  int64_t looks() const { return numLooks; }

private:
  struct Record {
    const Touch *touch;
    uint32_t number;

    bool operator==(const Record &) const = default;
  };
  /// Where a command ends: at itself or, of a collective, at its wait.
  struct End {
    uint32_t command, queue;
  };
  /// The places where a base is cut, and the records of the piece from each to
  /// the next.
  using Pieces = std::map<int64_t, std::vector<Record>>;

  std::string name(uint32_t number) const {
    std::string text = describe(target, table, function, number);
    return function.commands[number]->path == kNone
               ? text
               : concat("command ", number, ", ", text);
  }

  Status checkWaits() {
    std::set<uint32_t> carried;
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      const WaitT *wait = function.commands[number]->action.AsWait();
      if (!wait || wait->command == kNone)
        continue;
      uint32_t &earlier = waitOf[wait->command];
      if (earlier != kNone ||
          carriedOf(*function.commands[wait->command]) != 0)
        return invalidArgument(
            concat(name(number), " waits for ", name(wait->command),
                   ", which a later call or another command waits for"));
      earlier = number;
    }
    std::vector<std::vector<uint32_t>> started(numQueues);
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      const CommandT &command = *function.commands[number];
      // Nothing orders the two on queues of their own.
      if (const WaitT *wait = command.action.AsWait();
          wait && carried.contains(wait->carried))
        return invalidArgument(
            concat(name(number), " waits for number ", wait->carried,
                   ", under which an earlier command starts something; "
                   "expected a wait for that command, or in a later call"));
      if (!isAsynchronous(command))
        continue;
      const uint32_t token = carriedOf(command);
      if (token == 0 && waitOf[number] == kNone)
        return invalidArgument(
            concat("nothing waits for ", name(number)));
      if (token != 0 && !carried.insert(token).second)
        return invalidArgument(
            concat(name(number), " is carried under number ", token,
                   ", as an earlier one is"));
      std::vector<uint32_t> &before = started[command.queue];
      before.push_back(number);
      if (before.size() <= OPTRT_MAX_IN_FLIGHT)
        continue;
      const uint32_t first = before[before.size() - 1 - OPTRT_MAX_IN_FLIGHT];
      if (waitOf[first] > number)
        return invalidArgument(
            concat(name(number), " starts while ", name(first),
                   ", which started ", OPTRT_MAX_IN_FLIGHT,
                   " before it on its queue, is under way"));
    }
    return okStatus();
  }

  Status checkGroups() {
    std::vector<std::set<uint32_t>> closed(numQueues);
    std::vector<uint32_t> open(numQueues, 0);
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      const CommandT &command = *function.commands[number];
      const uint32_t group = groupOf(command);
      uint32_t &current = open[command.queue];
      if (group == current)
        continue;
      if (current != 0)
        closed[command.queue].insert(current);
      current = group;
      if (group != 0 && closed[command.queue].count(group))
        return invalidArgument(concat(name(number), " is of group ", group,
                                      ", which has ended on its queue"));
    }
    return okStatus();
  }

  /// Once waits are known.
  void findEnds() {
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      const uint32_t end =
          isAsynchronous(*function.commands[number]) ? waitOf[number] : number;
      ends.push_back(
          {end, end == kNone ? kNone : function.commands[end]->queue});
    }
  }

  void collectTouches() {
    firstTouch.reserve(function.commands.size() + 1);
    for (const std::unique_ptr<CommandT> &command : function.commands) {
      firstTouch.push_back(touches.size());
      appendTouches(function, *command, mesh, touches);
    }
    firstTouch.push_back(touches.size());
  }

  std::span<const Touch> touchesOfCommand(uint32_t number) const {
    return {touches.data() + firstTouch[number],
            touches.data() + firstTouch[number + 1]};
  }

  /// The pieces of a region's base; in the beginning, one that nobody touched.
  Pieces &piecesOf(const Region &region) {
    auto [found, isNew] = memory.try_emplace({region.base, region.index});
    if (isNew)
      found->second[std::numeric_limits<int64_t>::min()];
    return found->second;
  }

  /// Returns the piece that begins at a place, cut there where none does.
  static Pieces::iterator cut(Pieces &pieces, int64_t place) {
    auto after = pieces.upper_bound(place);
    auto piece = std::prev(after);
    return piece->first == place
               ? piece
               : pieces.emplace_hint(after, place, piece->second);
  }

  uint32_t *clockOf(uint32_t number) {
    return clocks.data() + size_t(number) * numQueues;
  }

  /// Joins what was known when `earlier` began.
  void join(uint32_t number, uint32_t earlier) {
    uint32_t *clock = clockOf(number);
    const uint32_t *known = clockOf(earlier);
    for (size_t queue = 0; queue != numQueues; ++queue)
      clock[queue] = std::max(clock[queue], known[queue]);
  }
  void joinDone(uint32_t number, uint32_t earlier) {
    join(number, earlier);
    uint32_t &done = clockOf(number)[function.commands[earlier]->queue];
    done = std::max(done, earlier + 1);
  }

  void tick(uint32_t number) {
    const CommandT &command = *function.commands[number];
    const uint32_t before = last[command.queue];
    if (before != kNone) {
      // Commands of a queue for communication only begin in order.
      if (isAsynchronous(command))
        join(number, before);
      else
        joinDone(number, before);
    }
    beforeOnQueue = before;
    for (uint32_t earlier : command.after)
      joinDone(number, earlier);
    if (const WaitT *wait = command.action.AsWait();
        wait && wait->command != kNone)
      join(number, wait->command);
    last[command.queue] = number;
  }

  /// Whether `earlier` is done when `number` begins.
  bool isDone(uint32_t earlier, uint32_t number) {
    const End &end = ends[earlier];
    return end.command != kNone && clockOf(number)[end.queue] > end.command;
  }

  /// A member of a group cannot wait for another member of it.
  Status checkTogether(uint32_t number) {
    const uint32_t group = groupOf(*function.commands[number]);
    if (group != 0 && beforeOnQueue != kNone &&
        groupOf(*function.commands[beforeOnQueue]) == group &&
        isDone(beforeOnQueue, number))
      return invalidArgument(
          concat(name(number), " begins after ", name(beforeOnQueue),
                 " is done, with which it starts in group ", group));
    return okStatus();
  }

  /// Whether a command may write where it reads: kernels and the root of a
  /// reduction know when they have read it.
  static bool worksInPlace(const CommandT &command, const Touch &a,
                           const Touch &b) {
    switch (command.action.type) {
    case Action::Launch:
      return true;
    case Action::Collective: {
      const CollectiveKind kind = command.action.AsCollective()->kind;
      return a.region == b.region && (kind == CollectiveKind::AllReduce ||
                                      kind == CollectiveKind::Broadcast ||
                                      kind == CollectiveKind::Reduce);
    }
    default:
      return false;
    }
  }

  Status checkApart(uint32_t number) {
    const CommandT &command = *function.commands[number];
    const std::optional<uint32_t> workspace = workspaceOf(command);
    const std::span<const Touch> list = touchesOfCommand(number);
    for (const Touch &touch : list) {
      if (carriedOf(command) != 0 && touch.region.base != Base::Argument)
        return invalidArgument(concat(
            name(number), " is carried to a later call with memory that is "
                          "not an argument's"));
      for (const Touch &other : list)
        if (touch.operand != other.operand && touch.writes &&
            touch.region.mayOverlap(other.region) &&
            (touch.operand == workspace || other.operand == workspace ||
             !worksInPlace(command, touch, other)))
          return invalidArgument(
              concat(name(number), " writes memory of operand ", touch.operand,
                     " that it touches as operand ", other.operand));
    }
    return okStatus();
  }

  /// Bytes [begin, end) around a region that end where its rows could.
  static std::pair<int64_t, int64_t> rowsAround(const Region &region) {
    if (region.rows == 1)
      return {region.begin, region.end()};
    auto downToRow = [&](int64_t place) {
      const int64_t rest = place % region.pitch;
      return place - (rest < 0 ? rest + region.pitch : rest);
    };
    return {downToRow(region.begin), -downToRow(-region.end())};
  }

  Status visit(uint32_t number, const Touch &touch) {
    if (touch.region.rowBytes == 0)
      return okStatus();
    Pieces &pieces = piecesOf(touch.region);
    const auto [begin, stop] = rowsAround(touch.region);
    const auto first = cut(pieces, begin);
    const auto end = cut(pieces, stop);
    for (auto piece = first; piece != end; ++piece)
      OPTRT_RETURN_IF_ERROR(visit(number, touch, piece->second));
    for (auto piece = std::next(first); piece != end;)
      piece = piece->second == std::prev(piece)->second ? pieces.erase(piece)
                                                        : std::next(piece);
    return okStatus();
  }

  /// Checks an access against those of a piece, and counts it among them.
  Status visit(uint32_t number, const Touch &touch,
               std::vector<Record> &records) {
    numLooks += 1 + int64_t(records.size());
    const Region &region = touch.region;
    const bool coversPiece = region.rows == 1;
    size_t kept = 0;
    for (const Record &record : records) {
      const Touch &earlier = *record.touch;
      if (record.number != number) {
        const bool isOver = isDone(record.number, number);
        if (!isOver && (touch.writes || earlier.writes) &&
            region.mayOverlap(earlier.region))
          return unordered(number, touch, record);
        if ((touch.writes || (!earlier.writes && isOver)) &&
            (coversPiece || region.contains(earlier.region)))
          continue;
      }
      records[kept++] = record;
    }
    records.resize(kept);
    records.push_back({&touch, number});
    return okStatus();
  }

  Status unordered(uint32_t number, const Touch &touch, const Record &record) {
    return invalidArgument(
        concat(name(number), touch.writes ? " writes" : " reads", " what ",
               name(record.number), record.touch->writes ? " writes" : " reads",
               ", and nothing orders the two: expected both on one queue, or "
               "the later one after the earlier one"));
  }

  const TargetT &target;
  const ProgramTableT &table;
  const FunctionT &function;
  const Mesh &mesh;
  const size_t numQueues;
  int64_t numLooks = 0;
  /// Of a collective, send or receive: the command that waits for it.
  std::vector<uint32_t> waitOf;
  std::vector<End> ends;
  /// Those of all commands, and where each command's begin.
  std::vector<Touch> touches;
  std::vector<size_t> firstTouch;
  std::map<std::pair<Base, uint32_t>, Pieces> memory;
  std::vector<uint32_t> last;
  std::vector<uint32_t> clocks;
  /// The command before the one that ticked last, on its queue.
  uint32_t beforeOnQueue = kNone;
};

} // namespace

uint32_t groupOf(const CommandT &command) {
  if (const CollectiveT *one = command.action.AsCollective())
    return one->group;
  if (const SendT *one = command.action.AsSend())
    return one->group;
  if (const ReceiveT *one = command.action.AsReceive())
    return one->group;
  return 0;
}

uint32_t carriedOf(const CommandT &command) {
  if (const CollectiveT *one = command.action.AsCollective())
    return one->carried;
  if (const SendT *one = command.action.AsSend())
    return one->carried;
  if (const ReceiveT *one = command.action.AsReceive())
    return one->carried;
  return 0;
}

Status checkOrder(const TargetT &target, const ProgramTableT &table,
                  const FunctionT &function, const Mesh &mesh, Checks checks,
                  int64_t *looks) {
  OrderChecker checker(target, table, function, mesh);
  Status status = checker.check(checks);
  if (looks)
    *looks = checker.looks();
  return status;
}

} // namespace optimus_support::program
