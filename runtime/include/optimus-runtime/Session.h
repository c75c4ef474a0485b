//===- Session.h - A model in memory, ready to run --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A session joins a model library with the ranks of a job: it owns the memory
// of this process's ranks and runs the library's functions on all of them.
// Functions marked collective are called by every process of the job at the
// same point, from its main thread.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_H
#define OPTIMUS_RUNTIME_SESSION_H

#include "optimus-runtime/Checkpoint.h"
#include "optimus-runtime/Manifest.h"
#include "optimus-runtime/ModelLibrary.h"
#include "optimus-runtime/Rank.h"
#include "optimus-runtime/Status.h"
#include "optimus-runtime/World.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

struct SessionOptions {
  /// Those that will be run; memory is made for them only.
  std::vector<std::string> functions;
  /// 0: the machine's cores divided among its ranks, at least 1.
  int threadsPerRank = 0;
  std::string device = "cpu";
  /// As in WatchOptions; 0: nobody watches.
  double timeoutSeconds = 0;
  std::function<void(const Status &status, bool speaks)> onStall;
  /// Gives a rank of this process its observer, which outlives the session, or
  /// null. Called on the rank's thread.
  std::function<CommandObserver *(int rank)> observe;
};

/// What a function reports of the global batch.
struct StepOutputs {
  float lossSum = 0;
  float realCount = 0;
  float gradNorm = 0; ///< train_step only: of the mean loss, before clipping

  /// 0 where no token is real.
  double meanLoss() const {
    return double(lossSum) / std::max(double(realCount), 1.0);
  }
};

/// The rank that loses most time to communication in a run.
struct SlowestRank {
  int rank = 0;
  CommunicationTime total;             ///< over all mesh axes
  std::vector<CommunicationTime> axes; ///< one entry a mesh axis
};

/// Bytes one rank holds.
struct RankMemory {
  int64_t parameters = 0;
  int64_t moments = 0;
  int64_t gradients = 0; ///< buffers for grad_step's results only
  int64_t inputs = 0;
  int64_t arena = 0;
  int64_t device = 0; ///< packed weights and scratch
  int64_t total() const {
    return parameters + moments + gradients + inputs + arena + device;
  }
};

/// Names and shapes of the parameters, for Checkpoint::checkModel.
std::vector<TensorInfo> tensorInfos(const Manifest &manifest);

/// The names of what the optimizer keeps of each parameter, for
/// Checkpoint::checkModel.
std::vector<std::string_view> stateNames(const Manifest &manifest);

/// Opens a checkpoint in every process, null for an empty `dir`. Its checksums
/// are verified once a machine and before anything else in it is read.
/// Collective.
///
/// Errors, the same in every process: those of Checkpoint::open(), and
/// InvalidArgument when processes have found different checkpoints.
StatusOr<std::unique_ptr<Checkpoint>> openCheckpoint(World &world,
                                                     const std::string &dir);

class Session {
public:
  /// Configures `world` for the library's mesh and makes the memory of this
  /// process's ranks, zeroed. Both must outlive the session. Collective.
  ///
  /// Errors: InvalidArgument when the library lacks a function, or the job has
  /// another number of ranks than the mesh, or processes have opened different
  /// libraries; Unavailable when memory is short.
  static StatusOr<std::unique_ptr<Session>>
  create(const ModelLibrary &library, World &world, SessionOptions options);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  const Manifest &manifest() const { return library.manifest(); }
  int threadsPerRank() const { return threads; }
  /// A sentence when this machine's ranks have more threads than cores;
  /// otherwise empty.
  std::string oversubscription() const;
  /// Whether the chosen functions keep the optimizer's moments.
  bool hasMoments() const { return keepsStates; }

  /// Draws the parameters from the manifest's initial values; moments are 0.
  Status initialize(uint64_t seed);
  /// Moves every element of the parameters that is not 0 to the next float
  /// above or below it, at random but alike on every mesh. Returns how many
  /// parameters this process's ranks have changed something of.
  StatusOr<int64_t> perturb(uint64_t seed);
  /// Takes parameters, and moments if it has any, from a checkpoint that was
  /// checked with checkModel(). Each rank reads what its own shards consist of,
  /// in pieces, and holds nothing else.
  Status load(const Checkpoint &checkpoint);
  /// Writes a checkpoint from the root process: only its machine needs the
  /// folder. Tensors come to it in slabs of 4 MiB. Collective.
  Status save(const std::string &dir, const TrainingState &state);

  void setScalar(Scalar scalar, float value);
  /// Of the functions that draw random numbers: the run's seed and the number
  /// of the step, from 1 and below 2^48, and that of the microbatch, from 0.
  void setRandom(uint64_t seed, int64_t step, uint32_t microbatch = 0);
  /// Sets gradients, loss_sum and real_count to 0, for functions that add to
  /// them.
  void clearSums();

  /// Writes rows [rowsBegin, rowsBegin + rowsCount) of the global batch into
  /// [rowsCount, sequence] matrices.
  using FillRows = std::function<Status(int64_t rowsBegin, int64_t rowsCount,
                                        int32_t *tokens, int32_t *targets)>;

  /// Gives this process's ranks their inputs. A failure is that of `fill`, in
  /// this process only, and changes nothing but the inputs: processes should
  /// agree before they run anything.
  Status fill(const FillRows &fill);
  /// Runs a function on all ranks, on the inputs that are there.
  StatusOr<StepOutputs> run(std::string_view function);
  /// False after a run that failed: what it should have changed may be changed
  /// by half, and nothing more can be run.
  bool canGoOn() const { return !broken; }

  /// What the last run communicated, one entry a mesh axis: bytes summed over
  /// all ranks, messages of one rank. Internal when ranks differ in messages.
  /// Collective.
  StatusOr<std::vector<Traffic>> trafficOfLastRun();
  /// Compares that with the manifest's prediction; Internal when they differ.
  /// Collective.
  Status checkTraffic(std::string_view function);

  /// How long the last run communicated, of the rank with the most exposed
  /// time. Collective.
  SlowestRank communicationTimeOfLastRun();

  /// The rank of the job that holds most. Collective.
  RankMemory largestRankMemory();

  /// The whole gradient of a parameter after a grad_step, in the root process;
  /// elsewhere empty. Collective.
  StatusOr<std::vector<float>> gatherGradient(int64_t param);

private:
  struct LocalRank;
  Session(const ModelLibrary &library, World &world);

  Status build(SessionOptions options);
  Status buildRank(LocalRank &rank, const SessionOptions &options);
  void parametersChanged(LocalRank &rank);

  const ModelLibrary &library;
  World &world;
  int threads = 1;
  bool keepsStates = false;
  bool broken = false;
  uint64_t parameterVersion = 0;
  /// Rows of the batch before a sharded sequence is cut out of them.
  std::vector<int32_t> rowTokens, rowTargets;
  std::vector<std::unique_ptr<LocalRank>> ranks;
  std::unique_ptr<class RankTeam> team;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_H
