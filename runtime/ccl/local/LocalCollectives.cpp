//===- LocalCollectives.cpp - Collectives among threads of one process ----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../MessageNumbers.h"
#include "LocalGroup.h"
#include "ProgressThread.h"
#include "SharedGpuRank.h"
#include "optimus-support/ResourceLimits.h"

#include <algorithm>

namespace optrt {
namespace {

/// A collective made ready by a rank while nobody waited for it.
struct Ready {
  std::shared_ptr<LocalGroup> group;
  uint64_t sequence;
};

/// What the communicators of one rank share; used by the rank's thread.
struct LocalRank {
  LocalRank(int number, ProgressThread &progress)
      : number(number), progress(progress) {}

  /// Leaves to the progress thread what is still undone.
  void handOver() {
    for (Ready &one : ready)
      if (!one.group->isComplete(one.sequence))
        progress.perform(std::move(one.group), one.sequence);
    ready.clear();
  }

  const int number;
  ProgressThread &progress;
  std::vector<Ready> ready;
};

class LocalCommunicator final : public Communicator {
public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int index,
                    LocalRank &rank)
      : group(std::move(group)), rankIndex(index), rank(rank) {}

  int size() const override { return group->size(); }
  int index() const override { return rankIndex; }

  Status start(CommandId id, const optrt_collective_desc &desc, const void *src,
               void *dst) override {
    if (inFlight.size() == kMaxInFlight)
      return tooManyInFlight();
    InFlight one{id, group, 0};
    int member = rankIndex;
    if (isMessage(desc.kind)) {
      member = desc.kind == OPTRT_RECEIVE;
      one.group = member ? group->messagesBetween(desc.root, rankIndex)
                         : group->messagesBetween(rankIndex, desc.root);
      one.sequence = messages.next(desc);
    } else {
      one.sequence = nextSequence++;
    }
    bool leftToOthers = false;
    OPTRT_RETURN_IF_ERROR(one.group->post(
        one.sequence, member, {rank.number, id, desc, src, dst}, leftToOthers));
    if (leftToOthers)
      rank.ready.push_back({one.group, one.sequence});
    inFlight.push_back(std::move(one));
    return okStatus();
  }

  Status wait(CommandId id) override {
    auto it = std::find_if(inFlight.begin(), inFlight.end(),
                           [&](const InFlight &f) { return f.id == id; });
    if (it == inFlight.end())
      return notStarted();
    const InFlight one = std::move(*it);
    inFlight.erase(it);
    bool sleeps = !one.group->isReady(one.sequence);
    if (sleeps) {
      // Whoever sleeps leaves a core, and must not keep work to itself.
      rank.handOver();
      rank.progress.rankSleeps();
    }
    Status status = one.group->finish(one.sequence);
    if (sleeps)
      rank.progress.rankWakes();
    lastCompletion = one.group->completedAt(one.sequence, Clock::now());
    return status;
  }

  void overlap() override {
    if (!rank.ready.empty())
      rank.handOver();
  }

  Clock::time_point completionOfLastWait() const override {
    return lastCompletion;
  }

private:
  struct InFlight {
    CommandId id;
    std::shared_ptr<LocalGroup> group;
    uint64_t sequence;
  };

  std::shared_ptr<LocalGroup> group;
  const int rankIndex;
  LocalRank &rank;
  uint64_t nextSequence = 0;
  MessageNumbers messages;
  std::vector<InFlight> inFlight;
  Clock::time_point lastCompletion;
};

class LocalCollectives final : public Collectives {
public:
  ~LocalCollectives() override { progress.clear(); }

  std::string_view name() const override { return "local"; }
  bool isQueued(std::string_view device) const override {
    return device == "cuda" && numRanks > 1;
  }

  Status createGroups(ControlPlane &control, const optimus_support::Mesh &mesh,
                      std::span<const Axes> axes) override {
    numRanks = static_cast<int>(mesh.numRanks());
    const int cores = optimus_support::resourceLimits().usableCores();
    int spins = numRanks <= cores ? 1000 : 0;

    progress.clear();
    progress.setRanks(numRanks, 0);
    // A single rank performs all it starts when it waits.
    if (numRanks > 1)
      OPTRT_RETURN_IF_ERROR(progress.start());
    this->control = &control;
    gpu = std::make_unique<SharedGpu>(numRanks);
    gpuGroups.assign(numRanks, {});
    watch = std::make_unique<QueueWatch>();
    groups.clear();
    communicators.clear();
    communicators.resize(numRanks);
    ranks.clear();
    for (int rank = 0; rank != numRanks; ++rank)
      ranks.push_back(std::make_unique<LocalRank>(rank, progress));
    for (const Axes &list : axes) {
      int n = static_cast<int>(mesh.combinedSize(list));
      // By the rank that stands where all members do on the other axes, and
      // first on these.
      std::vector<std::shared_ptr<LocalGroup>> groupOfFirst(numRanks);
      for (int rank = 0; rank != numRanks; ++rank) {
        std::shared_ptr<LocalGroup> &group =
            groupOfFirst[mesh.firstOfGroup(rank, list)];
        if (!group)
          groups.push_back(group =
                               std::make_shared<LocalGroup>(n, spins, control));
        int index = static_cast<int>(mesh.combinedIndex(rank, list));
        communicators[rank].push_back(
            std::make_unique<LocalCommunicator>(group, index, *ranks[rank]));
      }
      addGpuGroups(mesh, list);
    }
    return okStatus();
  }

  Communicator &communicator(int rank, int group) override {
    return *communicators[rank][group];
  }

  StatusOr<std::unique_ptr<QueuedCollectives>> connect(int rank, Device &device,
                                                       double) override {
    OPTRT_RETURN_IF_ERROR(watch->start(*control));
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<SharedGpuRank> made,
                           SharedGpuRank::create(*control, rank, device, *gpu,
                                                 gpuGroups[rank], *watch));
    return std::unique_ptr<QueuedCollectives>(std::move(made));
  }

  void expectThreads(int threadsPerRank, int) override {
    progress.setRanks(numRanks, threadsPerRank);
  }

  void abort(const Status &reason) override {
    for (const std::shared_ptr<LocalGroup> &group : groups)
      group->abort();
    if (gpu) {
      gpu->abort();
      watch->abort(reason);
    }
    // What it works on may be freed next.
    progress.clear();
  }

private:
  void addGpuGroups(const optimus_support::Mesh &mesh, const Axes &axes) {
    for (int first = 0; first != numRanks; ++first) {
      if (mesh.firstOfGroup(first, axes) != first)
        continue;
      std::vector<int> members(mesh.combinedSize(axes));
      for (int rank = 0; rank != numRanks; ++rank)
        if (mesh.firstOfGroup(rank, axes) == first)
          members[mesh.combinedIndex(rank, axes)] = rank;
      auto group = std::make_shared<SharedGpuGroup>(axesName(mesh, axes),
                                                    members, *gpu, *control);
      for (int rank : members)
        gpuGroups[rank].push_back(group);
    }
  }

  int numRanks = 1;
  ControlPlane *control = nullptr;
  ProgressThread progress;
  std::vector<std::shared_ptr<LocalGroup>> groups;
  std::vector<std::unique_ptr<LocalRank>> ranks;
  std::vector<std::vector<std::unique_ptr<LocalCommunicator>>> communicators;
  /// Where ranks compute on a GPU.
  std::unique_ptr<SharedGpu> gpu;
  std::vector<std::vector<std::shared_ptr<SharedGpuGroup>>> gpuGroups;
  std::unique_ptr<QueueWatch> watch;
};

} // namespace

std::unique_ptr<Collectives> createLocalCollectives() {
  return std::make_unique<LocalCollectives>();
}

} // namespace optrt
