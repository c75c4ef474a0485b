//===- MpiControl.cpp - The control plane over MPI ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MpiProcess.h"
#include "PeerMonitor.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace optrt {
namespace {

/// While it lives, the rank waits for others outside any collective.
class InControlPlane {
public:
  explicit InControlPlane(RankActivity *activity) : activity(activity) {
    if (!activity)
      return;
    activity->waitingAxis.store(-1, std::memory_order_relaxed);
    activity->since.store(
        std::chrono::steady_clock::now().time_since_epoch().count(),
        std::memory_order_release);
  }
  ~InControlPlane() {
    if (activity)
      activity->since.store(0, std::memory_order_relaxed);
  }
  InControlPlane(const InControlPlane &) = delete;
  InControlPlane &operator=(const InControlPlane &) = delete;

private:
  RankActivity *const activity;
};

class MpiControl final : public ControlPlane {
public:
  explicit MpiControl(std::shared_ptr<MpiProcess> process)
      : process(std::move(process)) {}

  Status layOut(const optimus_support::Mesh &newMesh) override {
    monitor.reset();
    std::string sizes;
    for (const optimus_support::MeshAxis &axis : newMesh.axes())
      sizes = concat(sizes, sizes.empty() ? "" : "x", axis.size);
    if (newMesh.numRanks() != size())
      return invalidArgument(
          concat("the library is compiled for a mesh of ", sizes, " = ",
                 newMesh.numRanks(), " ranks, but MPI started ", size(),
                 "; run `mpirun -n ", newMesh.numRanks(), "`"));
    mesh = newMesh;
    ownActivity = std::make_unique<RankActivity>();
    return okStatus();
  }

  int size() const override { return process->size; }
  int firstRank() const override { return process->rank; }
  int numLocalRanks() const override { return 1; }
  int ranksOnThisHost() const override { return process->ranksOnThisHost; }

  std::vector<std::string> allGather(const std::string &own) override {
    std::lock_guard guard(process->engine.lock());
    InControlPlane here(ownActivity.get());
    int length = static_cast<int>(own.size());
    std::vector<int> lengths(process->size), offsets(process->size);
    MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT,
                  MPI_COMM_WORLD);
    int total = 0;
    for (int r = 0; r != process->size; ++r) {
      offsets[r] = total;
      total += lengths[r];
    }
    std::string text(total, '\0');
    MPI_Allgatherv(own.data(), length, MPI_CHAR, text.data(), lengths.data(),
                   offsets.data(), MPI_CHAR, MPI_COMM_WORLD);
    std::vector<std::string> all;
    for (int r = 0; r != process->size; ++r)
      all.push_back(text.substr(offsets[r], lengths[r]));
    return all;
  }

  Status sendToRoot(int rank, float *data, std::size_t count) override {
    if (rank == 0 || (process->rank != 0 && process->rank != rank))
      return okStatus();
    std::lock_guard guard(process->engine.lock());
    InControlPlane here(ownActivity.get());
    // In pieces, because MPI counts in int.
    constexpr std::size_t kPiece = std::size_t(1) << 28;
    for (std::size_t begin = 0; begin < count; begin += kPiece) {
      int length = static_cast<int>(std::min(kPiece, count - begin));
      if (process->rank == 0)
        OPTIMUS_MPI_CHECK(MPI_Recv, data + begin, length, MPI_FLOAT, rank, 0,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      else
        OPTIMUS_MPI_CHECK(MPI_Send, data + begin, length, MPI_FLOAT, 0, 0,
                          MPI_COMM_WORLD);
    }
    return okStatus();
  }

  RankActivity &activity(int) override { return *ownActivity; }

  Status watch(WatchOptions options) override {
    monitor.reset();
    if (options.timeoutSeconds <= 0 || size() == 1)
      return okStatus();
    StatusOr<PeerListener> listener = PeerListener::open();
    OPTRT_RETURN_IF_ERROR(agree(listener.status()));
    StatusOr<PeerSockets> sockets =
        listener->connectAll(firstRank(), allGather(listener->address()));
    OPTRT_RETURN_IF_ERROR(agree(sockets.status()));
    monitor = std::make_unique<PeerMonitor>(
        std::move(sockets).value(),
        PeerMonitor::Options{
            firstRank(), size(), options.timeoutSeconds, mesh,
            [this](int rank, CommandId id) { return nameOf(rank, id); },
            ownActivity.get(), std::move(options.onStall)});
    return agree(monitor->start());
  }

  [[noreturn]] void exitJob(int code) override {
    std::fflush(nullptr);
    if (monitor)
      monitor->quit();
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

private:
  const std::shared_ptr<MpiProcess> process;
  optimus_support::Mesh mesh;
  std::unique_ptr<RankActivity> ownActivity;
  std::unique_ptr<PeerMonitor> monitor; ///< last: it looks at the rank
};

} // namespace

std::unique_ptr<ControlPlane>
createMpiControl(std::shared_ptr<MpiProcess> process) {
  return std::make_unique<MpiControl>(std::move(process));
}

} // namespace optrt
