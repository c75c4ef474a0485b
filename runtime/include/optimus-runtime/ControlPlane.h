//===- ControlPlane.h - Who the ranks are and whether they live -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The control plane of a job hands ranks to each process, lets all agree before
// they go on, moves small things between them, and notices ranks that die or
// stall. Tensors of a step go another way (Collectives.h).
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CONTROLPLANE_H
#define OPTIMUS_RUNTIME_CONTROLPLANE_H

#include "optimus-runtime/Status.h"
#include "optimus-support/Mesh.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

/// A command of one of a library's functions.
struct CommandId {
  static constexpr uint32_t kNone = 0xffffffff;

  uint32_t number = kNone;
  uint32_t function = 0; ///< among those of the manifest

  auto operator<=>(const CommandId &) const = default;
};

/// What people know a rank's command by: "h.3.mlp.up (gemm, gpt2.py:151)".
using CommandNames = std::function<std::string(int rank, CommandId command)>;

/// What a rank is doing. Its thread writes; whoever watches the rank reads, at
/// any time.
struct RankActivity {
  static constexpr int kMaxAxes = 8;
  /// In place of an axis, in the control plane: where a rank may wait as long
  /// as it takes, and where all ranks meet.
  static constexpr int32_t kAgreement = -1, kMeeting = -2;

  /// The command that began last.
  std::atomic<CommandId> command{};
  /// How many collectives, without messages, the rank has begun to start on
  /// each mesh axis.
  std::array<std::atomic<uint64_t>, kMaxAxes> started{};
  /// Ticks of the steady clock at which the rank entered a collective's start
  /// or wait; 0 while it is in none. The rest says in which, and is written
  /// before.
  std::atomic<int64_t> since{0};
  std::atomic<CommandId> waitingCommand{};
  std::atomic<int32_t> waitingAxis{0};
  /// Which of the axis's collectives, from 1; 0 for a message.
  std::atomic<uint64_t> waitingSequence{0};
  /// The other end of a message, an index on the axis.
  std::atomic<int32_t> waitingPeer{0};
};
static_assert(std::atomic<CommandId>::is_always_lock_free,
              "a rank writes it with every command");

/// How ranks that die or stall are noticed.
struct WatchOptions {
  /// How long a rank may be silent, or keep others waiting in a collective;
  /// 0: nobody watches.
  double timeoutSeconds = 0;
  /// Called once in every process, on a thread of the control plane's, with who
  /// is to blame, before the process ends with the status's exit code: prints
  /// it where `speaks`, and leaves nothing half-written.
  std::function<void(const Status &status, bool speaks)> onStall;
};

/// A setting that all ranks must share.
struct Setting {
  std::string name, value;
};

/// One process's end of it, as a PMIx client or torch.distributed's store.
/// Everything is called by the main thread, collective functions by every
/// process's at the same point; no rank of the process runs meanwhile.
class ControlPlane {
public:
  virtual ~ControlPlane() = default;

  /// Lays the ranks out on a mesh. What watched them before is gone.
  /// InvalidArgument when the job has another number of ranks.
  virtual Status layOut(const optimus_support::Mesh &mesh) = 0;

  /// Number of ranks of the job; for thread ranks 1 until they are laid out.
  virtual int size() const = 0;

  /// This process runs the ranks [firstRank(), firstRank() + numLocalRanks()).
  virtual int firstRank() const = 0;
  virtual int numLocalRanks() const = 0;

  /// True in the process that speaks to the user.
  bool isRoot() const { return firstRank() == 0; }

  //===--------------------------------------------------------------------===//
  // Agreement
  //===--------------------------------------------------------------------===//

  /// The strings of all processes, in rank order. Collective. Throws a
  /// StatusException where the others cannot be heard.
  virtual std::vector<std::string> allGather(const std::string &own) = 0;

  /// Sends floats to the process of one rank while it receives some from that
  /// of another, or the same, as MPI_Sendrecv. Both ends know how many: where
  /// there are none, nobody is waited for. Between processes that have one rank
  /// each.
  virtual Status exchange(int to, std::span<const float> out, int from,
                          std::span<float> in) = 0;

  /// Success if every process brings success, otherwise the error of the lowest
  /// rank that brings one, in every process: a barrier too. Collective.
  Status agree(Status own);

  /// agree(), where each process looks at files of its own machine: the message
  /// begins with the rank, unless it is rank 0's. Collective.
  Status agreeOnFiles(Status own);

  /// agree(), where nothing keeps a healthy rank away for long: while ranks are
  /// watched, those that do not come within the timeout are named. Collective.
  Status agreeInTime(Status own);

  /// InvalidArgument, in every process, when a rank has other settings than
  /// rank 0; the message names it and what differs. All bring the same names in
  /// the same order. Collective.
  Status checkSame(std::span<const Setting> settings);

  /// A status as text for allGather(), and back; Internal for a text that is
  /// none. Success is an empty text.
  static std::string encode(const Status &status);
  static Status decode(std::string_view text);

  //===--------------------------------------------------------------------===//
  // Faults
  //===--------------------------------------------------------------------===//

  /// Says what people call commands, of whatever rank; from any thread, until
  /// the control plane ends. Before watch().
  void nameCommands(CommandNames newNames) { names = std::move(newNames); }
  /// A command's name, or its number where nobody has said.
  std::string nameOf(int rank, CommandId command) const;

  /// What a rank of this process is doing; lives until the next layOut().
  virtual RankActivity &activity(int rank) = 0;

  /// Starts to watch the ranks, until the next layOut(). A rank that dies, or
  /// keeps the others waiting in a collective for longer than the timeout, ends
  /// the job. Collective.
  ///
  /// Errors: Unavailable when processes cannot reach each other.
  virtual Status watch(WatchOptions options) = 0;

  /// Ends the whole job at once with an exit code, without waiting for the
  /// other processes.
  [[noreturn]] virtual void exitJob(int code) = 0;

  /// How endJob() tells of the end, as WatchOptions::onStall.
  void tellEndsBy(std::function<void(const Status &status, bool speaks)> tell) {
    tellEnd = std::move(tell);
  }
  /// exitJob() for a process that cannot end in order, from any thread: says
  /// why first, by what tellEndsBy() was given or to standard error.
  [[noreturn]] void endJob(const Status &status);

protected:
  /// What this process waits in while it exchanges texts with the others.
  int32_t place() const { return here; }

private:
  CommandNames names;
  std::function<void(const Status &status, bool speaks)> tellEnd;
  int32_t here = RankActivity::kAgreement;
};

/// For ranks that are threads of this process.
std::unique_ptr<ControlPlane> createLocalControl();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CONTROLPLANE_H
