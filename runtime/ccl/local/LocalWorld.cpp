//===- LocalWorld.cpp - Ranks as threads of one process -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalGroup.h"
#include "ProgressThread.h"
#include "Watchdog.h"
#include "optimus-runtime/World.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace optrt {
namespace {

/// A collective that a rank made ready and that nobody waited for then.
struct Ready {
  std::shared_ptr<LocalGroup> group;
  uint64_t sequence;
};

/// What the communicators of one rank share; used by the rank's thread.
struct LocalRank {
  explicit LocalRank(ProgressThread &progress) : progress(progress) {}

  /// Leaves to the progress thread what is still undone.
  void handOver() {
    for (Ready &one : ready)
      if (!one.group->isComplete(one.sequence))
        progress.perform(std::move(one.group), one.sequence);
    ready.clear();
  }

  ProgressThread &progress;
  std::vector<Ready> ready;
  RankActivity activity;
};

class LocalCommunicator final : public Communicator {
public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int index,
                    LocalRank &rank)
      : group(std::move(group)), rankIndex(index), rank(rank) {}

  int size() const override { return group->size(); }
  int index() const override { return rankIndex; }

  Status start(uint32_t id, const optrt_collective_desc &desc, const float *src,
               float *dst) override {
    if (inFlight.size() == kMaxInFlight)
      return tooManyInFlight(id);
    uint64_t sequence = nextSequence++;
    bool leftToOthers = false;
    OPTRT_RETURN_IF_ERROR(
        group->post(sequence, rankIndex, {id, desc, src, dst}, leftToOthers));
    if (leftToOthers)
      rank.ready.push_back({group, sequence});
    inFlight.push_back({id, sequence});
    return okStatus();
  }

  Status wait(uint32_t id) override {
    auto it = std::find_if(inFlight.begin(), inFlight.end(),
                           [&](const InFlight &f) { return f.id == id; });
    if (it == inFlight.end())
      return notStarted(id);
    uint64_t sequence = it->sequence;
    inFlight.erase(it);
    bool sleeps = !group->isReady(sequence);
    if (sleeps) {
      // Whoever sleeps leaves a core, and must not keep work to itself.
      rank.handOver();
      rank.progress.rankSleeps();
    }
    Status status = group->finish(sequence);
    if (sleeps)
      rank.progress.rankWakes();
    lastCompletion = group->completedAt(sequence, Clock::now());
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
    uint32_t id;
    uint64_t sequence;
  };

  std::shared_ptr<LocalGroup> group;
  const int rankIndex;
  LocalRank &rank;
  uint64_t nextSequence = 0;
  std::vector<InFlight> inFlight;
  Clock::time_point lastCompletion;
};

class LocalWorld final : public World {
public:
  ~LocalWorld() override { progress.clear(); }

  std::string_view name() const override { return "local"; }

  Status configure(std::span<const int64_t> axisSizes) override {
    int64_t product = 1;
    for (int64_t axisSize : axisSizes)
      product *= axisSize;
    numRanks = static_cast<int>(product);
    int spins = numRanks <= usableCores() ? 1000 : 0;

    watchdog.reset();
    sizes.assign(axisSizes.begin(), axisSizes.end());
    progress.clear();
    progress.setRanks(numRanks, 0);
    // A single rank performs all it starts when it waits.
    if (numRanks > 1)
      OPTRT_RETURN_IF_ERROR(progress.start());
    groups.clear();
    communicators.clear();
    communicators.resize(numRanks);
    ranks.clear();
    for (int rank = 0; rank != numRanks; ++rank)
      ranks.push_back(std::make_unique<LocalRank>(progress));
    for (std::size_t axis = 0; axis != axisSizes.size(); ++axis) {
      // Ranks that differ only in this axis lie `stride` apart.
      int stride = 1;
      for (std::size_t next = axis + 1; next != axisSizes.size(); ++next)
        stride *= static_cast<int>(axisSizes[next]);
      int n = static_cast<int>(axisSizes[axis]);
      std::vector<std::shared_ptr<LocalGroup>> groupOfFirst(numRanks);
      for (int rank = 0; rank != numRanks; ++rank) {
        int index = rank / stride % n;
        std::shared_ptr<LocalGroup> &group =
            groupOfFirst[rank - index * stride];
        if (!group)
          groups.push_back(group = std::make_shared<LocalGroup>(n, spins));
        communicators[rank].push_back(
            std::make_unique<LocalCommunicator>(group, index, *ranks[rank]));
      }
    }
    return okStatus();
  }

  void expectThreads(int threadsPerRank) override {
    progress.setRanks(numRanks, threadsPerRank);
  }

  int size() const override { return numRanks; }
  int firstRank() const override { return 0; }
  int numLocalRanks() const override { return numRanks; }
  int ranksOnThisHost() const override { return numRanks; }

  Communicator &communicator(int rank, int axis) override {
    return *communicators[rank][axis];
  }

  RankActivity &activity(int rank) override { return ranks[rank]->activity; }

  Status watch(WatchOptions options) override {
    watchdog.reset();
    // One rank waits for nobody.
    if (options.timeoutSeconds <= 0 || numRanks == 1)
      return okStatus();
    std::vector<const RankActivity *> activities;
    for (const std::unique_ptr<LocalRank> &rank : ranks)
      activities.push_back(&rank->activity);
    watchdog = std::make_unique<Watchdog>(
        std::move(activities), MeshAxes{std::move(options.axisNames), sizes},
        options.timeoutSeconds,
        [onStall = std::move(options.onStall)](const Status &status) {
          onStall(status, /*speaks=*/true);
        });
    return watchdog->start();
  }

  void abort() override {
    for (const std::shared_ptr<LocalGroup> &group : groups)
      group->abort();
    // What it works on may be freed next.
    progress.clear();
  }

  std::vector<std::string> allGather(const std::string &own) override {
    return {own};
  }

  Status sendToRoot(int, float *, std::size_t) override { return okStatus(); }

  [[noreturn]] void exitJob(int code) override {
    std::fflush(nullptr);
    std::_Exit(code);
  }

private:
  int numRanks = 1;
  std::vector<int64_t> sizes;
  ProgressThread progress;
  std::vector<std::shared_ptr<LocalGroup>> groups;
  std::vector<std::unique_ptr<LocalRank>> ranks;
  std::vector<std::vector<std::unique_ptr<LocalCommunicator>>> communicators;
  std::unique_ptr<Watchdog> watchdog; ///< last: it looks at the ranks
};

} // namespace

std::unique_ptr<World> createLocalWorld() {
  return std::make_unique<LocalWorld>();
}

} // namespace optrt
