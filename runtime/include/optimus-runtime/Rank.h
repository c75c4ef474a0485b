//===- Rank.h - The execution state of one rank -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_RANK_H
#define OPTIMUS_RUNTIME_RANK_H

#include "optimus-runtime/Device.h"
#include "optimus-runtime/Manifest.h"
#include "optimus-runtime/QueuedCollectives.h"
#include "optimus-runtime/Status.h"
#include "optimus-runtime/World.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace optrt {

class BoundProgram;
class Nvtx;
class HostStaging;

/// What one rank communicated on one mesh axis.
struct Traffic {
  int64_t bytes = 0;    ///< by the rule of docs/manifest.md, see count()
  int64_t messages = 0; ///< collectives started
};

/// Seconds of one rank. A collective is in flight from when the rank begins to
/// start it until it is complete, and while the rank is inside its start or
/// wait; time with several in flight counts once. What is exposed is spent
/// inside starts and waits, where the rank computes nothing: never more than is
/// in flight. Where queues of a GPU do all of it, a collective begins when it
/// is the first of its queue, and a wait lasts from when its queue gets there.
struct CommunicationTime {
  double inFlight = 0, exposed = 0;
};

/// The bytes of a collective among n ranks by the rule of docs/manifest.md,
/// summed over these ranks: with S the bytes of the whole tensor, 2(n-1)S for
/// all_reduce and (n-1)S for all others.
int64_t collectiveBytes(const optrt_collective_desc &desc, int64_t n);

/// Where the buffers of functions lie: in arenas as the compiler planned, or
/// where the host's allocator puts each when it begins.
enum class Placement { Planned, Dynamic };

/// A command of a program: its number, and the device's queue that it is on.
struct Site {
  Site(uint32_t number, Queue queue = kCompute)
      : number(number), queue(queue) {}

  uint32_t number;
  Queue queue;
};

/// Sees the commands of a rank, on the rank's thread.
class CommandObserver {
public:
  using Clock = Communicator::Clock;

  virtual ~CommandObserver() = default;
  /// Before a call of a session, by its number there; false where nothing of it
  /// is to be seen.
  virtual bool beginCall(std::size_t) { return true; }
  /// When all of a call is done. None follows a call that fails.
  virtual void endCall() {}
  /// Before and after a command is put on its queue. What it waits for is ahead
  /// of it there.
  virtual void begin(const BoundProgram &program, Site site) = 0;
  virtual void end(const BoundProgram &program, Site site) = 0;
  /// When a collective was waited for: from when to when it was in flight.
  virtual void transferred(uint32_t, Clock::time_point, Clock::time_point) {}
  /// With dynamic placement: what became of a buffer of the function.
  virtual void allocated(uint32_t, const void *, CommandTimes) {}
  virtual void freed(uint32_t, CommandTimes) {}
};

/// The execution state of one rank, and what it does for each kind of command.
/// Belongs to the rank's thread.
///
/// The error of a failed command has its name in the program. A table is ours:
/// what is wrong in it is Internal.
class Rank {
public:
  /// `mesh` and the world, which is laid out on it, must outlive the rank.
  Rank(const Mesh &mesh, World &world, int rank,
       std::unique_ptr<Device> device);
  ~Rank();

  /// Before the commands of a call, which start these collectives in this
  /// order.
  void beginCall(std::span<const PlannedCollective> planned);
  /// When all commands were put on queues: returns when they are done.
  Status endCall();
  /// Where some could not be put there: the call is over, whatever queues do.
  void abandonCall();

  Status gemm(Site site, const optrt_gemm_desc &desc, const void *a,
              const void *b, void *c, const void *bias, const void *extra);
  Status pack(Site site, const optrt_pack_desc &desc, const float *src,
              float *dst);
  Status launch(Site site, const optrt_launch_desc &desc,
                const optimus_kernel &kernel, void *const *args);
  Status copy(Site site, const optrt_copy_desc &desc, const void *src,
              void *dst);
  Status attention(Site site, const optrt_attention_desc &desc,
                   const AttentionOperands &operands);
  Status attentionGrad(Site site, const optrt_attention_desc &desc,
                       const AttentionOperands &operands);
  /// Waits until a command is done: what fails of it later fails here.
  Status finish(Site site);
  /// Where `carried` is not 0, a later call waits for it, by this number.
  Status startCollective(Site site, const optrt_collective_desc &desc,
                         const void *src, void *dst, uint32_t carried = 0);
  /// Starts some of a mesh axis together, where collectives are queued.
  Status startTogether(Queue queue, std::span<const QueuedCollective> together);
  /// Before its queue stands still for the wait that follows.
  Status reachWait(Site site, uint32_t started);
  /// `started` is the command that started it.
  Status waitForCollective(Site site, uint32_t started);
  /// For what an earlier call has carried under a number, if it has.
  Status waitForCarried(Site site, uint32_t number);
  /// Between calls: waits for all that is carried, in the same order on all
  /// ranks.
  Status finishCarried();
  bool isCarrying() const { return !carried.empty(); }

  const Mesh &mesh;
  const int rank;
  const std::unique_ptr<Device> device;
  /// One a mesh axis; none where collectives are queued.
  std::vector<Communicator *> communicators;
  /// Null where communicators move what the host can address.
  std::unique_ptr<QueuedCollectives> queued;
  /// One a mesh axis. A collective's bytes are counted by the rank with index
  /// 0 on its axis, so that the sum over ranks is the manifest's number.
  std::vector<Traffic> traffic;
  /// The collectives that were started and not waited for.
  struct StartedCollective {
    CommandId command;
    int32_t axis;
    uint64_t sequence; ///< of its axis, from 1; 0 for a message
    int32_t peer;      ///< of a message
    Communicator::Clock::time_point begin;
  };
  std::vector<StartedCollective> startedCollectives;
  /// This rank's activity, read by its watchers.
  RankActivity &activity;

  /// When something was in flight, and the time exposed on each axis, since
  /// resetCounters().
  struct Interval {
    int32_t axis;
    Communicator::Clock::time_point begin, end;
  };
  std::vector<Interval> intervals;
  std::vector<Communicator::Clock::duration> exposed;

  /// Sets traffic and times to zero.
  void resetCounters();
  /// Times since resetCounters(), one entry a mesh axis and one for all axes
  /// together.
  std::vector<CommunicationTime> communicationTimes() const;
  /// The program whose commands are run, for names in errors; null for none.
  const BoundProgram *program = nullptr;
  /// Its number among the manifest's functions, for those who watch.
  uint32_t function = 0;
  /// Whether collectives on queues of a GPU leave their times: some events in a
  /// step. All others do anyway.
  bool timesQueued = false;
  /// Null for none, which costs a command one branch.
  CommandObserver *observer = nullptr;
  /// Each command is waited for before the next one is put on a queue, and none
  /// is recorded.
  bool isEager = false;
  /// Null where nobody listens: begins a range for each running program, and
  /// for each command put on a queue.
  const Nvtx *ranges = nullptr;

private:
  class InCollective;

  /// Names the command where `status` is a failure.
  Status report(uint32_t command, const char *what, Status status) const;
  bool isLate(const Status &status) const;
  /// Before everything that is no collective: what was started must progress
  /// without this thread.
  void beginLocal(uint32_t command);
  void count(const optrt_collective_desc &desc);
  /// Puts the wait for what a command has started on a queue.
  Status awaitStarted(Queue queue, CommandId started);
  /// When one was on a GPU's queue, and from when on another queue stood still
  /// for it; the device writes it.
  struct QueuedTimes {
    CommandTimes inFlight;
    int64_t reached = 0;
  };
  bool areQueuedTimed() const { return timesQueued || observer; }
  /// Takes over what queues wrote in this call.
  void noteQueuedTimes();
  /// What a collective moves, where host code can address it.
  struct Moved {
    const optrt_collective_desc *desc;
    void *from, *to;
  };
  StatusOr<Moved> addressesForCollective(Site site,
                                         const optrt_collective_desc &desc,
                                         const void *src, void *dst);
  Status checkCollective(const optrt_collective_desc &desc, const void *src,
                         const void *dst) const;

  /// What calls have started for later ones, by its number.
  std::map<uint32_t, CommandId> carried;
  Communicator::Clock::time_point countsSince;
  /// Null where collectives move the device's own memory.
  std::unique_ptr<HostStaging> staging;
  /// The collectives started on queues by the current call, and the times of
  /// each.
  std::span<const PlannedCollective> planned;
  std::map<CommandId, QueuedTimes> queuedTimes;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_RANK_H
