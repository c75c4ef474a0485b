//===- SessionOptions.h - What a session is told ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSIONOPTIONS_H
#define OPTIMUS_RUNTIME_SESSIONOPTIONS_H

#include "optimus-runtime/Checkpoint.h"
#include "optimus-runtime/Rank.h"
#include "optimus-runtime/Tuning.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace optrt {

/// What a session is made for, and how it works.
struct SessionOptions {
  /// Those that will be run, and sequences of the library's programs; memory is
  /// made for them only.
  std::vector<std::string> functions, sequences;
  /// How many of the library's lanes are there, at least 1; each is a run of
  /// the program on its own. Several share the rank's threads out: each has
  /// one, or as many as there are for every lane.
  int64_t lanes = 1;
  /// 0: the machine's cores divided among its ranks, at least 1.
  int threadsPerRank = 0;
  /// Empty for the one that the library was compiled for; no other runs it.
  std::string device;
  /// Where scratch files are made, for what the library offloads into files.
  std::string scratchFolder = "/tmp";
  /// Dynamic where the host can address the device's memory.
  Placement placement = Placement::Planned;
  /// Each command is waited for before the next one is put on a queue, and none
  /// is recorded. A processor works so anyway.
  bool eager = false;
  /// Whether communicationTimeOfLastRun() will be asked: GPUs with collectives
  /// on their queues note times then, at a cost of three events a collective.
  bool timesCommunication = false;
  /// Programs and commands are named for a tool that listens by NVTX, if one
  /// does.
  bool nvtx = false;
  /// How devices compute; the same in all processes.
  DeviceOptions computing;
  /// The last token of a document, for programs that keep documents apart.
  /// Without one a sequence is one document.
  std::optional<int64_t> documentEnd;
  /// What is known of the fastest algorithms for products, of the root process.
  /// Products go by it; what it lacks is tried before the session is made, and
  /// added to it in all processes. Null: devices choose by rules.
  Tuning *tuning = nullptr;
  /// As in WatchOptions; 0: nobody watches.
  double timeoutSeconds = 0;
  std::function<void(const Status &status, bool speaks)> onStall;
  /// Gives a rank of this process its observer, which outlives the session, or
  /// null. Called on the rank's thread.
  std::function<CommandObserver *(const Rank &rank)> observe;
};

/// How a checkpoint is written.
struct SaveOptions {
  /// The root's process writes alone, on one thread: for measurements.
  bool isAlone = false;
};

/// How a model is written, in every checkpoint of a session.
struct SaveFormat {
  /// Of the parameters; CheckpointWriterOptions::modelType.
  optimus_support::ElementType modelType = optimus_support::ElementType::F32;
  int64_t shardLimitBytes = CheckpointWriterOptions().shardLimitBytes;
  /// Of the root's process: what lies beside the tensors. The library's
  /// config.json, if it has one, takes the place of one of these.
  std::vector<CompanionFile> companions;
  /// Of the root's process: where all parameters that are no adapter's lie as
  /// they are here. Checkpoints hold adapters alone then, unless they take that
  /// folder's place.
  std::optional<BaseWeights> base;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSIONOPTIONS_H
