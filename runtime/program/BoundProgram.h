//===- BoundProgram.h - A function's commands on one rank -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROGRAM_BOUNDPROGRAM_H
#define OPTIMUS_RUNTIME_PROGRAM_BOUNDPROGRAM_H

#include "DynamicPlacement.h"
#include "optimus-runtime/ModelLibrary.h"
#include "optimus-runtime/Rank.h"
#include "optimus-support/Program.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace optrt {

/// Lanes [first, end) of a program.
struct LaneRange {
  int64_t first = 0, end = 1;

  auto operator<=>(const LaneRange &) const = default;
};

/// The commands of one function as one rank executes them: a flat list, with
/// the addresses and numbers of the rank filled in.
class BoundProgram {
public:
  /// `kernels` has all that the target names. Its code, `arenas` and
  /// `arguments` point to memory of the function's sizes, in its order; they
  /// and the target, which was checked, must outlive the program. With dynamic
  /// placement there are no arenas, and the device is done with a command when
  /// it was put on a queue.
  ///
  /// With `queued`, collectives are put on a GPU's queues: kinds unknown to the
  /// other back-ends are allowed, and so are groups that start together.
  ///
  /// Of `lanes` lanes, arguments are those of the first; the others' lie
  /// laneStride() behind each other. All have these arenas, one lane after the
  /// other. Only a table of so many has several,
  /// and only with planned placement.
  ///
  /// Errors: Unavailable where a command is not for a processor.
  static StatusOr<BoundProgram>
  bind(const optimus_support::program::TargetT &target,
       const KernelTable &kernels, std::string_view function, const Mesh &mesh,
       int64_t rank, Device &device, std::span<char *const> arenas,
       std::span<void *const> arguments,
       Placement placement = Placement::Planned, bool queued = false,
       int64_t lanes = 1);

  /// Puts all commands on the device's queues, once for every lane of the
  /// range, up to the first that fails. They are done when the device is
  /// synchronised. A device that records is given them twice, the first time as
  /// they are, then to be repeated: not where anything happens on the host, not
  /// while somebody observes, and not on an eager rank.
  Status run(Rank &rank, LaneRange range = {});

  /// Does each product and attention once, since libraries underneath load code
  /// at its first use, and drivers wait with that for a rank's collectives.
  /// After the device was prepared, and before memory holds anything: it is
  /// zero, and is zero again afterwards.
  Status rehearse(Device &device) const;

  const optimus_support::program::FunctionT &function() const {
    return *described;
  }
  /// What a device must be prepared for, but the images.
  Workload workload() const;
  std::vector<ProductCall> products() const;
  /// Visits collectives in the order of the commands: `start` with a started
  /// one, `wait` with an awaited one, which may be of an earlier call.
  struct CollectiveNumber {
    uint32_t command; ///< or kNone where an earlier call started it
    uint32_t carried; ///< where a later call waits for it, else 0
  };
  void visitCollectives(
      const std::function<void(CollectiveNumber number,
                               const optrt_collective_desc &desc)> &start,
      const std::function<void(CollectiveNumber number)> &wait) const;
  /// Where an operand of a command lies in the present call, the first lane's;
  /// null where the command does without it. No workspace.
  const void *operand(uint32_t command, uint32_t number) const {
    return pointers[commands[command].pointers + number];
  }
  /// "h.3.mlp.c_fc (gemm, gpt2.py:151)".
  std::string describe(uint32_t command) const;
  /// A failure of the latest run that no single command is known for, with the
  /// rank and the function; where the device tells late, with the commands that
  /// may have met it, too.
  Status locate(const Rank &rank, const Status &status) const;

private:
  friend class ProgramBinder;
  BoundProgram() = default;

  struct Bound {
    optimus_support::program::Action action;
    /// The first of its pointers, and its descriptor among those of its kind.
    uint32_t pointers, descriptor;
    /// [first, last) of `awaited`.
    uint32_t firstAwaited, lastAwaited;
    Queue queue;
    /// Of what a later call waits for, or of such a wait: its number; else 0.
    uint32_t carried;
    /// Whether a command on another queue comes after it.
    bool isAwaited;
    /// It starts together with those of its queue from the first to the last of
    /// these; alone, both are its own number.
    uint32_t firstOfGroup, lastOfGroup;
  };
  struct Launch {
    optrt_launch_desc desc;
    const optimus_kernel *kernel;
  };
  /// Puts all commands on queues.
  Status submitAll(Rank &rank);
  /// The same, recorded the second time and repeated from then on.
  Status submitOrReplay(Rank &rank);
  const char *rangeOf(uint32_t command) const;
  Status execute(Rank &rank, uint32_t number);
  Status executePlaced(Rank &rank, uint32_t number);
  Status awaitOthers(Rank &rank, Site site);
  Status submitInTurn(Rank &rank, Site site);
  Status submitObserved(Rank &rank, Site site);
  Status submit(Rank &rank, Site site);
  static AttentionOperands operandsOf(optimus_support::program::Action action,
                                      void *const *operands);
  Status start(Rank &rank, Site site);
  /// The host has waited for the queue of this command, and so for all that
  /// comes before it there and on others.
  void noteWait(uint32_t number);
  /// "the command that met it is one of 3, from A to B".
  std::string describeSuspects() const;

  const optimus_support::program::TargetT *target = nullptr;
  const optimus_support::program::ProgramTableT *table = nullptr;
  const optimus_support::program::FunctionT *described = nullptr;
  std::unique_ptr<DynamicPlacement> dynamic; ///< null with planned placement
  bool hasRun = false;
  LaneRange lanes;  ///< of the present call
  int64_t lane = 0; ///< of the present command
  /// Of all commands, by the lanes that they were recorded for.
  std::map<LaneRange, uint32_t> recordings;
  /// Of the latest run: the number of commands put on queues, and by queue the
  /// number up to which the host knows them to be done.
  uint32_t numSubmitted = 0;
  std::vector<uint32_t> done;
  std::vector<Bound> commands;
  /// Lane by lane, and how far each of a lane's lies from the one before's.
  std::vector<void *> pointers;
  std::vector<int64_t> strides;
  /// The commands on other queues that each one comes after.
  std::vector<uint32_t> awaited;
  /// Events of awaited commands, in the current call.
  std::vector<Event> events;
  std::vector<optrt_gemm_desc> gemms;
  std::vector<optrt_pack_desc> packs;
  std::vector<Launch> launches;
  std::vector<optrt_copy_desc> copies;
  std::vector<optrt_attention_desc> attentions;
  std::vector<optrt_collective_desc> collectives;
  /// Of each of these what reduces on a device; null for nothing.
  std::vector<const optimus_kernel *> reductions;
  /// In the order in which they are started.
  std::vector<PlannedCollective> planned;
  /// Scalars of launches, which are handed over by address.
  std::vector<int64_t> integers;
  std::vector<float> reals;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROGRAM_BOUNDPROGRAM_H
