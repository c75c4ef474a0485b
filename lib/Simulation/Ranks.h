//===- Ranks.h - Ranks that meet in collectives -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_RANKS_H
#define OPTIMUS_LIB_SIMULATION_RANKS_H

#include "Devices.h"
#include "FoldedNetwork.h"
#include "Folding.h"
#include "Meetings.h"
#include "MessageFlows.h"

#include "optimus/Simulation/Simulator.h"

#include <deque>
#include <limits>
#include <optional>
#include <unordered_map>

namespace optimus_simulation {

/// A place in what a rank does.
struct Position {
  uint32_t call = 0, command = 0;
};

/// Where a rank waited, from `begin` to the end of a meeting.
struct Stop {
  Position position;
  uint32_t meeting;
  Picoseconds begin;
};

/// An event; reasons come before their consequences.
struct Deed {
  enum Kind : uint8_t { Insert, Compute, Copy, Start, Wait, EndCall, Meet };
  Kind kind;
  uint32_t rank = 0;
  Position position = {};
  /// Of Start, Wait and Meet.
  uint32_t meeting = kNoMeeting;
  /// Of Meet: what its members' links had to carry first.
  std::vector<uint32_t> before = {};
};

/// What a rank has started, as it sees it.
struct Transfer {
  uint32_t meeting;
  /// When it was started, and when this rank's link had come to it.
  Picoseconds post, ready = 0;
  /// What the rank had computed when it was started.
  Picoseconds computed;
};

/// Goes through the calls of every actor until all have ended or wait. A rank
/// is an actor here.
class Ranks {
public:
  /// With a `network`, meetings take what its links take; with `cores`,
  /// computing and other meetings what cores take. In place of cores, computing
  /// and collectives may slow each other on devices. `calls` are those of each
  /// table; if they come twice, times are those of the second time.
  Ranks(const TimedProgram &program, const std::vector<CallList> &calls,
        bool isTwice, const WhatIf &whatIf, const Folding &folding,
        FoldedNetwork *network, Contention *cores, bool devicesSlow,
        const SimulationOptions &options);

  /// False where some rank has not come to its end: it waits for ever, or takes
  /// too long.
  bool run();
  bool takesTooLong() const { return isTooLong; }

  int64_t getNumRanks() const { return int64_t(ranks.size()); }
  RankTimes getTimes(int64_t rank) const;
  const std::vector<Picoseconds> &getParts(int64_t rank) const {
    return ranks[rank].parts;
  }
  const std::vector<Exposure> &getExposures(int64_t rank) const {
    return ranks[rank].exposures;
  }
  const std::vector<Stop> &getStops(int64_t rank) const {
    return ranks[rank].stops;
  }
  const Meeting &getMeeting(uint32_t number) const { return meetings[number]; }
  /// Bytes that a link of the network has carried.
  double getCarried(uint32_t link) const {
    return links->getCarried(network->getFolded(link));
  }
  /// How many collectives of the cluster have taken a protocol.
  int64_t countTaken(const Protocol &protocol) const {
    const auto found = protocols.find(&protocol);
    return found == protocols.end() ? 0 : found->second;
  }
  const TimedFunction &getFunction(int64_t rank, uint32_t call) const {
    return *ranks[rank].functions[call];
  }
  /// What a rank computes for a command, and the insertion before it.
  Picoseconds getSeconds(int64_t rank, Position position) const;
  Picoseconds getInserted(int64_t rank, Position position) const;

  /// Of all calls, and of the counted ones, whose time begins with the first of
  /// them; where times are recorded.
  const std::vector<CallTimes> &getCalls(int64_t rank) const {
    return ranks[rank].recorded;
  }
  std::vector<CallTimes> getCountedCalls(int64_t rank) const;
  /// The first counted call of a rank, and when the rank began it.
  uint32_t getFirstCounted(int64_t rank) const {
    return ranks[rank].firstCounted;
  }
  Picoseconds getBegin(int64_t rank) const { return ranks[rank].begin; }

  int64_t countEvents() const { return events; }

  /// How long a rank goes on after the last command of a call.
  Picoseconds getAfter(int64_t rank, uint32_t call) const {
    return call + 1 == ranks[rank].functions.size() ||
                   call + 1 == ranks[rank].firstCounted
               ? program.getEdges(folding.getRank(uint32_t(rank))).after
               : 0;
  }

  /// Where slack is asked for.
  const std::vector<Deed> &getDeeds() const { return deeds; }

  /// For a rank that has not ended: where it is, and what it waits for.
  bool hasEnded(int64_t rank) const {
    return ranks[rank].position.call == ranks[rank].functions.size();
  }
  Position getPosition(int64_t rank) const { return ranks[rank].position; }
  uint32_t getAwaited(int64_t rank) const { return ranks[rank].awaited; }

private:
  /// What starts together on a link.
  using Batch = std::vector<Arrival>;

  /// Carries one batch after the other.
  struct Link {
    Picoseconds free = 0, busy = 0;
    /// The end of the present batch, as far as it is known, and how many of it
    /// are still to meet.
    Picoseconds next = 0;
    uint32_t pending = 0;
    /// The meetings that end at `free` and at `next`.
    uint32_t last = kNoMeeting, lastOfNext = kNoMeeting;
    /// With deeds: the meetings of the present batch, and of the one before.
    std::vector<uint32_t> present, before;
    std::deque<Batch> waiting;
    Batch gathered;
  };

  struct Rank {
    std::vector<const TimedFunction *> functions; ///< by call
    uint32_t firstCounted = 0;
    Position position;
    Picoseconds now = 0, begin = 0;
    RankTimes times;
    /// Counted or not.
    Picoseconds computedInAll = 0;
    /// The last end of what it carries out of a counted call.
    Picoseconds carriedUntil = 0;
    double factor = 1;
    /// The meeting that it waits for, and its link.
    uint32_t awaited = kNoMeeting, awaitedLink = 0;
    /// Whether cores compute its present command.
    bool isComputing = false;
    /// Whether it has computed the insertion before that command.
    bool hasInserted = false;
    /// With cores: what commands and insertions have taken, by call.
    std::vector<std::vector<Picoseconds>> computed, inserted;
    std::vector<Picoseconds> parts;
    std::vector<Exposure> exposures;
    std::vector<Link> links;
    /// Of the present call, by command; of earlier ones, by number.
    std::unordered_map<uint32_t, uint32_t> started, carried;
    /// How many it has started by axes, and by messages' peers.
    std::unordered_map<MeetingKey, uint32_t, MeetingKeyHash> counts;
    /// When copies are done, by command, and when each queue of copies is free.
    std::unordered_map<uint32_t, Picoseconds> copies, copyQueues;
    size_t nextAfterCopy = 0;
    std::vector<Stop> stops;
    std::vector<CallTimes> recorded;
  };

  /// Until the rank waits for a meeting, or has ended.
  void advance(uint32_t number);
  void execute(uint32_t number, Rank &rank, const TimedCommand &command);
  /// With its cores to itself.
  Picoseconds getAlone(int64_t rank, Picoseconds seconds) const;
  void compute(Rank &rank, uint32_t part, Picoseconds seconds);
  /// Computes the insertion before a command, unless it is done. False where
  /// cores are at it.
  bool computeInserted(uint32_t number, Rank &rank,
                       const TimedCommand &command);
  void endInserted(Rank &rank, Picoseconds seconds);
  /// Cores have computed the present command of a rank.
  void endComputing(uint32_t number);
  void record(Rank &rank, const TimedCommand &command, Picoseconds begin);
  /// Of the present command of a rank.
  void keep(Deed::Kind kind, const Rank &rank, uint32_t meeting = kNoMeeting);
  void awaitCopies(Rank &rank);
  void startCopy(Rank &rank, const TimedCommand &command);
  void endCall(Rank &rank);
  /// Forgets the times of the calls before.
  void beginCounting(Rank &rank);

  void start(uint32_t number, Rank &rank, const TimedCommand &command);
  /// Which meeting a command of a rank is for.
  MeetingKey getKey(uint32_t number, const Rank &rank,
                    const TimedCommand &command) const;
  /// False where the rank must wait for it.
  bool wait(Rank &rank, uint32_t transfer, const TimedCommand &command);
  /// Returns for how long it waits.
  Picoseconds account(Rank &rank, const Transfer &transfer, uint32_t name);

  void arrive(Link &link, Batch &batch);
  void advanceLink(Link &link);
  static bool isByLayer(const Batch &batch);
  /// Collectives by layers that an idle link may carry next.
  template <typename Visit>
  void forEachByLayer(Visit visit);
  /// Whether one that goes by layers is to begin before a time; it begins.
  bool beginByLayer(Picoseconds before);
  /// Where nothing else happens any more: collectives by layers come in the
  /// order of their starts, so that the missing ranks are known.
  bool arriveInOrder();
  void runRunnable();
  /// When links or cores do something; kNever where they are idle.
  static constexpr Picoseconds kNever = std::numeric_limits<Picoseconds>::max();
  Picoseconds getNextFlow() const;
  /// The next of what links and cores do.
  void advanceFlows();
  void settle();
  /// Whether a member waits for a meeting, or for one behind it on its link.
  bool isWaitedFor(const Meeting &meeting) const;
  /// Begins what nobody has begun before this rank waited for it.
  void beginHeld(uint32_t number);
  /// Lets a meeting take place whose last member has come.
  void hold(uint32_t number);
  void end(uint32_t number, Picoseconds time);

  const TimedProgram &program;
  const WhatIf &whatIf;
  const Folding &folding;
  FoldedNetwork *network;
  Contention *contention;
  const bool records, keepsDeeds;
  bool isTooLong = false;
  int64_t events = 0;
  /// Of those that wait for links.
  int64_t numByLayer = 0;
  std::optional<SharedLinks> links;
  std::optional<Devices> devices;
  std::optional<MessageFlows> messages;
  std::unordered_map<const Protocol *, int64_t> protocols;
  std::vector<Rank> ranks;
  std::vector<Deed> deeds;
  std::vector<Meeting> meetings;
  std::unordered_map<MeetingKey, uint32_t, MeetingKeyHash> open;
  std::vector<Transfer> transfers;
  std::vector<uint32_t> freeTransfers;
  /// Meetings with all their members, those without anybody in wait yet, and
  /// ranks that may go on.
  std::vector<uint32_t> complete, held, runnable;
  /// By meeting, the ranks that wait for it.
  std::unordered_map<uint32_t, std::vector<uint32_t>> waiting;
};

/// Of all actors, in a step that takes so long.
std::vector<Slack> findSlack(const Ranks &ranks, const Folding &folding,
                             Picoseconds step);

/// What decides when a rank ends, the longest first.
std::vector<CriticalPart> findCriticalPath(const TimedProgram &program,
                                           const Ranks &ranks, int64_t rank);

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_RANKS_H
