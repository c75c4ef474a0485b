//===- TrainStep.cpp - The calls of a step of training --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainStep.h"

using namespace optrt;

namespace optimus_run {

std::string TrainStep::sequenceFor(int64_t microbatches) {
  return microbatches > 1 ? "train_microbatches" : "train";
}

TrainStep::TrainStep(const TrainFiles &files, Session &session,
                     ControlPlane &control, bool timesCommunication)
    : files(files), session(session), timesCommunication(timesCommunication),
      microbatches(files.plan->hyperparameters.microbatches),
      reading(session, control, *files.data) {}

/// Reads a part of a step's batch, in this process.
void TrainStep::read(int64_t ofStep, int64_t microbatch) {
  const int64_t size = session.manifest().batch;
  const int64_t begin =
      files.plan->positionBefore(ofStep, size * microbatches) +
      microbatch * size;
  readFor = ofStep;
  const Dataset &data = *files.data;
  outcome =
      reading.read({[&data, begin, size](int64_t rowsBegin, int64_t rowsCount,
                                         int32_t *tokens, int32_t *targets,
                                         uint64_t *hashes) {
                      return data.fillBatch(begin, size, rowsBegin, rowsCount,
                                            tokens, targets, hashes);
                    },
                    [&data, begin, size](int64_t row) {
                      return data.windowOfRow(begin, size, row);
                    }},
                   batch);
}

Status TrainStep::prepare(int64_t ofStep) {
  if (readFor != ofStep)
    read(ofStep, /*microbatch=*/0);
  return outcome;
}

StatusOr<StepOutputs> TrainStep::run(int64_t ofStep) {
  step = ofStep;
  time = {};
  paged = {};
  return session.runSequence(sequenceFor(microbatches), microbatches, *this);
}

Status TrainStep::before(const SequenceCall &call) {
  if (!call.readsBatch)
    return okStatus();
  // Of the first one all have agreed before the step.
  if (call.batch > 0) {
    whyUnread = reading.agree(outcome);
    OPTRT_RETURN_IF_ERROR(whyUnread);
  }
  session.setRandom(files.plan->seed, step, static_cast<uint32_t>(call.batch));
  return session.fill(batch);
}

void TrainStep::during(const SequenceCall &call) {
  if (!call.readsBatch)
    return;
  if (call.batch + 1 < microbatches)
    read(step, call.batch + 1);
  else if (step < files.plan->hyperparameters.steps)
    read(step + 1, /*microbatch=*/0);
}

Status TrainStep::after(const SequenceCall &call) {
  end = Clock::now();
  if (timesCommunication) {
    SlowestRank slowest = session.communicationTimeOfLastRun();
    time.inFlight += slowest.total.inFlight;
    time.exposed += slowest.total.exposed;
  }
  if (session.isPaging()) {
    const PagingTime ofCall = session.pagingOfLastRun();
    paged.bytesIn += ofCall.bytesIn;
    paged.bytesOut += ofCall.bytesOut;
    paged.seconds += ofCall.seconds;
    paged.exposed += ofCall.exposed;
  }
  if (step == files.plan->firstStep)
    whyMiscounted = countTraffic(call.function.name);
  return whyMiscounted;
}

Status TrainStep::countTraffic(const std::string &function) {
  OPTRT_RETURN_IF_ERROR(session.checkTraffic(function));
  OPTRT_ASSIGN_OR_RETURN(std::vector<Traffic> ofCall,
                         session.trafficOfLastRun());
  counted.resize(ofCall.size());
  for (std::size_t axis = 0; axis != ofCall.size(); ++axis) {
    counted[axis].bytes += ofCall[axis].bytes;
    counted[axis].messages += ofCall[axis].messages;
  }
  return okStatus();
}

} // namespace optimus_run
