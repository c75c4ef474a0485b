//===- LocalControl.cpp - The control plane of thread ranks ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Watchdog.h"

#include <cstdio>
#include <cstdlib>

namespace optrt {
namespace {

class LocalControl final : public ControlPlane {
public:
  Status layOut(const optimus_support::Mesh &newMesh) override {
    watchdog.reset();
    mesh = newMesh;
    activities.clear();
    for (int rank = 0; rank != size(); ++rank)
      activities.push_back(std::make_unique<RankActivity>());
    return okStatus();
  }

  int size() const override { return static_cast<int>(mesh.numRanks()); }
  int firstRank() const override { return 0; }
  int numLocalRanks() const override { return size(); }

  std::vector<std::string> allGather(const std::string &own) override {
    return {own};
  }

  Status exchange(int, std::span<const float>, int, std::span<float>) override {
    return okStatus();
  }

  RankActivity &activity(int rank) override { return *activities[rank]; }

  Status watch(WatchOptions options) override {
    watchdog.reset();
    // One rank waits for nobody.
    if (options.timeoutSeconds <= 0 || size() == 1)
      return okStatus();
    std::vector<const RankActivity *> watched;
    for (const std::unique_ptr<RankActivity> &activity : activities)
      watched.push_back(activity.get());
    watchdog = std::make_unique<Watchdog>(
        std::move(watched), mesh,
        [this](int rank, CommandId command) { return nameOf(rank, command); },
        options.timeoutSeconds,
        [onStall = std::move(options.onStall)](const Status &status) {
          onStall(status, /*speaks=*/true);
          std::_Exit(status.exitCode());
        });
    return watchdog->start();
  }

  [[noreturn]] void exitJob(int code) override {
    std::fflush(nullptr);
    std::_Exit(code);
  }

private:
  optimus_support::Mesh mesh;
  std::vector<std::unique_ptr<RankActivity>> activities;
  std::unique_ptr<Watchdog> watchdog; ///< last: it looks at the ranks
};

} // namespace

std::unique_ptr<ControlPlane> createLocalControl() {
  return std::make_unique<LocalControl>();
}

} // namespace optrt
