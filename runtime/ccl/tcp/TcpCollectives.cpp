//===- TcpCollectives.cpp - Collectives over TCP --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TcpCollectives.h"

#include "../InFlightSlots.h"
#include "../MessageNumbers.h"
#include "../peers/PeerSockets.h"
#include "TcpEngine.h"

#include <sstream>

namespace optrt {
namespace {

class TcpCommunicator final : public Communicator {
public:
  TcpCommunicator(TcpGroup &group, TcpEngine &engine)
      : group(group), engine(engine) {}

  int size() const override { return group.members.size(); }
  int index() const override { return group.members.index; }

  Status start(CommandId id, const optrt_collective_desc &desc, const void *src,
               void *dst) override {
    InFlight *free = inFlight.findFree();
    if (!free)
      return tooManyInFlight();
    free->used = true;
    free->id = id;
    OPTRT_RETURN_IF_ERROR(free->operation.begin(
        group.members, isMessage(desc.kind) ? messages.next(desc) : sequence++,
        id, desc, src, dst));
    if (!free->operation.isDone())
      engine.add(group, free->operation);
    return okStatus();
  }

  Status wait(CommandId id) override {
    InFlight *one = inFlight.find(id);
    if (!one)
      return notStarted();
    OPTRT_RETURN_IF_ERROR(engine.waitFor(group, one->operation));
    one->used = false;
    lastCompletion = one->operation.completedAt();
    return okStatus();
  }

  /// The engine's thread moves everything all the time.
  void overlap() override {}

  std::vector<int64_t>
  bufferBytes(const optrt_collective_desc &desc) const override {
    return TcpOperation::bufferBytes(group.members, desc);
  }

  Clock::time_point completionOfLastWait() const override {
    return lastCompletion;
  }

private:
  struct InFlight {
    TcpOperation operation;
    CommandId id;
    bool used = false; ///< started and not waited for
  };

  TcpGroup &group;
  TcpEngine &engine;
  InFlightSlots<InFlight> inFlight;
  uint64_t sequence = 0;
  MessageNumbers messages;
  Clock::time_point lastCompletion;
};

class TcpCollectives final : public Collectives {
public:
  explicit TcpCollectives(const PeerTerms &terms) : terms(terms) {}

  std::string_view name() const override { return "tcp"; }

  Status createGroups(ControlPlane &control, const optimus_support::Mesh &mesh,
                      std::span<const Axes> axes) override {
    OPTRT_RETURN_IF_ERROR(control.agree(engine.start()));
    std::vector<PeerListener> listeners;
    auto listen = [&]() -> Status {
      for (std::size_t i = 0; i != axes.size(); ++i) {
        OPTRT_ASSIGN_OR_RETURN(PeerListener listener,
                               PeerListener::open(terms));
        listeners.push_back(std::move(listener));
      }
      return okStatus();
    };
    OPTRT_RETURN_IF_ERROR(control.agree(listen()));
    // A line for each group, of each rank.
    std::string own;
    for (const PeerListener &listener : listeners)
      own += listener.address() + '\n';
    std::vector<std::istringstream> lines;
    for (std::string &text : control.allGather(own))
      lines.emplace_back(std::move(text));

    const int rank = control.firstRank();
    std::vector<std::unique_ptr<TcpGroup>> groups;
    for (std::size_t i = 0; i != axes.size(); ++i) {
      std::vector<std::string> addresses(lines.size());
      for (std::size_t other = 0; other != lines.size(); ++other)
        std::getline(lines[other], addresses[other]);
      OPTRT_ASSIGN_OR_RETURN(
          TcpMembers members,
          connect(listeners[i], rank, addresses, mesh, axes[i]));
      members.control = &control;
      groups.push_back(std::make_unique<TcpGroup>());
      groups.back()->members = std::move(members);
    }
    engine.look({}); // before what it looked at is gone
    communicators.clear();
    engine.look(std::move(groups));
    for (std::size_t i = 0; i != axes.size(); ++i)
      communicators.push_back(
          std::make_unique<TcpCommunicator>(engine.group(i), engine));
    return okStatus();
  }

  Communicator &communicator(int, int group) override {
    return *communicators[group];
  }

  /// It sleeps whenever nothing can be moved.
  void expectThreads(int, int) override {}

  void abort(const Status &) override { engine.abort(); }

private:
  static StatusOr<TcpMembers> connect(PeerListener &listener, int rank,
                                      const std::vector<std::string> &addresses,
                                      const optimus_support::Mesh &mesh,
                                      const Axes &axes) {
    TcpMembers members;
    members.index = static_cast<int>(mesh.combinedIndex(rank, axes));
    members.ranks.resize(mesh.combinedSize(axes));
    std::vector<int> others;
    for (int other = 0; other != mesh.numRanks(); ++other) {
      if (mesh.firstOfGroup(other, axes) != mesh.firstOfGroup(rank, axes))
        continue;
      members.ranks[mesh.combinedIndex(other, axes)] = other;
      if (other != rank)
        others.push_back(other);
    }
    OPTRT_ASSIGN_OR_RETURN(PeerSockets sockets,
                           listener.connect(rank, others, addresses));
    for (int other : members.ranks)
      members.sockets.push_back(std::move(sockets[other]));
    return members;
  }

  const PeerTerms terms;
  std::vector<std::unique_ptr<TcpCommunicator>> communicators;
  TcpEngine engine; ///< last: it looks at what they have in flight
};

} // namespace

std::unique_ptr<Collectives> createTcpCollectives(const PeerTerms &terms) {
  return std::make_unique<TcpCollectives>(terms);
}

} // namespace optrt
