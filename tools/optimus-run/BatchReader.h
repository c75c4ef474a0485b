//===- BatchReader.h - Reading batches while steps run ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_BATCHREADER_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_BATCHREADER_H

#include "base/Thread.h"
#include "optimus-runtime/Session.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace optimus_run {

/// Reads the batches of the next step while one runs: on a thread of its own,
/// as a lone rank runs on the caller's.
class BatchReader {
public:
  using Clock = std::chrono::steady_clock;

  /// Hands the session a call by `submit`, calls `read` meanwhile, and collects
  /// the call. Both are done when this returns; where the system gives no
  /// thread, `read` waits for `submit`. `read` must not throw.
  optrt::StatusOr<optrt::StepOutputs>
  run(optrt::Session &session, const std::function<optrt::Status()> &submit,
      const std::function<void()> &read);

  /// When the last call was done, whether or not its reading was.
  Clock::time_point callEnded() const { return endTime; }

private:
  bool start(const std::function<void()> &read);
  void readWhenAsked(std::unique_lock<std::mutex> &lock);
  void finish();

  Clock::time_point endTime;
  /// What is to be called, until it was.
  const std::function<void()> *asked = nullptr;
  std::condition_variable answered;
  optrt::Worker worker;
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_BATCHREADER_H
