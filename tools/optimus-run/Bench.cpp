//===- Bench.cpp - optimus-run bench --------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "DataBench.h"
#include "Format.h"
#include "Generation.h"
#include "OwnPrediction.h"
#include "Report.h"
#include "TuningFile.h"
#include "optimus-runtime/Session.h"
#include "optimus-support/Philox.h"
#include "tooling/StepScalars.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <optional>

using namespace optrt;

namespace optimus_run {
namespace {

/// What is timed must not depend on a file: every batch is random tokens, the
/// same on every mesh.
void fillRandomTokens(const Manifest &manifest, int64_t step, int64_t rowsBegin,
                      int64_t rowsCount, int32_t *tokens, int32_t *targets) {
  int64_t sequence = manifest.sequence;
  uint64_t vocabulary = static_cast<uint64_t>(manifest.vocabulary);
  for (int64_t row = rowsBegin; row != rowsBegin + rowsCount; ++row) {
    bool padding = row >= manifest.batch;
    for (int64_t i = 0; i != sequence; ++i) {
      auto bits = optimus_support::philoxBlock(
          /*seed=*/0, /*stream=*/0, step, row * sequence + i);
      *tokens++ = padding ? 0 : static_cast<int32_t>(bits[0] % vocabulary);
      *targets++ = padding ? -1 : static_cast<int32_t>(bits[1] % vocabulary);
    }
  }
}

/// The same for every slot of a function for generation, or the one of a chunk.
/// Half of the context is filled.
Status fillRandomSlots(Session &session, const Function &function,
                       const CacheExtents &cache, int64_t step) {
  const Manifest &manifest = session.manifest();
  const int64_t count = std::min(function.sequence, cache.tokensOfEach());
  std::vector<int32_t> tokens(function.batch * count);
  for (std::size_t i = 0; i != tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(
        optimus_support::philoxBlock(/*seed=*/0, /*stream=*/0, step, i)[0] %
        static_cast<uint64_t>(manifest.vocabulary));
  const std::vector<std::vector<int32_t>> pages =
      cache.pagesOfEach(function.batch);
  std::vector<SlotTokens> slots;
  for (int64_t slot = 0; slot != function.batch; ++slot) {
    const std::span<const int32_t> own =
        std::span<const int32_t>(tokens).subspan(slot * count, count);
    slots.push_back({.slot = slot,
                     .position = (cache.tokensOfEach() - count) / 2,
                     .tokens = own,
                     .pages = pages[slot]});
    if (function.kind == EntryKind::Score)
      slots.back().targets = own;
  }
  return session.fillSlots(function.name, slots);
}

/// Of sorted times, by linear interpolation.
double quantile(std::span<const double> sorted, double fraction) {
  double at = fraction * static_cast<double>(sorted.size() - 1);
  std::size_t below = static_cast<std::size_t>(at);
  std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] +
         (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

struct Timing {
  double median = 0, mean = 0, fastest = 0, slowest = 0;
  double lowerQuartile = 0, upperQuartile = 0;
};

Timing summarize(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {quantile(times, 0.5),
          std::accumulate(times.begin(), times.end(), 0.0) /
              static_cast<double>(times.size()),
          times.front(),
          times.back(),
          quantile(times, 0.25),
          quantile(times, 0.75)};
}

struct BenchResult {
  Timing milliseconds;
  double tokensPerSecond = 0; ///< at the median
  double bytesRead = 0;       ///< of a decode; 0 of other functions
  std::vector<Traffic> traffic;
  SlowestRank communication; ///< medians of the timed steps
  RankMemory largestRank;
  std::optional<DataTimes> data;
  std::optional<OwnPrediction> predictedHere;
};

/// Each time's median.
SlowestRank medianOf(const std::vector<SlowestRank> &steps) {
  SlowestRank result = steps.front();
  auto median = [&](auto get) {
    std::vector<double> times;
    for (const SlowestRank &step : steps)
      times.push_back(get(step));
    std::sort(times.begin(), times.end());
    return quantile(times, 0.5);
  };
  result.total = {median([](const SlowestRank &s) { return s.total.inFlight; }),
                  median([](const SlowestRank &s) { return s.total.exposed; })};
  for (std::size_t i = 0; i != result.axes.size(); ++i)
    result.axes[i] = {
        median([i](const SlowestRank &s) { return s.axes[i].inFlight; }),
        median([i](const SlowestRank &s) { return s.axes[i].exposed; })};
  return result;
}

StatusOr<BenchResult> measure(Session &session, ControlPlane &control,
                              const Function &function,
                              const BenchOptions &options) {
  const Manifest &manifest = session.manifest();
  const std::optional<CacheExtents> cache = manifest.cacheOf(function);
  std::vector<double> times;
  std::vector<SlowestRank> communication;
  // Once a step of microbatches, and so not timed with each.
  if (Status status = session.prepareFor(function); !status.ok())
    return failJob(control, status);
  for (int64_t step = 1; step <= options.warmup + options.steps; ++step) {
    setScalars(session, Hyperparameters(), step, /*lr=*/1e-4);
    session.setRandom(/*seed=*/0, step);
    auto begin = std::chrono::steady_clock::now();
    if (cache)
      OPTRT_RETURN_IF_ERROR(fillRandomSlots(session, function, *cache, step));
    OPTRT_RETURN_IF_ERROR(session.fill([&](int64_t rowsBegin, int64_t rowsCount,
                                           int32_t *tokens, int32_t *targets) {
      fillRandomTokens(manifest, step, rowsBegin, rowsCount, tokens, targets);
      return okStatus();
    }));
    StatusOr<StepOutputs> outputs = session.run(function.name);
    if (!outputs.ok())
      return failJob(control, outputs.status());
    std::chrono::duration<double, std::milli> time =
        std::chrono::steady_clock::now() - begin;
    if (step <= options.warmup)
      continue;
    times.push_back(time.count());
    communication.push_back(session.communicationTimeOfLastRun());
  }
  BenchResult result;
  result.milliseconds = summarize(std::move(times));
  result.communication = medianOf(communication);
  const int64_t tokens = cache ? function.batch * function.sequence
                               : manifest.batch * manifest.sequence;
  result.tokensPerSecond =
      1e3 * static_cast<double>(tokens) / result.milliseconds.median;
  if (function.kind == EntryKind::Decode && cache)
    result.bytesRead = bytesOfDecode(session.model(), function, *cache,
                                     cache->slots * cache->context / 2);
  OPTRT_RETURN_IF_ERROR(session.checkTraffic(function.name));
  OPTRT_ASSIGN_OR_RETURN(result.traffic, session.trafficOfLastRun());
  result.largestRank = session.largestRankMemory();
  return result;
}

void print(const BenchOptions &options, const Session &session,
           const World &world, const Function &function,
           const BenchResult &result) {
  const Manifest &manifest = session.manifest();
  const Timing &ms = result.milliseconds;
  std::printf("%s: %s parameters, %s; %s\n", options.library.c_str(),
              formatCount(manifest.numParamElements()).c_str(),
              describeStrategy(manifest).c_str(),
              describeRanks(world, session).c_str());
  std::printf("%lld steps: median %.2f ms, half of them within %.2f to %.2f, "
              "all within %.2f to %.2f; mean %.2f ms\n",
              static_cast<long long>(options.steps), ms.median,
              ms.lowerQuartile, ms.upperQuartile, ms.fastest, ms.slowest,
              ms.mean);
  std::printf(result.bytesRead > 0 ? "%.1f tokens/s\n" : "%.0f tokens/s\n",
              result.tokensPerSecond);
  if (result.bytesRead > 0)
    std::printf("reads %s in a call, weights and half of the cache: %.2f "
                "GB/s\n",
                formatBytes(static_cast<int64_t>(result.bytesRead)).c_str(),
                result.bytesRead / ms.median / 1e6);
  if (const std::optional<Schedule> &predicted = function.schedule)
    std::printf("predicted %.2f ms, of them %.2f ms exposed communication\n",
                predicted->stepMs, predicted->exposedMs);
  if (const std::optional<OwnPrediction> &here = result.predictedHere)
    std::printf("for this machine, by '%s', predicted %.2f ms, of them %.2f ms "
                "exposed communication\n",
                here->path.c_str(), here->stepMs, here->exposedMs);
  printCommunication(manifest.mesh, result.traffic);
  if (world.control->size() > 1)
    printCommunicationTime(result.communication.total);
  printMemory(result.largestRank);
  if (result.data)
    printDataTimes(*result.data);
}

void printJson(const BenchOptions &options, const Session &session,
               const World &world, const Function &function,
               const BenchResult &result) {
  const Manifest &manifest = session.manifest();
  const Timing &ms = result.milliseconds;
  nlohmann::ordered_json report;
  report["library"] = options.library;
  report["function"] = function.name;
  report["strategy"] = manifest.strategy;
  report["mesh"] = manifest.mesh.toString();
  report["ranks"] = world.control->size();
  report["backend"] = world.collectives->name();
  report["threads_per_rank"] = session.threadsPerRank();
  report["steps"] = options.steps;
  report["ms"] = {{"median", ms.median},
                  {"mean", ms.mean},
                  {"min", ms.fastest},
                  {"lower_quartile", ms.lowerQuartile},
                  {"upper_quartile", ms.upperQuartile},
                  {"max", ms.slowest}};
  report["tokens_per_s"] = result.tokensPerSecond;
  if (result.bytesRead > 0)
    report["bytes_read"] = result.bytesRead;
  if (const std::optional<Schedule> &predicted = function.schedule)
    report["predicted"] = {{"step_ms", predicted->stepMs},
                           {"comm_ms", predicted->commMs},
                           {"exposed_ms", predicted->exposedMs}};
  if (const std::optional<OwnPrediction> &here = result.predictedHere)
    report["predicted_here"] = {{"step_ms", here->stepMs},
                                {"exposed_ms", here->exposedMs},
                                {"machine_profile", here->path}};
  report["communication"] = communicationToJson(manifest.mesh, result.traffic);
  report["communication_ms"] =
      communicationTimeToJson(manifest.mesh, result.communication);
  report["memory"] = memoryToJson(result.largestRank);
  if (result.data)
    report["data"] = dataTimesToJson(*result.data);
  std::printf("%s\n", report.dump(2).c_str());
}

} // namespace

Status bench(const BenchOptions &options, World &world) {
  const bool isOfGpu = options.ranks.device == "cuda";
  if (options.comm)
    return benchCollectives(options, world);
  if (options.gemm)
    return isOfGpu ? benchGpu(options, world) : benchProducts(options, world);
  if (options.generate)
    return benchGeneration(options, world);
  std::unique_ptr<ModelLibrary> library;
  const Function *function = nullptr;
  std::unique_ptr<Dataset> data;
  auto open = [&]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(library, options.ranks.openLibrary(options.library));
    OPTRT_ASSIGN_OR_RETURN(function, library->manifest().findFunctionOrKind(
                                         options.library, options.function));
    const Manifest &manifest = library->manifest();
    if (!options.data.empty()) {
      OPTRT_ASSIGN_OR_RETURN(
          data,
          Dataset::open(options.data, manifest.sequence, manifest.vocabulary,
                        DataOrder::Shuffled, /*seed=*/0, manifest.masked));
    }
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(world.control->agreeOnFiles(open()));
  SessionOptions chosen = sessionOptions({function->name}, options.ranks);
  for (const Function *preparer :
       library->manifest().findPreparersOf(*function))
    chosen.functions.push_back(preparer->name);
  chosen.timesCommunication = true;
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<Session> session,
      createSession(*library, world, std::move(chosen), options.ranks.tune));
  OPTRT_RETURN_IF_ERROR(world.control->agree(session->initialize(/*seed=*/0)));
  printWarnings(world, *session);
  OPTRT_ASSIGN_OR_RETURN(BenchResult result,
                         measure(*session, *world.control, *function, options));
  if (data) {
    StatusOr<DataTimes> times =
        measureData(*session, *data, result.milliseconds.median);
    OPTRT_RETURN_IF_ERROR(world.control->agree(times.status()));
    result.data = *times;
  }
  if (!isOfGpu && world.collectives->name() == "local")
    result.predictedHere = predictHere(*library, function->name);
  if (world.control->isRoot())
    (options.json ? printJson : print)(options, *session, world, *function,
                                       result);
  return okStatus();
}

} // namespace optimus_run
