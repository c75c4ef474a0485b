//===- TrainStep.cpp - The calls of a step of training --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainStep.h"

#include "optimus-runtime/Exception.h"
#include "tooling/StepScalars.h"

#include <algorithm>
#include <utility>

using namespace optrt;

namespace optimus_run {

TrainStep::TrainStep(const TrainFiles &files, Session &session,
                     ControlPlane &control, bool timesCommunication)
    : files(files), session(session), timesCommunication(timesCommunication),
      isLone(control.numLocalRanks() == 1),
      microbatches(files.plan->hyperparameters.microbatches),
      reading(session, control, *files.data) {}

/// Reads the batches of a step, in this process.
void TrainStep::read(int64_t ofStep) {
  readFor = ofStep;
  outcome = okStatus();
  next.resize(microbatches);
  const Dataset &data = *files.data;
  const int64_t size = session.manifest().batch;
  for (int64_t m = 0; m != microbatches && outcome.ok(); ++m) {
    next[m].random = optimus_support::randomWords(files.plan->seed, ofStep,
                                                  static_cast<uint32_t>(m));
    const int64_t begin =
        files.plan->positionBefore(ofStep, size * microbatches) + m * size;
    BatchRows rows{[&data, begin, size](int64_t rowsBegin, int64_t rowsCount,
                                        int32_t *tokens, int32_t *targets,
                                        uint64_t *hashes) {
                     return data.fillBatch(begin, size, rowsBegin, rowsCount,
                                           tokens, targets, hashes);
                   },
                   [&data, begin, size](int64_t row) {
                     return data.windowOfRow(begin, size, row);
                   }};
    outcome = m == 0 ? reading.read(std::move(rows), next[m].batch)
                     : reading.readAnother(std::move(rows), next[m].batch);
  }
}

Status TrainStep::prepare(int64_t ofStep) {
  if (readFor != ofStep)
    read(ofStep);
  return outcome;
}

std::span<const CallInputs> TrainStep::begin() {
  std::swap(current, next);
  return current;
}

void TrainStep::readAfter(int64_t step) {
  if (step < files.plan->hyperparameters.steps)
    read(step + 1);
}

Status TrainStep::end(int64_t step) {
  endTime = Clock::now();
  if (timesCommunication)
    time = session.communicationTimeOfLastRun().total;
  if (session.isPaging())
    paged = session.pagingOfLastRun();
  if (step == files.plan->firstStep) {
    whyMiscounted = count();
    OPTRT_RETURN_IF_ERROR(whyMiscounted);
  }
  return okStatus();
}

void TrainStep::readAndTime(int64_t step) {
  const Clock::time_point begin = Clock::now();
  try {
    readAfter(step);
  } catch (...) {
    outcome = statusOfException();
  }
  haveRead = Clock::now();
  readBehind.took = haveRead - begin;
}

/// A lone rank runs in the caller's thread, so another one reads; none, where
/// ranks are threads or the system gives no more.
bool TrainStep::startReading(int64_t step) {
  if (!isLone || !reader
                      .start("the thread that reads batches",
                             [this](auto &lock) { readWhenAsked(lock); })
                      .ok())
    return false;
  {
    std::lock_guard guard(reader.mutex);
    asked = step;
  }
  reader.wake.notify_one();
  return true;
}

void TrainStep::readWhenAsked(std::unique_lock<std::mutex> &lock) {
  while (true) {
    reader.wake.wait(lock, [&] { return reader.isStopping || asked; });
    if (reader.isStopping)
      return;
    lock.unlock();
    readAndTime(*asked);
    lock.lock();
    asked.reset();
    answered.notify_one();
  }
}

void TrainStep::finishReading() {
  std::unique_lock lock(reader.mutex);
  answered.wait(lock, [&] { return !asked; });
}

StatusOr<StepOutputs> TrainStep::run(int64_t step) {
  const std::span<const CallInputs> inputs = begin();
  const bool isReading = startReading(step);
  Status submitted =
      session.submitSequence(sequenceFor(microbatches), microbatches, inputs);
  if (submitted.ok() && !isReading)
    readAndTime(step);
  StatusOr<StepOutputs> outputs =
      submitted.ok() ? session.collect() : std::move(submitted);
  const Clock::time_point done = Clock::now();
  if (isReading)
    finishReading();
  readBehind.spare = std::max(done - haveRead, Clock::duration());
  if (outputs.ok())
    OPTRT_RETURN_IF_ERROR(end(step));
  return outputs;
}

Status TrainStep::count() {
  OPTRT_RETURN_IF_ERROR(session.checkTraffic(sequenceFor(microbatches)));
  OPTRT_ASSIGN_OR_RETURN(counted, session.trafficOfLastRun());
  return okStatus();
}

} // namespace optimus_run
