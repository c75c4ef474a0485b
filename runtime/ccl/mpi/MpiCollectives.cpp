//===- MpiCollectives.cpp - Collectives over MPI --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../InFlightSlots.h"
#include "../MessageNumbers.h"
#include "MpiProcess.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace optrt {
namespace {

class MpiCommunicator final : public Communicator {
public:
  /// Takes ownership of `comm`.
  static StatusOr<std::unique_ptr<MpiCommunicator>>
  create(MPI_Comm comm, ProgressEngine &engine) {
    std::unique_ptr<MpiCommunicator> created(new MpiCommunicator(comm, engine));
    Members &members = created->members;
    OPTIMUS_MPI_CHECK(MPI_Comm_size, comm, &members.size);
    OPTIMUS_MPI_CHECK(MPI_Comm_rank, comm, &members.index);
    OPTRT_ASSIGN_OR_RETURN(int here, ranksOfThisHost(comm));
    const char *choice = std::getenv("OPTIMUS_MPI_BROADCAST");
    members.chainBroadcast =
        choice ? std::strcmp(choice, "chain") == 0 : here < members.size;
    return created;
  }
  ~MpiCommunicator() override {
    warnOfMpi("MPI_Comm_free", MPI_Comm_free(&members.comm));
  }
  MpiCommunicator(const MpiCommunicator &) = delete;
  MpiCommunicator &operator=(const MpiCommunicator &) = delete;

  int size() const override { return members.size; }
  int index() const override { return members.index; }

  Status start(CommandId id, const optrt_collective_desc &desc, const void *src,
               void *dst) override {
    InFlight *free = inFlight.findFree();
    if (!free)
      return tooManyInFlight();
    const int tag = nextTag(desc);
    free->id = id;
    free->complete.store(false, std::memory_order_relaxed);
    std::lock_guard guard(engine.lock());
    OPTRT_RETURN_IF_ERROR(free->operation.begin(members, tag, desc, src, dst));
    free->used = true;
    if (free->operation.isDone())
      free->complete.store(true, std::memory_order_relaxed);
    else
      engine.add(*free);
    return okStatus();
  }

  Status wait(CommandId id) override {
    InFlight *one = inFlight.find(id);
    if (!one)
      return notStarted();
    engine.waitFor(*one);
    one->used = false;
    lastCompletion = one->operation.completedAt();
    return one->status;
  }

  void overlap() override { engine.overlap(); }

  std::vector<int64_t>
  bufferBytes(const optrt_collective_desc &desc) const override {
    return Operation::bufferBytes(members, desc);
  }

  Clock::time_point completionOfLastWait() const override {
    return lastCompletion;
  }

private:
  MpiCommunicator(MPI_Comm comm, ProgressEngine &engine)
      : members{comm, 0, 0, false}, engine(engine) {}

  /// Tells operations apart that are in flight at the same time, with two
  /// numbers each, collectives from messages, and messages from those between
  /// the same members; MPI allows 32767 at least.
  int nextTag(const optrt_collective_desc &desc) {
    constexpr uint64_t kApart = 4 * kMaxInFlight;
    static_assert(4 * kApart <= 32767);
    return 2 * static_cast<int>(isMessage(desc.kind)
                                    ? kApart + messages.next(desc) % kApart
                                    : sequence++ % kApart);
  }

  Members members;
  ProgressEngine &engine;
  InFlightSlots<InFlight> inFlight;
  uint64_t sequence = 0;
  MessageNumbers messages;
  Clock::time_point lastCompletion;
};

class MpiCollectives final : public Collectives {
public:
  explicit MpiCollectives(std::shared_ptr<MpiProcess> process)
      : process(std::move(process)) {}

  std::string_view name() const override { return "mpi"; }

  Status createGroups(ControlPlane &control, const optimus_support::Mesh &mesh,
                      std::span<const Axes> axes) override {
    if (process->notice.empty())
      OPTRT_RETURN_IF_ERROR(control.agree(process->engine.start()));
    communicators.clear();
    for (const Axes &list : axes) {
      int index = static_cast<int>(mesh.combinedIndex(process->rank, list));
      MPI_Comm comm;
      OPTIMUS_MPI_CHECK(
          MPI_Comm_split, process->all,
          static_cast<int>(mesh.firstOfGroup(process->rank, list)), index,
          &comm);
      OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<MpiCommunicator> created,
                             MpiCommunicator::create(comm, process->engine));
      communicators.push_back(std::move(created));
    }
    return okStatus();
  }

  Communicator &communicator(int, int group) override {
    return *communicators[group];
  }

  void expectThreads(int threadsPerRank, int coresPerRank) override {
    process->engine.setOversubscribed(threadsPerRank > coresPerRank);
  }

  std::string overlapNotice() const override { return process->notice; }

  /// Other processes cannot be woken out of MPI: exitJob() ends them.
  void abort(const Status &) override {}

private:
  const std::shared_ptr<MpiProcess> process;
  std::vector<std::unique_ptr<MpiCommunicator>> communicators;
};

} // namespace

std::unique_ptr<Collectives>
createMpiCollectives(std::shared_ptr<MpiProcess> process) {
  return std::make_unique<MpiCollectives>(std::move(process));
}

} // namespace optrt
