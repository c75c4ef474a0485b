//===- GenerateBench.cpp - optimus-run bench --generate -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table of llama-bench: pp512 takes in a prompt of 512 tokens, or of as
// many as --prompt says, tg128 decodes 128, without choosing them. A plain sum
// over as many bytes takes turns with them, and rates of decoding are compared
// with it.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Format.h"
#include "Generation.h"
#include "Report.h"
#include "TuningFile.h"

#include "measure/ReadRate.h"
#include "optimus-support/Philox.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <numeric>

using namespace optrt;

namespace optimus_run {
namespace {

constexpr int64_t kNewTokens = 128;

/// Tokens a second, in each round.
struct Rates {
  std::string test;
  int64_t live = 1; ///< slots that get a token in a call
  std::vector<double> rates = {};
  double bytes = 0; ///< that a call reads; 0: nobody asks

  double median() const {
    std::vector<double> sorted = rates;
    std::sort(sorted.begin(), sorted.end());
    return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  }
  double mean() const {
    return std::accumulate(rates.begin(), rates.end(), 0.0) /
           static_cast<double>(rates.size());
  }
  double deviation() const {
    double sum = 0;
    for (double rate : rates)
      sum += (rate - mean()) * (rate - mean());
    return std::sqrt(
        sum / std::max<double>(1, static_cast<double>(rates.size()) - 1));
  }
};

class GenerateBench {
public:
  /// Decodes with so many slots live, in turn, behind a prompt of so many
  /// tokens.
  GenerateBench(Session &session, ControlPlane &control,
                const GenerationEntries &entries, std::span<const int64_t> live,
                int64_t promptTokens)
      : session(session), control(control), entries(entries),
        prompt(std::min(promptTokens, entries.cache.tokensOfEach())),
        count(std::min(kNewTokens, entries.cache.tokensOfEach())) {
    prompts.test = concat("pp", prompt);
    for (int64_t slots : live)
      decodes.push_back(
          {concat("tg", count, slots == 1 ? "" : concat(" x ", slots)), slots});
  }

  Status run(int64_t rounds);
  void print(const BenchOptions &options, const World &world) const;
  void printJson(const BenchOptions &options, const World &world) const;

private:
  /// Calls a function for tokens from a position on, of the first slots.
  Status call(const Function &function, int64_t slots, int64_t position,
              int64_t size, bool wantsLogits = true);
  Status takePrompt();
  Status decode(int64_t slots);
  /// Runs `work`, which makes so many tokens.
  Status time(Rates &rates, int64_t tokens,
              const std::function<Status()> &work);
  /// Of the median call, against the median sum.
  double share(const Rates &rates) const {
    return rates.median() / static_cast<double>(rates.live) * rates.bytes /
           sum.median();
  }
  std::vector<const Rates *> tests() const {
    std::vector<const Rates *> list = {&prompts};
    for (const Rates &decode : decodes)
      list.push_back(&decode);
    return list;
  }

  Session &session;
  ControlPlane &control;
  const GenerationEntries &entries;
  const int64_t prompt, count;
  Rates prompts, sum;
  std::vector<Rates> decodes;
  RankMemory memory;
};

Status GenerateBench::call(const Function &function, int64_t slots,
                           int64_t position, int64_t size, bool wantsLogits) {
  const auto vocabulary = static_cast<uint64_t>(entries.vocabulary);
  std::vector<int32_t> tokens(slots * size);
  for (std::size_t i = 0; i != tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(
        optimus_support::philoxBlock(/*seed=*/0, /*stream=*/0, position, i)[0] %
        vocabulary);
  const std::vector<std::vector<int32_t>> pages =
      entries.cache.pagesOfEach(slots);
  std::vector<SlotTokens> given;
  for (int64_t slot = 0; slot != slots; ++slot)
    given.push_back(
        {.slot = slot,
         .position = position,
         .tokens = std::span<const int32_t>(tokens).subspan(slot * size, size),
         .wantsLogits = wantsLogits,
         .pages = pages[slot]});
  OPTRT_RETURN_IF_ERROR(session.fillSlots(function.name, given));
  return session.run(function.name).status();
}

Status GenerateBench::takePrompt() {
  for (int64_t begin = 0; begin < prompt; begin += entries.chunk) {
    const int64_t size = std::min(entries.chunk, prompt - begin);
    OPTRT_RETURN_IF_ERROR(call(*entries.prefill, /*slots=*/1, begin, size,
                               /*wantsLogits=*/begin + size == prompt));
  }
  return okStatus();
}

Status GenerateBench::decode(int64_t slots) {
  for (int64_t position = 0; position != count; ++position)
    OPTRT_RETURN_IF_ERROR(call(*entries.decode, slots, position, 1));
  return okStatus();
}

Status GenerateBench::time(Rates &rates, int64_t tokens,
                           const std::function<Status()> &work) {
  const auto begin = std::chrono::steady_clock::now();
  OPTRT_RETURN_IF_ERROR(work());
  const std::chrono::duration<double> time =
      std::chrono::steady_clock::now() - begin;
  rates.rates.push_back(static_cast<double>(tokens) /
                        std::max(time.count(), 1e-9));
  return okStatus();
}

Status GenerateBench::run(int64_t rounds) {
  const int64_t slots = entries.cache.slots;
  for (Rates &decode : decodes)
    decode.bytes = bytesOfDecode(session.model(), *entries.decode,
                                 entries.cache, decode.live * count / 2);
  // Every process sums its ranks' part of the least at the same time.
  const int64_t own = static_cast<int64_t>(decodes.front().bytes) *
                      control.numLocalRanks() / control.size();
  StatusOr<ReadRate> reader =
      ReadRate::create(session.threadsPerRank() * control.numLocalRanks(), own);
  OPTRT_RETURN_IF_ERROR(control.agree(reader.status()));
  // What is done for the first time takes longer.
  OPTRT_RETURN_IF_ERROR(
      call(*entries.prefill, /*slots=*/1, 0, std::min(entries.chunk, prompt)));
  OPTRT_RETURN_IF_ERROR(call(*entries.decode, slots, 0, 1));
  for (int64_t round = 0; round != rounds; ++round) {
    OPTRT_RETURN_IF_ERROR(time(prompts, prompt, [&] { return takePrompt(); }));
    for (Rates &rates : decodes)
      OPTRT_RETURN_IF_ERROR(
          time(rates, count * rates.live, [&] { return decode(rates.live); }));
    StatusOr<double> rate = reader->measure();
    OPTRT_RETURN_IF_ERROR(control.agree(rate.status()));
    double together = 0;
    for (const std::string &other : control.allGather(concat(*rate)))
      together += std::stod(other);
    sum.rates.push_back(together);
  }
  memory = session.largestRankMemory();
  return okStatus();
}

void GenerateBench::print(const BenchOptions &options,
                          const World &world) const {
  const Manifest &manifest = session.manifest();
  Table table({"model", "params", "backend", "threads", "slots", "test", "t/s",
               "read a call", "GB/s", "of a plain sum"},
              {0, 2, 5});
  for (const Rates *rates : tests()) {
    const bool reads = rates->bytes > 0;
    const double calls = rates->median() / static_cast<double>(rates->live);
    table.addRow({options.library, formatCount(manifest.numParamElements()),
                  std::string(world.collectives->name()),
                  std::to_string(session.threadsPerRank()),
                  std::to_string(entries.cache.slots), rates->test,
                  format("%.2f ± %.2f", rates->median(), rates->deviation()),
                  reads ? formatBytes(static_cast<int64_t>(rates->bytes)) : "",
                  reads ? format("%.2f", calls * rates->bytes / 1e9) : "",
                  reads ? format("%.1f %%", 100 * share(*rates)) : ""});
  }
  table.print(std::cout);
  std::cout << format("%s; medians of %lld rounds; a plain sum reads %.2f "
                      "GB/s\n",
                      describeRanks(world, session).c_str(),
                      static_cast<long long>(sum.rates.size()),
                      sum.median() / 1e9);
  std::cout.flush();
  printMemory(memory);
}

void GenerateBench::printJson(const BenchOptions &options,
                              const World &world) const {
  nlohmann::ordered_json report;
  report["library"] = options.library;
  report["ranks"] = control.size();
  report["backend"] = world.collectives->name();
  report["threads_per_rank"] = session.threadsPerRank();
  report["slots"] = entries.cache.slots;
  report["sum_bytes_per_s"] = sum.rates;
  for (const Rates *rates : tests()) {
    nlohmann::ordered_json &test = report["tests"][rates->test];
    test["tokens_per_s"] = rates->rates;
    test["median"] = rates->median();
    if (rates->bytes > 0) {
      test["bytes_read"] = rates->bytes;
      test["share_of_sum"] = share(*rates);
    }
  }
  report["memory"] = memoryToJson(memory);
  std::cout << report.dump(2) << '\n';
}

} // namespace

Status benchGeneration(const BenchOptions &options, World &world) {
  ControlPlane &control = *world.control;
  GenerationPlan plan;
  OPTRT_RETURN_IF_ERROR(
      control.agreeOnFiles(plan.open(options.library, options.ranks)));
  for (int64_t slots : options.live)
    if (slots > plan.entries.cache.slots)
      return invalidArgument(concat("--live: expected from 1 to the ",
                                    plan.entries.cache.slots,
                                    " slots of the library, found ", slots));
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<Session> session,
      createSession(*plan.library, world,
                    sessionOptions(plan.functions, options.ranks),
                    options.ranks.tune));
  OPTRT_RETURN_IF_ERROR(control.agree(session->initialize(/*seed=*/0)));
  OPTRT_RETURN_IF_ERROR(control.agree(plan.entries.prepare(*session)));
  printWarnings(world, *session);
  std::vector<int64_t> live = options.live;
  const int64_t slots = plan.entries.cache.slots;
  if (live.empty())
    live =
        slots == 1 ? std::vector<int64_t>{1} : std::vector{int64_t(1), slots};
  GenerateBench bench(*session, control, plan.entries, live, options.prompt);
  if (Status status = bench.run(options.rounds); !status.ok())
    return failJob(control, status);
  if (control.isRoot() && options.json)
    bench.printJson(options, world);
  else if (control.isRoot())
    bench.print(options, world);
  return okStatus();
}

} // namespace optimus_run
