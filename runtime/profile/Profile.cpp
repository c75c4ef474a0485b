//===- Profile.cpp - When commands of a run took place --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Profile.h"

#include "ProfileWriter.h"
#include "RankRecorder.h"
#include "base/Thread.h"
#include "optimus-support/OutputFile.h"

#include <atomic>
#include <mutex>
#include <thread>

namespace optrt {

using optimus_support::OutputFile;

/// What may wait to be written: a second's worth of the fastest programs.
static constexpr std::size_t kMostBytesWaiting = std::size_t(64) << 20;

class Profile::Impl {
public:
  explicit Impl(StepRange steps)
      : steps(steps), queue(kMostBytesWaiting), origin(steadyNanoseconds()),
        writer(origin) {}

  Status open(const std::string &path);
  Status describe(const Session &session, const ControlPlane &control,
                  const Trace &trace);
  /// The thread that writes.
  void work();
  Status finish(const std::string &ending);

  const StepRange steps;
  RecordQueue queue;
  /// That is recorded, or 0.
  std::atomic<int64_t> step{0};
  std::mutex observing;
  std::vector<std::unique_ptr<RankRecorder>> recorders;

  mutable std::mutex failing;
  Status failure;

private:
  void fail(const Status &status);

  OutputFile file;
  const int64_t origin;
  ProfileWriter writer;
  std::thread thread;
  /// Of the thread while it runs.
  int64_t lastStep = 0, stepUnderWay = 0;
  std::string endingOfItsOwn;

  std::mutex finishing;
  bool isDescribed = false, isFinished = false;
};

Status Profile::Impl::open(const std::string &path) {
  OPTRT_ASSIGN_OR_RETURN(
      file, OutputFile::open(path, {.executable = false, .isDatabase = true}));
  return writer.open(file.temporaryPath())
      .withContext(concat("cannot write '", path, "'"));
}

Status Profile::Impl::describe(const Session &session,
                               const ControlPlane &control,
                               const Trace &trace) {
  Profiled profiled{session.model(), session.heldBuffers(), session.calls()};
  for (int i = 0; i != control.numLocalRanks(); ++i)
    profiled.ranks.push_back(control.firstRank() + i);
  profiled.threadsPerRank = session.threadsPerRank();
  profiled.process = control.firstRank() / control.numLocalRanks();
  profiled.processes = control.size() / control.numLocalRanks();
  profiled.originUnix = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count() -
                        (steadyNanoseconds() - origin);
  OPTRT_RETURN_IF_ERROR(writer.describe(profiled, trace));
  OPTRT_ASSIGN_OR_RETURN(thread, startThread("the thread that writes a profile",
                                             [this] { work(); }));
  isDescribed = true;
  return okStatus();
}

/// Nothing more is recorded, but the run goes on.
void Profile::Impl::fail(const Status &status) {
  // The disk that refused it may refuse this, too; a file that is not
  // consistent is not put in its place.
  (void)writer.dropStep();
  endingOfItsOwn = concat(status.message(), "; recorded up to step ", lastStep);
  std::lock_guard lock(failing);
  failure = Status(status.code(), endingOfItsOwn);
}

void Profile::Impl::work() {
  RecordQueue::Record record;
  bool fails = false;
  while (queue.get(record)) {
    Status status;
    if (!fails) {
      if (record)
        stepUnderWay = record->step;
      status = record ? writer.write(*record) : writer.endStep();
      if (!record && status.ok())
        lastStep = stepUnderWay;
    }
    queue.giveBack(std::move(record));
    if (status.ok())
      continue;
    fails = true;
    step.store(0, std::memory_order_release);
    fail(status);
  }
}

Status Profile::Impl::finish(const std::string &ending) {
  std::lock_guard lock(finishing);
  if (isFinished)
    return okStatus();
  isFinished = true;
  step.store(0, std::memory_order_release);
  queue.close();
  if (!isDescribed)
    return okStatus();
  thread.join();
  OPTRT_RETURN_IF_ERROR(writer.dropStep());
  OPTRT_RETURN_IF_ERROR(
      writer.finish(endingOfItsOwn.empty() ? ending : endingOfItsOwn));
  return file.commit();
}

Profile::Profile(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Profile::~Profile() { (void)impl->finish("failed: the run was not ended"); }

StatusOr<std::unique_ptr<Profile>> Profile::open(const std::string &path,
                                                 StepRange steps) {
  auto impl = std::make_unique<Impl>(steps);
  OPTRT_RETURN_IF_ERROR(impl->open(path));
  return std::unique_ptr<Profile>(new Profile(std::move(impl)));
}

CommandObserver *Profile::observe(const Rank &rank) {
  auto recorder = std::make_unique<RankRecorder>(rank, impl->queue, impl->step);
  std::lock_guard lock(impl->observing);
  impl->recorders.push_back(std::move(recorder));
  return impl->recorders.back().get();
}

Status Profile::describe(const Session &session, const ControlPlane &control,
                         const Trace &trace) {
  return impl->describe(session, control, trace);
}

void Profile::beginStep(int64_t step) {
  if (step >= impl->steps.first && step <= impl->steps.last && failure().ok())
    impl->step.store(step, std::memory_order_release);
}

void Profile::endStep() {
  if (impl->step.exchange(0, std::memory_order_acq_rel) != 0)
    impl->queue.put(nullptr);
}

Status Profile::failure() const {
  std::lock_guard lock(impl->failing);
  return impl->failure;
}

Status Profile::finish(const std::string &ending) {
  return impl->finish(ending);
}

} // namespace optrt
