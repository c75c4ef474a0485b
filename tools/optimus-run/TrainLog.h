//===- TrainLog.h - The file of --log-json ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINLOG_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINLOG_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace optimus_run {

/// A file with one JSON object a line, each with its "step": how a run began,
/// its steps, and how it ended. It is the log of one run and of those that it
/// goes on from: lines of steps that are taken again, and the end of the run
/// before, make room for the new ones. Devices and pipes are written to.
///
/// A line that cannot be written does not end the run. It is tried again with
/// the next one, so that nothing is missing once there is room.
class TrainLog {
public:
  TrainLog() = default;
  TrainLog(TrainLog &&other) noexcept { swap(other); }
  TrainLog &operator=(TrainLog &&other) noexcept {
    swap(other);
    return *this;
  }
  ~TrainLog();

  /// Opens the file and keeps other runs from writing to it. Nothing in it
  /// changes yet. `loadedStep` is the step of the checkpoint this run goes on
  /// from; nothing for a run from the start.
  ///
  /// Errors: InvalidArgument for a file that is not empty and no log, for
  /// another run's log, and where nothing can be written.
  static optrt::StatusOr<TrainLog> open(const std::string &path,
                                        std::optional<int64_t> loadedStep);

  bool isOpen() const { return handle >= 0; }
  /// The lines to be removed by begin(), or those missing; may be empty.
  const std::string &notice() const { return whatChanges; }
  /// Removes the lines of steps to be taken again (all of them without a
  /// checkpoint), and half a line left by a killed run.
  optrt::Status begin();

  /// Adds a line. Unavailable for the first of some that cannot be written.
  optrt::Status append(std::string line);
  /// Adds the last line, which tells how the run ended. A run that failed
  /// before begin() leaves a log as it is, and writes into an empty one.
  optrt::Status appendEnd(std::string line);
  /// After the last line: Unavailable if some could not be written until now.
  optrt::Status finish();

private:
  void swap(TrainLog &other) {
    name.swap(other.name);
    std::swap(handle, other.handle);
    std::swap(keptBytes, other.keptBytes);
    std::swap(hasBegun, other.hasBegun);
    whatChanges.swap(other.whatChanges);
    pending.swap(other.pending);
    std::swap(lostLines, other.lostLines);
  }
  optrt::Status findCut(std::optional<int64_t> loadedStep);
  optrt::Status write();

  std::string name;
  int handle = -1;
  /// How much of a regular file begin() leaves.
  std::optional<int64_t> keptBytes;
  bool hasBegun = false;
  std::string whatChanges;
  std::string pending;   ///< lines, or their ends, that are not written yet
  int64_t lostLines = 0; ///< those that `pending` had no room for
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINLOG_H
