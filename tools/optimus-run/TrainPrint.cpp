//===- TrainPrint.cpp - What a training run prints ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Format.h"
#include "Report.h"
#include "Training.h"

#include <algorithm>
#include <cstdio>

using namespace optrt;

namespace optimus_run {

void Training::announce() const {
  std::printf("%s: %s parameters, %s; %s\n", options.library.c_str(),
              formatCount(manifest().numParamElements()).c_str(),
              describeStrategy(manifest()).c_str(),
              describeRanks(world, *session).c_str());
  std::printf("%s: %s tokens, %lld windows of %lld; batch %lld, %s, seed "
              "%llu\n",
              options.data.path.c_str(),
              formatCount(files.data->numTokens()).c_str(),
              static_cast<long long>(files.data->numWindows()),
              static_cast<long long>(manifest().sequence),
              static_cast<long long>(batch()), plan().order.c_str(),
              static_cast<unsigned long long>(plan().seed));
  announceStart();
}

void Training::announceStart() const {
  if (!control.isRoot())
    return;
  const int64_t done = plan().firstStep - 1;
  if (done > 0)
    say(concat(files.start.folder, ": going on after step ", done));
  else if (!files.start.goesOn)
    say(concat(files.start.folder,
               ": its parameters, and a new state of the optimizer ",
               manifest().optimizer, ": training begins at step 0"));
  else if (options.resume && files.start.folder.empty())
    say(concat(options.save, ": no checkpoint yet, training begins"));
  if (options.ranks.computing.tf32)
    say("products of f32 are in TF32");
  if (options.ranks.computing.flushesSubnormals)
    say("subnormal numbers count as zero");
  for (const std::string &note : plan().notes)
    say(note);
  auto isDone = [&](const char *flag, int64_t steps) {
    say(concat("the checkpoint is at step ", done,
               " already: nothing to train with ", flag, " ", steps,
               "; a larger number goes on"));
  };
  if (done >= lastStep() && lastStep() > 0)
    isDone("--steps", lastStep());
  else if (done >= finalStep() && lastStep() > 0)
    isDone("--until", finalStep());
  std::fflush(stdout);
}

/// A line of standard output, with the lane before it.
void Training::say(const std::string &line) const {
  std::printf("%s%s\n", name.empty() ? "" : (name + ": ").c_str(),
              line.c_str());
}

void Training::summarize() const {
  if (last.step > 0) {
    int64_t timedSteps = last.step - plan().firstStep;
    double rate = timedSteps > 0
                      ? static_cast<double>(timedSteps * batchTokens()) /
                            secondsAfterFirst
                      : last.tokensPerSecond;
    say(format("final loss %.6f, %.0f tokens/s", last.loss, rate));
  }
  // Of the lanes all together, whoever has the session says it.
  if (last.step > 0 && name.empty()) {
    printCommunication(manifest().mesh, calls->traffic());
    printMemory(largestRank);
    if (session->isPaging())
      printPaging(calls->paging());
    const CacheUse cache = files.data->cacheUse();
    if (const int64_t read = cache.hits + cache.misses; options.data.cacheBytes)
      std::printf("data cache: %s kept, %.1f %% of what was read was in it\n",
                  formatBytes(cache.kept).c_str(),
                  100.0 * double(cache.hits) /
                      double(std::max<int64_t>(read, 1)));
  }
  if (!options.save.empty())
    say("saved to " + options.save);
  if (best && (options.patience > 0 || !options.keepBest.empty()))
    say(format("the least held-out loss, %.6f, is that of step %lld%s%s",
               best->loss, static_cast<long long>(best->step),
               options.keepBest.empty() ? "" : ", in ",
               options.keepBest.c_str()));
  if (!signal && reached < lastStep() && isOutOfPatience())
    say(concat("stopped after step ", reached, " of ", lastStep(), ": ",
               best->evaluationsSince, " evaluations found no better loss"));
  else if (!signal && reached < lastStep())
    say(concat("stopped after step ", reached, " of ", lastStep(),
               ", as --until says; go on with ", saves->howToLoad(options.save),
               " and another --until, or none"));
  if (!signal)
    return;
  std::fflush(stdout);
  std::string next = options.save.empty()
                         ? "nothing was saved; --save keeps a run that is "
                           "stopped"
                         : "go on with " + saves->howToLoad(options.save);
  std::fprintf(stderr,
               "optimus-run: %sstopped by %s after step %lld of %lld; %s\n",
               name.empty() ? "" : (name + ": ").c_str(),
               signalName(signal).c_str(), static_cast<long long>(reached),
               static_cast<long long>(lastStep()), next.c_str());
}

} // namespace optimus_run
