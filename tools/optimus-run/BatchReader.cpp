//===- BatchReader.cpp - Reading batches while steps run ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BatchReader.h"

#include <utility>

using namespace optrt;

namespace optimus_run {

bool BatchReader::start(const std::function<void()> &read) {
  if (!worker
           .start("the thread that reads batches",
                  [this](auto &lock) { readWhenAsked(lock); })
           .ok())
    return false;
  {
    std::lock_guard guard(worker.mutex);
    asked = &read;
  }
  worker.wake.notify_one();
  return true;
}

void BatchReader::readWhenAsked(std::unique_lock<std::mutex> &lock) {
  while (true) {
    worker.wake.wait(lock, [&] { return worker.isStopping || asked; });
    if (worker.isStopping)
      return;
    const std::function<void()> &read = *asked;
    lock.unlock();
    read();
    lock.lock();
    asked = nullptr;
    answered.notify_one();
  }
}

void BatchReader::finish() {
  std::unique_lock lock(worker.mutex);
  answered.wait(lock, [&] { return !asked; });
}

StatusOr<StepOutputs> BatchReader::run(Session &session,
                                       const std::function<Status()> &submit,
                                       const std::function<void()> &read) {
  const bool isReading = start(read);
  Status submitted = submit();
  if (submitted.ok() && !isReading)
    read();
  StatusOr<StepOutputs> outputs =
      submitted.ok() ? session.collect() : std::move(submitted);
  endTime = Clock::now();
  if (isReading)
    finish();
  return outputs;
}

} // namespace optimus_run
