//===- MpiWorld.cpp - One rank a process, over MPI ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plugin: only this shared object links MPI.
//
//===----------------------------------------------------------------------===//

#include "PeerMonitor.h"
#include "ProgressEngine.h"
#include "optimus-runtime/World.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unistd.h>

namespace optrt {
namespace {

/// Why the variables that the user may set make no sense, or nothing.
std::string wrongVariable() {
  auto check = [](const char *name, const char *one, const char *other) {
    const char *value = std::getenv(name);
    return !value || std::strcmp(value, one) == 0 ||
                   std::strcmp(value, other) == 0
               ? std::string()
               : concat(name, " is `", value, "`, expected ", one, " or ",
                        other);
  };
  std::string wrong = check("OPTIMUS_MPI_BROADCAST", "chain", "library");
  return wrong.empty() ? check("OPTIMUS_PROGRESS_THREAD", "0", "1") : wrong;
}

int ranksOfThisHost(MPI_Comm comm) {
  MPI_Comm host;
  int count;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &count);
  MPI_Comm_free(&host);
  return count;
}

class MpiCommunicator final : public Communicator {
public:
  /// Takes ownership of `comm`.
  MpiCommunicator(MPI_Comm comm, ProgressEngine &engine)
      : members{comm, 0, 0, false}, engine(engine) {
    MPI_Comm_size(comm, &members.size);
    MPI_Comm_rank(comm, &members.index);
    const char *choice = std::getenv("OPTIMUS_MPI_BROADCAST");
    members.chainBroadcast = choice ? std::strcmp(choice, "chain") == 0
                                    : ranksOfThisHost(comm) < members.size;
  }
  ~MpiCommunicator() override { MPI_Comm_free(&members.comm); }
  MpiCommunicator(const MpiCommunicator &) = delete;
  MpiCommunicator &operator=(const MpiCommunicator &) = delete;

  int size() const override { return members.size; }
  int index() const override { return members.index; }

  Status start(uint32_t id, const optrt_collective_desc &desc, const float *src,
               float *dst) override {
    InFlight *free = nullptr;
    for (std::unique_ptr<InFlight> &candidate : inFlight)
      if (!candidate->used)
        free = candidate.get();
    if (!free) {
      if (inFlight.size() == kMaxInFlight)
        return tooManyInFlight(id);
      inFlight.push_back(std::make_unique<InFlight>());
      free = inFlight.back().get();
    }
    // The tag tells operations apart that are in flight at the same time, with
    // two numbers each; MPI allows 32767 at least.
    int tag = static_cast<int>(sequence++ % (4 * kMaxInFlight)) * 2;
    free->id = id;
    free->complete.store(false, std::memory_order_relaxed);
    std::lock_guard guard(engine.lock());
    OPTRT_RETURN_IF_ERROR(free->operation.begin(members, tag, desc, src, dst)
                              .withContext(concat("command ", id)));
    free->used = true;
    if (free->operation.isDone()) {
      free->completedAt = Clock::now();
      free->complete.store(true, std::memory_order_relaxed);
    } else {
      engine.add(*free);
    }
    return okStatus();
  }

  Status wait(uint32_t id) override {
    for (std::unique_ptr<InFlight> &one : inFlight) {
      if (!one->used || one->id != id)
        continue;
      engine.waitFor(*one);
      one->used = false;
      lastCompletion = one->completedAt;
      return one->status;
    }
    return notStarted(id);
  }

  void overlap() override { engine.overlap(); }

  Clock::time_point completionOfLastWait() const override {
    return lastCompletion;
  }

private:
  Members members;
  ProgressEngine &engine;
  std::vector<std::unique_ptr<InFlight>> inFlight;
  uint64_t sequence = 0;
  Clock::time_point lastCompletion;
};

/// While it lives, the rank waits for others outside any collective.
class InControlPlane {
public:
  explicit InControlPlane(RankActivity *activity) : activity(activity) {
    if (!activity)
      return;
    activity->waitingAxis.store(-1, std::memory_order_relaxed);
    activity->since.store(Communicator::Clock::now().time_since_epoch().count(),
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

class MpiWorld final : public World {
public:
  /// `provided` is what MPI allows threads to do.
  explicit MpiWorld(int provided)
      : notice(noticeOf(provided)), hostRanks(ranksOfThisHost(MPI_COMM_WORLD)),
        engine(/*sharesNoMemory=*/hostRanks == 1) {
    MPI_Comm_size(MPI_COMM_WORLD, &numRanks);
    MPI_Comm_rank(MPI_COMM_WORLD, &worldRank);
  }

  ~MpiWorld() override {
    monitor.reset();
    communicators.clear();
    MPI_Finalize();
  }

  std::string_view name() const override { return "mpi"; }

  Status configure(std::span<const int64_t> axisSizes) override {
    int64_t product = 1;
    std::string mesh;
    for (int64_t axisSize : axisSizes) {
      product *= axisSize;
      mesh = concat(mesh, mesh.empty() ? "" : "x", axisSize);
    }
    if (product != numRanks)
      return invalidArgument("the library is compiled for a mesh of " + mesh +
                             " = " + std::to_string(product) +
                             " ranks, but MPI started " +
                             std::to_string(numRanks) + "; run `mpirun -n " +
                             std::to_string(product) + "`");
    if (notice.empty())
      OPTRT_RETURN_IF_ERROR(agree(engine.start()));
    monitor.reset();
    sizes.assign(axisSizes.begin(), axisSizes.end());
    communicators.clear();
    ownActivity = std::make_unique<RankActivity>();
    int64_t stride = product;
    for (int64_t axisSize : axisSizes) {
      stride /= axisSize;
      int index = static_cast<int>(worldRank / stride % axisSize);
      MPI_Comm comm;
      OPTIMUS_MPI_CHECK(MPI_Comm_split, MPI_COMM_WORLD,
                        static_cast<int>(worldRank - index * stride), index,
                        &comm);
      communicators.push_back(std::make_unique<MpiCommunicator>(comm, engine));
    }
    return okStatus();
  }

  void expectThreads(int threadsPerRank) override {
    // mpirun may have bound each process to cores of its own.
    int sharing = usableCores() < sysconf(_SC_NPROCESSORS_ONLN) ? 1 : hostRanks;
    engine.setOversubscribed(sharing * threadsPerRank > usableCores());
  }

  std::string overlapNotice() const override { return notice; }

  int size() const override { return numRanks; }
  int firstRank() const override { return worldRank; }
  int numLocalRanks() const override { return 1; }
  int ranksOnThisHost() const override { return hostRanks; }

  Communicator &communicator(int, int axis) override {
    return *communicators[axis];
  }

  RankActivity &activity(int) override { return *ownActivity; }

  Status watch(WatchOptions options) override {
    monitor.reset();
    if (options.timeoutSeconds <= 0 || numRanks == 1)
      return okStatus();
    StatusOr<PeerListener> listener = PeerListener::open();
    OPTRT_RETURN_IF_ERROR(agree(listener.status()));
    StatusOr<PeerSockets> sockets =
        listener->connectAll(worldRank, allGather(listener->address()));
    OPTRT_RETURN_IF_ERROR(agree(sockets.status()));
    monitor = std::make_unique<PeerMonitor>(
        std::move(sockets).value(),
        PeerMonitor::Options{worldRank, numRanks, options.timeoutSeconds,
                             MeshAxes{std::move(options.axisNames), sizes},
                             ownActivity.get(), std::move(options.onStall)});
    return agree(monitor->start());
  }

  /// Other processes cannot be woken out of MPI: exitJob() ends them.
  void abort() override {}

  std::vector<std::string> allGather(const std::string &own) override {
    std::lock_guard guard(engine.lock());
    InControlPlane here(ownActivity.get());
    int length = static_cast<int>(own.size());
    std::vector<int> lengths(numRanks), offsets(numRanks);
    MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT,
                  MPI_COMM_WORLD);
    int total = 0;
    for (int r = 0; r != numRanks; ++r) {
      offsets[r] = total;
      total += lengths[r];
    }
    std::string text(total, '\0');
    MPI_Allgatherv(own.data(), length, MPI_CHAR, text.data(), lengths.data(),
                   offsets.data(), MPI_CHAR, MPI_COMM_WORLD);
    std::vector<std::string> all;
    for (int r = 0; r != numRanks; ++r)
      all.push_back(text.substr(offsets[r], lengths[r]));
    return all;
  }

  Status sendToRoot(int rank, float *data, std::size_t count) override {
    if (rank == 0 || (worldRank != 0 && worldRank != rank))
      return okStatus();
    std::lock_guard guard(engine.lock());
    InControlPlane here(ownActivity.get());
    // In pieces, because MPI counts in int.
    constexpr std::size_t kPiece = std::size_t(1) << 28;
    for (std::size_t begin = 0; begin < count; begin += kPiece) {
      int length = static_cast<int>(std::min(kPiece, count - begin));
      if (worldRank == 0)
        OPTIMUS_MPI_CHECK(MPI_Recv, data + begin, length, MPI_FLOAT, rank, 0,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      else
        OPTIMUS_MPI_CHECK(MPI_Send, data + begin, length, MPI_FLOAT, 0, 0,
                          MPI_COMM_WORLD);
    }
    return okStatus();
  }

  [[noreturn]] void exitJob(int code) override {
    std::fflush(nullptr);
    if (monitor)
      monitor->quit();
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

private:
  static std::string noticeOf(int provided) {
    const char *choice = std::getenv("OPTIMUS_PROGRESS_THREAD");
    if (choice && std::strcmp(choice, "0") == 0)
      return "OPTIMUS_PROGRESS_THREAD=0: communication moves only while a rank "
             "starts or waits for it, and hides little behind computing";
    if (provided < MPI_THREAD_SERIALIZED)
      return "this MPI takes no calls from a second thread "
             "(MPI_THREAD_SERIALIZED): communication moves only while a rank "
             "starts or waits for it, and hides little behind computing";
    return "";
  }

  const std::string notice;
  const int hostRanks;
  ProgressEngine engine;
  int numRanks, worldRank;
  std::vector<int64_t> sizes;
  std::unique_ptr<RankActivity> ownActivity;
  std::unique_ptr<PeerMonitor> monitor;
  std::vector<std::unique_ptr<MpiCommunicator>> communicators;
};

} // namespace
} // namespace optrt

extern "C" __attribute__((visibility("default"))) optrt::World *
optimus_ccl_create(char *error, std::size_t errorSize) {
  if (std::string wrong = optrt::wrongVariable(); !wrong.empty()) {
    std::snprintf(error, errorSize, "%s", wrong.c_str());
    return nullptr;
  }
  // Ranks that share cores must let each other run while they wait.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*overwrite=*/0);
  // OpenMPI asks about its sockets with poll() unless told otherwise; what the
  // kernel keeps a list of can wake us (Arrivals.h).
  setenv("OMPI_MCA_opal_event_include", "epoll", /*overwrite=*/0);
  int provided;
  if (int code =
          MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
      code != MPI_SUCCESS) {
    std::snprintf(error, errorSize, "MPI_Init_thread failed with code %d",
                  code);
    return nullptr;
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return new optrt::MpiWorld(provided);
}
