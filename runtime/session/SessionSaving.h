//===- SessionSaving.h - A checkpoint that is being written -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_SESSIONSAVING_H
#define OPTIMUS_RUNTIME_SESSION_SESSIONSAVING_H

#include "PieceShares.h"
#include "optimus-runtime/Session.h"

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace optrt {

/// A checkpoint between its beginning and its end: this process's pieces of it,
/// and, behind steps, their writing thread. Functions of the main thread are
/// collective where that is said.
class Session::Saving {
public:
  Saving(ControlPlane &control, std::unique_ptr<CheckpointWriter> writer,
         std::vector<PieceList> lists, TrainingState state)
      : control(control), writer(std::move(writer)), lists(std::move(lists)),
        state(std::move(state)) {}
  /// Writes no more than the piece that is under way.
  ~Saving();

  CheckpointWriter &file() { return *writer; }
  const std::vector<PieceList> &pieces() const { return lists; }
  const PieceList &ownPieces() const {
    return lists[control.firstRank() / control.numLocalRanks()];
  }

  /// Where this process's pieces lie one after the other until this object
  /// ends.
  void readFrom(std::span<const float> memory) { snapshot = memory; }
  /// Starts to write them. A failure shows in poll() and finish().
  void writeBehind();
  /// Goes on with what needs all processes, as far as nobody has to wait: true
  /// when the checkpoint is in place. Collective; after a failure nothing of it
  /// goes on.
  StatusOr<bool> poll();
  /// With what became of this process's pieces, where no thread writes them:
  /// waits until the checkpoint is in place. Collective.
  Status finish(Status written = okStatus());

private:
  Status write();
  /// Runs `work` on a thread that gives way to those of ranks.
  Status start(std::function<Status()> work);
  /// Waits for it.
  Status join();
  void gatherChecksums();
  Status commit() {
    return control.isRoot() ? writer->commit(state) : okStatus();
  }

  ControlPlane &control;
  std::unique_ptr<CheckpointWriter> writer;
  const std::vector<PieceList> lists;
  const TrainingState state;
  std::span<const float> snapshot; ///< what is not written

  bool isCommitting = false;
  std::thread thread;
  Status outcome; ///< of the thread, once it is done
  std::atomic<bool> isDone = false, mustStop = false;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_SESSIONSAVING_H
