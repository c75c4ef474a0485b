//===- ProgramMeetings.h - All ranks, step by step --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows all ranks of a target through their sequences, as far as they wait
// for each other, under the weakest rule of a back-end: what a queue starts
// begins when all before it on the queue is done; a message or a collective is
// done when all its ends have begun; and a rank that waits does nothing else.
// Whoever lets more happen at once, in buffers or beside each other, only
// begins sooner, so what ends here ends there.
//
// Along a mesh axis without messages and with the same tables, ranks do the
// same at the same time: the first stands for all.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_LIB_PROGRAMMEETINGS_H
#define OPTIMUS_SUPPORT_LIB_PROGRAMMEETINGS_H

#include "optimus-support/ProgramSequence.h"

#include <compare>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

namespace optimus_support::program {

/// What a rank does of a sequence, a part after the other.
using Parts = std::vector<SequencePart>;

class Meetings {
public:
  Meetings(const TargetT &target, const Mesh &mesh);

  /// Whether a rank can wait for another one that does something else.
  bool canDiffer() const { return hasMessages || ranks.size() > 1; }

  /// Follows ranks through parts, one list a table, whose steps were checked.
  /// Twice, where something is left under way: it begins the second time. What
  /// ranks wait for is started, or was carried by an earlier run.
  Status run(const std::vector<Parts> &partsOfTables);

private:
  Status runOnce(const std::vector<Parts> &partsOfTables);
  /// What a command starts or waits for.
  struct Event {
    uint32_t command;
    /// Of a start: whether it is the last of those that start together.
    bool isWait, isLast;
    uint32_t carried; ///< or 0
    uint32_t awaited; ///< by a Wait: the command of its function
  };
  using Events = std::vector<Event>;

  /// What starts together: the operations, by their numbers, that are not done.
  struct Unit {
    std::vector<uint32_t> members;
    bool isIssued = false; ///< whether all its members have been started
  };
  /// The operations on some mesh axes of a rank.
  struct Queue {
    std::deque<Unit> units;
    bool hasBegun = false; ///< its first unit
    bool isPending = false;
  };
  /// A collective or an end of a message, from its start to its Wait.
  struct Operation {
    uint32_t rank;
    uint32_t command;
    const SequencedCall *call;
    const FunctionT *function;
    Queue *queue;
    bool hasBegun, isDone;
  };
  /// One communication: which ends have begun.
  struct Meeting {
    std::vector<uint32_t> ends;
    bool isDone = false;
  };
  /// Where ranks meet: for collectives some axes and the first rank of a group,
  /// for messages an axis, the sender and the receiver.
  struct Place {
    std::vector<uint32_t> axes;
    int64_t first, to;
    auto operator<=>(const Place &) const = default;
  };
  struct Channel {
    size_t size = 0; ///< ends of each meeting
    std::deque<Meeting> meetings;
    uint64_t numOver = 0;               ///< meetings before those
    std::map<uint32_t, uint64_t> begun; ///< by each rank
  };
  struct RankState {
    int64_t rank; ///< in the mesh
    uint32_t table;
    std::vector<int64_t> coordinates;
    const std::vector<SequencedCall> *calls = nullptr;
    size_t call = 0, event = 0;
    std::map<uint32_t, uint32_t> started; ///< of the call, by their commands
    std::map<uint32_t, uint32_t> carried; ///< by their numbers
    std::map<std::vector<uint32_t>, Queue> queues;
    uint32_t awaited = kNone; ///< the operation for which it stands still
  };

  const ProgramTableT &tableOf(const RankState &rank) const {
    return *target.tables[rank.table];
  }
  void foldAxes(const std::vector<uint32_t> &tables);
  const Events &eventsOf(const FunctionT &function);
  Status checkSize(const std::vector<Parts> &partsOfTables);
  Status follow(const std::vector<Parts> &partsOfTables, size_t part,
                std::vector<SequencedCall> SequencePart::*calls);
  Status advance(RankState &rank);
  void start(RankState &rank, const SequencedCall &call,
             const FunctionT &function, const Event &event);
  bool wait(RankState &rank, const Event &event);
  Status settle();
  Status arrive(uint32_t number);
  void finish(uint32_t number);
  Place placeOf(const Operation &one) const;
  size_t sizeOf(const Place &place) const;
  std::string whatOf(const Operation &one) const;
  std::string describe(const Operation &one) const;
  std::string where(const Operation &one) const;
  Status disagree(const Operation &one, const Operation &other) const;
  Status stuck(const RankState &first);
  const Operation *missing(const RankState &rank, uint32_t &absent);
  using Snapshot = std::vector<
      std::tuple<uint32_t, const FunctionT *, uint32_t, bool, bool>>;
  Snapshot snapshot() const;

  const TargetT &target;
  const Mesh &mesh;
  bool hasMessages = false;
  bool hasTurns = false;        ///< whether some loop is counted by the caller
  std::vector<bool> folded;     ///< axes
  std::vector<RankState> ranks; ///< those that stand for all
  std::map<int64_t, uint32_t> numbers; ///< of them, by their ranks in the mesh
  std::map<const FunctionT *, Events> events;
  std::map<Place, Channel> channels;
  std::vector<Operation> operations;
  std::vector<uint32_t> free; ///< operations that are over
  std::vector<Queue *> pending;
  std::vector<uint32_t> runnable;
};

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_LIB_PROGRAMMEETINGS_H
