//===- MpiControl.cpp - The control plane over MPI ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../InControlPlane.h"
#include "../peers/PeerMonitor.h"
#include "MpiProcess.h"
#include "optimus-runtime/Exception.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace optrt {
namespace {

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

  std::vector<std::string> allGather(const std::string &own) override {
    StatusOr<std::vector<std::string>> all = gatherAll(own);
    if (!all.ok())
      throw StatusException(all.status());
    return std::move(all).value();
  }

  Status exchange(int to, std::span<const float> out, int from,
                  std::span<float> in) override {
    std::lock_guard guard(process->engine.lock());
    InControlPlane here(ownActivity.get());
    // In parts, because MPI counts in int.
    constexpr std::size_t kMost = std::size_t(1) << 28;
    while (!out.empty() || !in.empty()) {
      const std::size_t sent = std::min(kMost, out.size());
      const std::size_t received = std::min(kMost, in.size());
      std::array<MPI_Request, 2> both;
      OPTIMUS_MPI_CHECK(MPI_Irecv, in.data(), static_cast<int>(received),
                        MPI_FLOAT, received > 0 ? from : MPI_PROC_NULL, 0,
                        process->all, &both[0]);
      OPTIMUS_MPI_CHECK(MPI_Isend, out.data(), static_cast<int>(sent),
                        MPI_FLOAT, sent > 0 ? to : MPI_PROC_NULL, 0,
                        process->all, &both[1]);
      OPTRT_RETURN_IF_ERROR(process->engine.waitForAll(both));
      out = out.subspan(sent);
      in = in.subspan(received);
    }
    return okStatus();
  }

  RankActivity &activity(int) override { return *ownActivity; }

  Status watch(WatchOptions options) override {
    monitor.reset();
    if (options.timeoutSeconds <= 0 || size() == 1)
      return okStatus();
    StatusOr<PeerSockets> sockets = connectOverlay(*this, makePeerTerms(*this));
    OPTRT_RETURN_IF_ERROR(
        agree(sockets.status().withAdvice("--timeout 0 does without that")));
    std::vector<std::string> places = allGather(ownPlace());
    monitor = std::make_unique<PeerMonitor>(
        std::move(sockets).value(),
        PeerMonitor::Options{
            firstRank(), size(), options.timeoutSeconds, mesh,
            [this](int rank, CommandId id) { return nameOf(rank, id); },
            ownActivity.get(), std::move(places), std::move(options.onStall)});
    return agree(monitor->start());
  }

  [[noreturn]] void exitJob(int code) override {
    std::fflush(nullptr);
    if (monitor)
      monitor->endAll(code);
    // Those who do not hear it. Ends this process too, where MPI can.
    warnOfMpi("MPI_Abort", MPI_Abort(MPI_COMM_WORLD, code));
    std::_Exit(code);
  }

private:
  StatusOr<std::vector<std::string>> gatherAll(const std::string &own) {
    std::lock_guard guard(process->engine.lock());
    InControlPlane here(ownActivity.get(), place());
    int length = static_cast<int>(own.size());
    std::vector<int> lengths(process->size), offsets(process->size);
    std::array<MPI_Request, 1> request;
    OPTIMUS_MPI_CHECK(MPI_Iallgather, &length, 1, MPI_INT, lengths.data(), 1,
                      MPI_INT, process->all, request.data());
    OPTRT_RETURN_IF_ERROR(process->engine.waitForAll(request));
    int total = 0;
    for (int r = 0; r != process->size; ++r) {
      offsets[r] = total;
      total += lengths[r];
    }
    std::string text(total, '\0');
    OPTIMUS_MPI_CHECK(MPI_Iallgatherv, own.data(), length, MPI_CHAR,
                      text.data(), lengths.data(), offsets.data(), MPI_CHAR,
                      process->all, request.data());
    OPTRT_RETURN_IF_ERROR(process->engine.waitForAll(request));
    std::vector<std::string> all;
    for (int r = 0; r != process->size; ++r)
      all.push_back(text.substr(offsets[r], lengths[r]));
    return all;
  }

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
