//===- TrainStep.h - The calls of a step of training ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINSTEP_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINSTEP_H

#include "BatchAgreement.h"
#include "BatchReader.h"
#include "TrainFiles.h"
#include "optimus-runtime/Session.h"

#include <span>
#include <string>
#include <vector>

namespace optimus_run {

/// Runs steps: gives each its batches, and reads those of the next one
/// meanwhile.
class TrainStep {
public:
  using Clock = BatchReader::Clock;

  /// All must outlive it. `timesCommunication` costs an exchange a step.
  /// Collective.
  TrainStep(const TrainFiles &files, optrt::Session &session,
            optrt::ControlPlane &control, bool timesCommunication);

  /// Reads the batches of a step, all its microbatches, where that was not done
  /// during the one before. A failure is of this process only.
  optrt::Status prepare(int64_t step);
  /// Of these batches, for comparison among processes.
  BatchAgreement &agreement() { return reading; }

  /// Takes a step whose batches all processes have read. Collective.
  optrt::StatusOr<optrt::StepOutputs> run(int64_t step);

  /// What run() does before and after the session's call, for whoever makes it
  /// with those of other lanes: the inputs of the prepared step, which are
  /// there until the next one's; beside the call, the reading of the next one,
  /// on any thread; and once both are done, the call at `callEnded`.
  std::span<const optrt::CallInputs> begin();
  void readAfter(int64_t step);
  optrt::Status end(int64_t step, Clock::time_point callEnded);

  /// That the first step communicated otherwise than the manifest says; the
  /// same in every process.
  const optrt::Status &miscounted() const { return whyMiscounted; }

  /// How long the batches of the step after took to be read while the last one
  /// ran, and how long that went on afterwards: not at all where data stall.
  struct ReadTime {
    Clock::duration took{}, spare{};
  };
  const ReadTime &readTime() const { return readBehind; }
  /// When the last step was done, and the batches after it read.
  Clock::time_point ended() const { return endTime; }
  /// Of the last step, the slowest rank's.
  optrt::CommunicationTime communication() const { return time; }
  /// What the last step copied between memories.
  const optrt::PagingTime &paging() const { return paged; }
  /// Of one step, by mesh axis: every step runs the same commands, so that
  /// those of the first stand for all.
  const std::vector<optrt::Traffic> &traffic() const { return counted; }

private:
  void read(int64_t ofStep);
  optrt::Status count();

  const TrainFiles &files;
  optrt::Session &session;
  const bool timesCommunication;
  const int64_t microbatches;

  /// The batches read last, their step, and the outcome; and those of the step
  /// under way.
  BatchAgreement reading;
  std::vector<optrt::CallInputs> next, current;
  int64_t readFor = 0;
  optrt::Status outcome, whyMiscounted;
  Clock::time_point endTime, haveRead;
  ReadTime readBehind;
  optrt::CommunicationTime time;
  optrt::PagingTime paged;
  std::vector<optrt::Traffic> counted;

  /// Last, as its thread uses the others.
  BatchReader reader;
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_TRAINSTEP_H
