//===- CommandLine.cpp - What the user asked for --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <charconv>
#include <limits>

using namespace optrt;

namespace optimus_run {
namespace {

/// A number that f32 holds, in [least, most]; `what` says so. CLI11's own
/// ranges let NaN pass.
CLI::Validator number(const char *what, double least, double most) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        double value = 0;
        bool isNumber = CLI::detail::lexical_cast(text, value);
        // The runtime computes in f32.
        value = static_cast<float>(value);
        if (isNumber && value >= least && value <= most)
          return "";
        return concat("expected ", what, ", found ", text);
      },
      "");
}

/// A whole number in [least, most].
template <typename Integer>
CLI::Validator count(Integer least, Integer most) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        Integer value = 0;
        const char *end = text.data() + text.size();
        auto [stop, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc() && stop == end && value >= least &&
            value <= most)
          return "";
        return concat("expected a whole number from ", least, " to ", most,
                      ", found ", text);
      },
      "");
}

constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kSmallest = std::numeric_limits<float>::min();
const CLI::Validator kRate = number("a number of at least 0", 0, kLargest);
const CLI::Validator kPositive =
    number("a number above 0", kSmallest, kLargest);
// The bias correction divides by one minus a power of beta.
const CLI::Validator kBeta =
    number("a number of at least 0 and below 1", 0, 1 - 0x1p-24);
const CLI::Validator kSeed = count<uint64_t>(0, UINT64_MAX);
// Far from where steps times the batch's tokens overflow.
constexpr int64_t kMostSteps = 1'000'000'000'000;
const CLI::Validator kSteps = count<int64_t>(0, kMostSteps);
const CLI::Validator kSomeSteps = count<int64_t>(1, kMostSteps);
const CLI::Validator kThreads = count<int64_t>(1, 4096);
const CLI::Validator kCommBytes = count<int64_t>(4, int64_t(1) << 32);

void addBackend(CLI::App *app, std::string &backend) {
  app->add_option("--backend", backend,
                  "How ranks communicate: local (threads of one process) or "
                  "mpi; found by itself under mpirun")
      ->check(CLI::IsMember({"local", "mpi"}));
}

void addRankOptions(CLI::App *app, RankOptions &ranks) {
  app->add_option("--device", ranks.device, "What ranks compute on: cpu")
      ->check(CLI::IsMember({"cpu"}));
  app->add_option("--threads-per-rank", ranks.threadsPerRank,
                  "Threads of each rank; by default cores / ranks")
      ->check(kThreads);
  app->add_option("--timeout", ranks.timeoutSeconds,
                  "Seconds for which a rank may be silent, or keep others "
                  "waiting in a collective, before the job ends; 0: for ever")
      ->capture_default_str()
      ->check(kRate);
}

CLI::Option *addLibrary(CLI::App *app, const std::string &name,
                        std::string &path) {
  return app->add_option(name, path, "Model library that optimus-compile wrote")
      ->required();
}

void addData(CLI::App *app, std::string &path) {
  app->add_option("--data", path,
                  "FILE.txt (one token a byte) or FILE.bin (little-endian "
                  "uint16 tokens)")
      ->required();
}

constexpr const char *kOrderHelp =
    "Order of the data's windows: shuffled each epoch, or sequential";

void addTrain(CLI::App &app, TrainOptions &options, std::string &backend) {
  CLI::App *train = app.add_subcommand("train", "Train a model");
  addLibrary(train, "library", options.library);
  addData(train, options.data);
  train
      ->add_option("--steps", options.steps,
                   "Number of the last step, after --load too; 0 trains "
                   "nothing (default 100)")
      ->check(kSteps);
  train
      ->add_option("--seed", options.seed,
                   "Seed of initial values and of the data's order (default "
                   "0, or the loaded checkpoint's)")
      ->check(kSeed);
  train->add_option("--lr", options.learningRate.peak, "Learning rate")
      ->capture_default_str()
      ->check(kRate);
  train
      ->add_option_function<std::string>(
          "--schedule",
          [&](const std::string &name) {
            options.learningRate.schedule =
                name == "cosine" ? LearningRate::Schedule::Cosine
                                 : LearningRate::Schedule::Constant;
          },
          "Learning rate after the warm-up: constant (default), or cosine: "
          "down to a tenth at the last step")
      ->check(CLI::IsMember({"constant", "cosine"}));
  train
      ->add_option("--warmup", options.learningRate.warmup,
                   "Steps over which the learning rate rises from 0")
      ->capture_default_str()
      ->check(kSteps);
  train
      ->add_option("--weight-decay", options.hyperparameters.weightDecay,
                   "Weight decay of matrices and embeddings")
      ->capture_default_str()
      ->check(kRate);
  train
      ->add_option("--clip", options.hyperparameters.clip,
                   "Largest norm of the gradient")
      ->capture_default_str()
      ->check(kPositive);
  train
      ->add_option("--beta1", options.hyperparameters.beta1,
                   "First beta of AdamW and LAMB")
      ->capture_default_str()
      ->check(kBeta);
  train
      ->add_option("--beta2", options.hyperparameters.beta2,
                   "Second beta of AdamW and LAMB")
      ->capture_default_str()
      ->check(kBeta);
  train
      ->add_option("--epsilon", options.hyperparameters.epsilon,
                   "Epsilon of AdamW and LAMB")
      ->capture_default_str()
      ->check(kPositive);
  train
      ->add_option("--momentum", options.hyperparameters.momentum,
                   "SGD's momentum")
      ->capture_default_str()
      ->check(kBeta);
  train
      ->add_option("--microbatches", options.microbatches,
                   "Batches whose gradients are added up for one step; more "
                   "than 1 needs a library compiled with --accumulate")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20));
  train->add_option("--order", options.order, kOrderHelp)
      ->check(CLI::IsMember({"shuffled", "sequential"}));
  addBackend(train, backend);
  addRankOptions(train, options.ranks);
  CLI::Option *save = train->add_option("--save", options.save,
                                        "Folder of the checkpoint to write");
  train
      ->add_option("--save-every", options.saveEvery,
                   "Write the checkpoint every so many steps too")
      ->needs(save)
      ->check(kSomeSteps);
  train->add_option("--load", options.load,
                    "Folder of the checkpoint to go on from");
  train->add_option("--log-json", options.logJson,
                    "File for one JSON object a step");
  CLI::Option *evalData = train->add_option(
      "--eval-data", options.evalData,
      "File whose mean loss is reported at the end and every --eval-every "
      "steps");
  train
      ->add_option("--eval-every", options.evalEvery,
                   "Evaluate every so many steps")
      ->needs(evalData)
      ->check(kSomeSteps);
}

void addEval(CLI::App &app, EvalOptions &options, std::string &backend) {
  CLI::App *eval = app.add_subcommand(
      "eval", "Mean cross-entropy over all windows of a file");
  addLibrary(eval, "library", options.library);
  addData(eval, options.data);
  eval->add_option("--load", options.load,
                   "Folder of the checkpoint; without it the initial "
                   "parameters are evaluated");
  eval->add_option("--seed", options.seed, "Seed of the initial parameters")
      ->capture_default_str()
      ->check(kSeed);
  eval->add_flag("--json", options.json,
                 "Print {\"loss\": ..., \"tokens\": "
                 "...}");
  addBackend(eval, backend);
  addRankOptions(eval, options.ranks);
}

void addInspect(CLI::App &app, InspectOptions &options) {
  CLI::App *inspect =
      app.add_subcommand("inspect", "What a model library contains");
  addLibrary(inspect, "library", options.library);
  inspect->add_flag("--json", options.json, "Print the manifest");
}

void addVerify(CLI::App &app, VerifyOptions &options) {
  CLI::App *verify = app.add_subcommand(
      "verify", "Compare the gradients of two compilations of one model");
  addLibrary(verify, "a", options.first);
  addLibrary(verify, "b", options.second);
  addData(verify, options.data);
  verify
      ->add_option("--seed", options.seed,
                   "Seed of initial values and of the data's order")
      ->capture_default_str()
      ->check(kSeed);
  verify->add_option("--load", options.load,
                     "Folder of the checkpoint with the parameters");
  verify->add_option("--order", options.order, kOrderHelp)
      ->check(CLI::IsMember({"shuffled", "sequential"}));
  verify
      ->add_option("--step-index", options.stepIndex,
                   "Which batch of the data, from 0")
      ->capture_default_str()
      ->check(kSteps);
  addRankOptions(verify, options.ranks);
  verify->add_flag("--json", options.json, "Print the comparison as JSON");
}

void addBench(CLI::App &app, BenchOptions &options, std::string &backend) {
  CLI::App *bench =
      app.add_subcommand("bench", "Time training steps on random tokens, or "
                                  "the machine with --comm and --gemm");
  addLibrary(bench, "library", options.library)->required(false);
  CLI::Option *comm =
      bench->add_flag("--comm", options.comm,
                      "Time and check collectives instead, with no library");
  bench
      ->add_option("--ranks", options.numRanks,
                   "With --comm: how many ranks communicate; under mpirun all "
                   "that it started")
      ->needs(comm)
      ->check(count<int64_t>(1, 4096));
  bench
      ->add_option("--min-bytes", options.minBytes,
                   "With --comm: the smallest tensor; each next is four times "
                   "as large")
      ->capture_default_str()
      ->needs(comm)
      ->check(kCommBytes);
  bench
      ->add_option("--max-bytes", options.maxBytes,
                   "With --comm: the largest tensor")
      ->capture_default_str()
      ->needs(comm)
      ->check(kCommBytes);
  bench
      ->add_flag("--gemm", options.gemm,
                 "Time products, kernels and attention of one rank instead, "
                 "with no library; --threads-per-rank are its threads "
                 "(default: 1)")
      ->excludes(comm);
  bench->add_option("--profile", options.profile,
                    "With --comm or --gemm: machine profile (JSON) to write "
                    "the measured costs into; its other entries stay");
  bench->parse_complete_callback([&options] {
    bool timesMachine = options.comm || options.gemm;
    if (options.library.empty() && !timesMachine)
      throw CLI::RequiredError("library");
    if (!options.profile.empty() && !timesMachine)
      throw CLI::RequiresError("--profile", "--comm or --gemm");
  });
  bench->add_option("--steps", options.steps, "Steps that are timed")
      ->capture_default_str()
      ->check(kSomeSteps);
  bench
      ->add_option("--warmup", options.warmup,
                   "Steps before those that are timed")
      ->capture_default_str()
      ->check(kSteps);
  addBackend(bench, backend);
  addRankOptions(bench, options.ranks);
  bench->add_flag("--json", options.json, "Print the figures as JSON");
}

constexpr std::pair<const char *, Subcommand> kSubcommands[] = {
    {"train", Subcommand::Train},   {"eval", Subcommand::Eval},
    {"verify", Subcommand::Verify}, {"inspect", Subcommand::Inspect},
    {"bench", Subcommand::Bench},
};

/// One line that says what is wrong, and one that says where help is.
std::string failureMessage(const CLI::App *app, const CLI::Error &error) {
  std::string what = error.what();
  // CLI11's own words for a misspelt subcommand do not tell that it is one.
  std::vector<std::string> rest = app->remaining();
  bool misspelt =
      app->get_subcommands().empty() && !rest.empty() && rest[0].front() != '-';
  if (misspelt) {
    what = "there is no subcommand `" + rest[0] + "`; there are";
    for (const auto &[name, subcommand] : kSubcommands)
      what += concat(name == kSubcommands[0].first ? " " : ", ", name);
  }
  std::string helped = "optimus-run";
  for (const CLI::App *sub : app->get_subcommands())
    helped += " " + sub->get_name();
  return concat("optimus-run: error: ", what, "\n`", helped,
                " --help` lists what can be given\n");
}

} // namespace

std::optional<int> parseCommandLine(int argc, char **argv, bool speaks,
                                    CommandLine &line) {
  CLI::App app("Trains and examines models that optimus-compile compiled.\n"
               "optimus-run COMMAND --help explains a command.",
               "optimus-run");
  app.require_subcommand(1);
  app.set_version_flag("--version", "optimus-run " OPTIMUS_VERSION);
  app.failure_message(failureMessage);
  // A script's defaults can be followed by what the user gave.
  app.option_defaults()->take_last();
  addTrain(app, line.train, line.backend);
  addEval(app, line.eval, line.backend);
  addVerify(app, line.verify);
  addInspect(app, line.inspect);
  addBench(app, line.bench, line.backend);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    // Help and version are "errors" with code 0.
    if (speaks)
      app.exit(error);
    return error.get_exit_code() == 0 ? 0 : 1;
  }
  for (const auto &[name, subcommand] : kSubcommands)
    if (app.got_subcommand(name))
      line.subcommand = subcommand;
  return std::nullopt;
}

} // namespace optimus_run
