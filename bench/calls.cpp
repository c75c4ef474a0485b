//===- calls.cpp - What lies between two calls of a rank ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs steps of microbatches, a sequence of calls, and takes the processor's
// time of a rank's thread from the end of a call's last command to the begin of
// the next call's first: inputs, resets, what begins and ends a call. Each rank
// prints a line with the processor's seconds of opening the library, checks
// included, and one a step: the mean, and the seconds of the step.
//
//   optimus-bench-calls MODEL.so --backend mpi|tcp --microbatches M --steps N
//
// The model is compiled with --accumulate. Tokens are zeros.
//
//===----------------------------------------------------------------------===//

#include "join.h"
#include "optimus-runtime/Session.h"
#include "program/BoundProgram.h"
#include "tooling/StepScalars.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>

using namespace optrt;

namespace {

using Clock = std::chrono::steady_clock;

int fail(const Status &status) { return optimus_bench::fail("calls", status); }

void reportEnd(const Status &status, bool speaks) {
  if (speaks)
    fail(status);
}

/// Nanoseconds that this thread has had a processor.
int64_t threadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t(1'000'000'000) + time.tv_nsec;
}

/// Adds up what lies between calls of a rank.
class Gaps final : public CommandObserver {
public:
  void begin(const BoundProgram &, Site site) override {
    if (site.number != 0 || ended == 0)
      return;
    sum += threadTime() - ended;
    ++count;
  }
  void end(const BoundProgram &program, Site site) override {
    if (site.number + 1 == program.function().commands.size())
      ended = threadTime();
  }
  void beginStep() { sum = count = ended = 0; }
  double meanMicroseconds() const {
    return 1e-3 * double(sum) / double(std::max<int64_t>(count, 1));
  }
  int64_t numGaps() const { return count; }

private:
  int64_t sum = 0, count = 0, ended = 0;
};

struct Flags {
  std::string library, backend;
  int64_t microbatches = 0, steps = 0;
};

Status run(const Flags &flags, World &world) {
  const int64_t before = threadTime();
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<ModelLibrary> library,
                         ModelLibrary::open(flags.library));
  const double openSeconds = 1e-9 * double(threadTime() - before);
  const std::string sequence = "train_microbatches";
  Gaps gaps;
  SessionOptions options;
  options.sequences = {sequence};
  options.threadsPerRank = 1;
  options.timeoutSeconds = optimus_bench::kTimeoutSeconds;
  options.onStall = reportEnd;
  options.observe = [&](const Rank &) { return &gaps; };
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                         Session::create(*library, world, options));
  std::printf("{\"rank\": %d, \"open_s\": %.4f}\n", world.control->firstRank(),
              openSeconds);
  OPTRT_RETURN_IF_ERROR(session->initialize(/*seed=*/1));
  std::vector<CallInputs> inputs(flags.microbatches);
  for (CallInputs &one : inputs)
    OPTRT_RETURN_IF_ERROR(session->read(
        [&](int64_t, int64_t rows, int32_t *tokens, int32_t *targets) {
          const int64_t words = rows * session->manifest().sequence;
          std::fill_n(tokens, words, 0);
          std::fill_n(targets, words, 0);
          return okStatus();
        },
        one.batch));
  for (int64_t step = 1; step <= flags.steps; ++step) {
    setScalars(*session, Hyperparameters(), step, /*lr=*/1e-4);
    OPTRT_RETURN_IF_ERROR(world.control->agree(okStatus()));
    gaps.beginStep();
    const Clock::time_point start = Clock::now();
    OPTRT_RETURN_IF_ERROR(
        session->submitSequence(sequence, flags.microbatches, inputs));
    OPTRT_RETURN_IF_ERROR(session->collect().status());
    std::printf("{\"rank\": %d, \"step\": %lld, \"gaps\": %lld, \"gap_us\": "
                "%.2f, \"step_s\": %.3f}\n",
                world.control->firstRank(), static_cast<long long>(step),
                static_cast<long long>(gaps.numGaps()),
                gaps.meanMicroseconds(),
                std::chrono::duration<double>(Clock::now() - start).count());
  }
  return world.control->agree(okStatus());
}

StatusOr<Flags> parse(int argc, char **argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool hasValue = i + 1 < argc;
    if (flag == "--backend" && hasValue)
      flags.backend = argv[++i];
    else if (flag == "--microbatches" && hasValue)
      flags.microbatches = std::atoll(argv[++i]);
    else if (flag == "--steps" && hasValue)
      flags.steps = std::atoll(argv[++i]);
    else
      flags.library = flag;
  }
  if (flags.library.empty() || flags.backend.empty() ||
      flags.microbatches < 1 || flags.steps < 1)
    return invalidArgument("expected MODEL.so --backend mpi|tcp --microbatches "
                           "M --steps N, found other arguments");
  return flags;
}

} // namespace

int main(int argc, char **argv) {
  StatusOr<Flags> flags = parse(argc, argv);
  if (!flags.ok())
    return fail(flags.status());
  StatusOr<World> world = optimus_bench::join(flags->backend, reportEnd);
  if (!world.ok())
    return fail(world.status());
  Status status = run(*flags, *world);
  if (status.ok())
    return 0;
  int code = fail(status);
  world->control->exitJob(code);
}
