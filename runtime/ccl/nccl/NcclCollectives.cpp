//===- NcclCollectives.cpp - Collectives between GPUs over NCCL -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NcclRank.h"

#include "optimus-runtime/World.h"

#include <cstdlib>
#include <cstring>

namespace optrt {
namespace {

using namespace nccl;

class NcclCollectives final : public Collectives {
public:
  std::string_view name() const override { return "nccl"; }
  bool needsGpus() const override { return true; }

  /// Agrees on an id for each group, which its first member makes.
  /// Communicators are made with devices.
  Status createGroups(ControlPlane &control, const optimus_support::Mesh &mesh,
                      std::span<const Axes> axes) override {
    std::string own;
    watch = std::make_unique<QueueWatch>();
    OPTRT_RETURN_IF_ERROR(control.agree(makeIds(control, mesh, axes, own)));
    std::string all;
    for (const std::string &ids : control.allGather(own))
      all += ids;
    this->control = &control;
    groups.assign(control.numLocalRanks(), {});
    for (int rank = 0; rank != mesh.numRanks(); ++rank)
      for (std::size_t number = 0; number != axes.size(); ++number) {
        if (mesh.firstOfGroup(rank, axes[number]) != rank)
          continue;
        NcclGroup group;
        group.name = axesName(mesh, axes[number]);
        group.members = membersOf(mesh, axes[number], rank);
        group.membership.size = int(mesh.combinedSize(axes[number]));
        std::memcpy(&group.membership.id, all.data(), sizeof(UniqueId));
        all.erase(0, sizeof(UniqueId));
        addMembers(mesh, axes, number, rank, group);
      }
    return okStatus();
  }

  StatusOr<std::unique_ptr<QueuedCollectives>>
  connect(int rank, Device &device, double timeoutSeconds) override {
    OPTRT_ASSIGN_OR_RETURN(const NcclLibrary *library, NcclLibrary::open());
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<NcclRank> joined,
                           NcclRank::join(*library, *control, rank, device,
                                          groups[rank - control->firstRank()],
                                          timeoutSeconds, *watch));
    return std::unique_ptr<QueuedCollectives>(std::move(joined));
  }

  /// Nobody asks for what moves memory of the host's.
  Communicator &communicator(int, int) override { std::abort(); }
  void expectThreads(int, int) override {}
  void abort(const Status &reason) override { watch->abort(reason); }

private:
  /// Those of groups whose first member is a rank of this process, in the order
  /// of ranks and then of groups.
  Status makeIds(ControlPlane &control, const optimus_support::Mesh &mesh,
                 std::span<const Axes> axes, std::string &ids) {
    OPTRT_ASSIGN_OR_RETURN(const NcclLibrary *library, NcclLibrary::open());
    OPTRT_RETURN_IF_ERROR(watch->start(control));
    const int first = control.firstRank();
    for (int rank = first; rank != first + control.numLocalRanks(); ++rank)
      for (const Axes &list : axes) {
        if (mesh.firstOfGroup(rank, list) != rank)
          continue;
        UniqueId id;
        OPTRT_RETURN_IF_ERROR(library->check(library->api().getUniqueId(&id),
                                             "ncclGetUniqueId", nullptr));
        ids.append(id.bytes, sizeof(id));
      }
    return okStatus();
  }

  /// Adds the group `number`, with `first` as its first member, to its ranks in
  /// this process.
  void addMembers(const optimus_support::Mesh &mesh, std::span<const Axes> axes,
                  std::size_t number, int first, NcclGroup group) {
    for (std::size_t i = 0; i != groups.size(); ++i) {
      const int rank = control->firstRank() + int(i);
      if (mesh.firstOfGroup(rank, axes[number]) != first)
        continue;
      group.membership.index = int(mesh.combinedIndex(rank, axes[number]));
      groups[i].resize(axes.size());
      groups[i][number] = group;
    }
  }

  /// Of the group whose first member is a rank.
  static std::string membersOf(const optimus_support::Mesh &mesh,
                               const Axes &axes, int first) {
    std::string members;
    for (int rank = first; rank != mesh.numRanks(); ++rank)
      if (mesh.firstOfGroup(rank, axes) == first)
        members += concat(members.empty() ? "ranks " : ", ", rank);
    return members;
  }

  ControlPlane *control = nullptr;
  std::vector<std::vector<NcclGroup>> groups; ///< of each rank of this process
  std::unique_ptr<QueueWatch> watch;
};

} // namespace

std::unique_ptr<Collectives> createNcclCollectives() {
  return std::make_unique<NcclCollectives>();
}

} // namespace optrt
