//===- SharedFlags.cpp - Options of several commands ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedFlags.h"

#include "CommandLine/Values.h"
#include "DeviceFlags.h"
#include "optimus-support/Sizes.h"

#include <arpa/inet.h>
#include <cstdlib>
#include <limits>

using namespace optrt;
using optimus_command_line::Number;
using optimus_command_line::oneOf;
using optimus_command_line::Word;

namespace optimus_run {

namespace {
struct Ipv4Address {
  std::string expected() const {
    return "an IPv4 address of this host, as 10.0.0.2";
  }
  std::optional<std::string> parse(const std::string &text) const {
    in_addr address;
    if (inet_pton(AF_INET, text.c_str(), &address) != 1)
      return std::nullopt;
    return text;
  }
};
} // namespace

CLI::Validator inRange(int64_t least, int64_t most) {
  return oneOf(WholeNumber{least, most});
}

const CLI::Validator kSeed = oneOf(Number<uint64_t>{
    concat("a whole number from 0 to ", UINT64_MAX), 0, UINT64_MAX});
const CLI::Validator kSteps = inRange(0, kMostSteps);
const CLI::Validator kSomeSteps = inRange(1, kMostSteps);
static const CLI::Validator kThreads = inRange(1, 4096);
static const CLI::Validator kSeconds = oneOf(
    RealNumber{"a number of at least 0", 0, std::numeric_limits<float>::max()});

CLI::Option *addJob(CLI::App *app, JobOptions &job) {
  constexpr const char *kGroup =
      "Ranks (most launchers tell: docs/launchers.md)";
  app->add_option(
         "--backend", job.backend,
         "How ranks communicate: local (threads), mpi, tcp or, between "
         "GPUs, nccl (default: the launcher's)")
      ->check(oneOf(Word{{"local", "mpi", "tcp", "nccl"}}))
      ->group(kGroup);
  app->add_option("--rendezvous", job.rendezvous,
                  "HOST:PORT where rank 0 waits for the others "
                  "(OPTIMUS_RENDEZVOUS)")
      ->group(kGroup);
  app->add_option(
         "--secret-file", job.secretFile,
         "File with a secret by which ranks know each other over TCP (or "
         "OPTIMUS_JOB_SECRET)")
      ->group(kGroup);
  app->add_option(
         "--bind", job.bind,
         "IPv4 address to listen at over TCP (default: loopback where all "
         "ranks meet there, else all)")
      ->check(oneOf(Ipv4Address()))
      ->group(kGroup);
  return app
      ->add_option("--rank", job.rank,
                   "Which rank this process is, from 0, where no launcher says "
                   "so (OPTIMUS_RANK)")
      ->check(inRange(0, optimus_support::kMaxRanks - 1))
      ->group(kGroup);
}

void addRanks(CLI::App *app, CLI::Option *rank, JobOptions &job) {
  rank->needs(app->add_option("--ranks", job.ranks,
                              "With --rank: how many there are (OPTIMUS_RANKS)")
                  ->needs(rank)
                  ->check(inRange(1, optimus_support::kMaxRanks))
                  ->group(rank->get_group()));
}

void addRankOptions(CLI::App *app, RankOptions &ranks) {
  app->add_option("--device", ranks.device,
                  "What ranks compute on: cpu or cuda; by default what the "
                  "library was compiled for")
      ->check(oneOf(Word{{"cpu", "cuda"}}));
  app->add_option("--threads-per-rank", ranks.threadsPerRank,
                  "Threads of each rank; by default cores / ranks")
      ->check(kThreads);
  const char *folder = std::getenv("TMPDIR");
  ranks.scratchFolder = folder && *folder ? folder : "/tmp";
  app->add_option("--scratch", ranks.scratchFolder,
                  "Folder for what the library keeps in files while it runs "
                  "(default: $TMPDIR, or /tmp)");
  app->add_option(
         "--timeout", ranks.timeoutSeconds,
         "Seconds for which a rank may be silent, or others wait for it, "
         "before the job ends; 0: for ever")
      ->capture_default_str()
      ->check(kSeconds);
  addDeviceFlags(app, ranks);
}

CLI::Option *addLibrary(CLI::App *app, const std::string &name,
                        std::string &path, const std::string &help) {
  return app->add_option(name, path, help)->required();
}

void addData(CLI::App *app, DataOptions &data, const std::string *evalData) {
  std::string &path = data.path;
  app->add_option(
         "--data", path,
         "FILE.txt (a token a byte), FILE.bin (tokens of --token-type), a "
         "store of python3 -m optimus.data, or a mixture of these: "
         "A=0.7,B=0.3")
      ->required();
  CLI::Option *type =
      app->add_option_function<std::string>(
             "--token-type",
             [&data](const std::string &text) {
               data.tokenType = parseTokenType(text);
             },
             "Of .bin files: u16 or u32 (default: what llm.c's header or "
             "FILE.bin.json says, else u16)")
          ->check(oneOf(Word{{"u16", "u32"}}));
  app->add_option("--document-end", data.documentEnd,
                  "The last token of a document, for models built with "
                  "--within-documents (default: a store's ends)");
  app->parse_complete_callback([type, &path, evalData] {
    if (type->count() && path.ends_with(".txt") &&
        !(evalData && evalData->ends_with(".bin")))
      throw CLI::ValidationError("--token-type",
                                 "expected a .bin file, found " + path +
                                     ", which has one token a byte");
  });
}

CLI::Option *addWeights(CLI::App &app, WeightFlags &weights) {
  app.add_option("--base", weights.base,
                 "Folder of the weights beside which adapters alone were "
                 "trained (default: the one that they name)");
  return optimus_command_line::addList(
      app, "--ignore", weights.ignored,
      "Tensors to leave out of a folder of weights, by a pattern such as "
      "'score.*'; may be repeated");
}

void addParameters(CLI::App *app, std::string &load, WeightFlags &weights,
                   uint64_t &seed, const std::string &use) {
  CLI::Option *option =
      app->add_option("--load", load,
                      "Folder of the checkpoint, or of weights; without it the "
                      "initial parameters are " +
                          use);
  addWeights(*app, weights)->needs(option);
  app->add_option("--seed", seed, "Seed of the initial parameters")
      ->capture_default_str()
      ->check(kSeed);
}

void addFunction(CLI::App &app, std::string &function, const char *kind) {
  app.add_option("--function", function,
                 concat("Which function, where the library has several of the "
                        "kind ",
                        kind));
}

} // namespace optimus_run
