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
#include "WritingPace.h"
#include "optimus-runtime/Session.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace optrt {

/// A checkpoint between its beginning and its end: this process's pieces of it,
/// and, behind steps, their writing threads. Functions of the main thread are
/// collective where that is said.
class Session::Saving {
public:
  Saving(ControlPlane &control, std::unique_ptr<CheckpointWriter> writer,
         std::vector<PieceList> lists, TrainingState state)
      : control(control), writer(std::move(writer)), lists(std::move(lists)),
        state(std::move(state)) {}
  /// Writes no more than the slabs that are under way.
  ~Saving();

  CheckpointWriter &file() { return *writer; }
  const std::vector<PieceList> &pieces() const { return lists; }
  const PieceList &ownPieces() const {
    return lists[control.firstRank() / control.numLocalRanks()];
  }

  /// Where this process's pieces lie one after the other until this object
  /// ends.
  void readFrom(std::span<const float> memory) { snapshot = memory; }
  /// Starts to write them, on so many threads at most: `beside` steps, where
  /// ranks leave cores idle; else after each, in poll(). A failure shows in
  /// poll() and finish().
  void writeBehind(int most, bool beside);
  /// Goes on with what needs all processes, as far as nobody has to wait: true
  /// when the checkpoint is in place. Collective; after a failure nothing of it
  /// goes on.
  StatusOr<bool> poll();
  /// With what became of this process's pieces, where no thread writes them:
  /// waits until the checkpoint is in place. Threads write on now, whatever
  /// time they have. Collective.
  Status finish(Status written = okStatus());

private:
  using Clock = std::chrono::steady_clock;

  struct Piece {
    std::size_t piece;
    std::span<const float> elements;
  };
  /// The next piece; none where all are taken.
  std::optional<Piece> takePiece();
  /// Of a thread: writes pieces until all are taken. Who writes the last one
  /// syncs.
  Status write();
  /// Runs `work` on so many threads.
  Status start(std::size_t count, std::function<Status()> work);
  Status startCommit();
  /// Notes what became of a thread. After a failure the others stop.
  void keep(Status status);
  /// Waits for them, and returns the failure that came first.
  Status join();
  void giveTime();
  /// poll(), between steps.
  StatusOr<bool> goOn();
  void hurry() {
    if (pace)
      pace->hurry();
  }
  void gatherChecksums();
  Status commit() {
    return control.isRoot() ? writer->commit(state) : okStatus();
  }

  ControlPlane &control;
  std::unique_ptr<CheckpointWriter> writer;
  const std::vector<PieceList> lists;
  const TrainingState state;

  std::optional<WritingPace> pace; ///< behind steps
  bool isBeside = false;           ///< threads write while ranks compute
  Clock::time_point lastStep;
  Clock::duration shortestStep = Clock::duration::max();
  std::mutex mutex;
  std::span<const float> snapshot;         ///< what no thread has taken
  std::size_t numTaken = 0;                ///< of this process's pieces
  std::atomic<std::size_t> numWritten = 0; ///< of them
  bool isCommitting = false;
  std::vector<std::thread> threads;
  std::atomic<std::size_t> running = 0;
  Status outcome; ///< of the threads, once none is running
  std::atomic<bool> mustStop = false;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_SESSIONSAVING_H
