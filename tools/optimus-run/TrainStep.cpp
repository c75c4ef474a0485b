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
  const Clock::time_point begin = Clock::now();
  try {
    if (step < files.plan->hyperparameters.steps)
      read(step + 1);
  } catch (...) {
    outcome = statusOfException();
  }
  haveRead = Clock::now();
  readBehind.took = haveRead - begin;
}

Status TrainStep::end(int64_t step, Clock::time_point callEnded) {
  endTime = Clock::now();
  readBehind.spare = std::max(callEnded - haveRead, Clock::duration());
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

StatusOr<StepOutputs> TrainStep::run(int64_t step) {
  const std::span<const CallInputs> inputs = begin();
  StatusOr<StepOutputs> outputs = reader.run(
      session,
      [&] {
        return session.submitSequence(sequenceFor(microbatches), microbatches,
                                      inputs);
      },
      [&] { readAfter(step); });
  if (outputs.ok())
    OPTRT_RETURN_IF_ERROR(end(step, reader.callEnded()));
  return outputs;
}

Status TrainStep::count() {
  OPTRT_RETURN_IF_ERROR(session.checkTraffic(sequenceFor(microbatches)));
  OPTRT_ASSIGN_OR_RETURN(counted, session.trafficOfLastRun());
  return okStatus();
}

} // namespace optimus_run
