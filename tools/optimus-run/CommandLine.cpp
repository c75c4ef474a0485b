//===- CommandLine.cpp - What the user asked for --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"

#include "CommandLine/Parser.h"
#include "CommandLine/Values.h"
#include "DeviceFlags.h"
#include "LaneFile.h"
#include "SharedFlags.h"
#include "TrainProfile.h"
#include "optimus-support/Sizes.h"

#include <cstdio>
#include <tuple>
#include <utility>

using namespace optrt;
using optimus_command_line::ByteCount;
using optimus_command_line::oneOf;
using optimus_command_line::Word;

namespace optimus_run {
namespace {

const CLI::Validator kCommBytes = inRange(4, int64_t(1) << 32);

constexpr const char *kOrderHelp =
    "Order of the data's windows: shuffled each epoch, or sequential";

/// Every hyperparameter as an option; `given` becomes the names of those that
/// are on the command line.
void addHyperparameters(CLI::App *app, Hyperparameters &hyperparameters,
                        std::set<std::string> &given) {
  forEachHyperparameter(
      [&](const HyperparameterInfo &info, const auto &values, auto &field) {
        using Field = std::decay_t<decltype(field)>;
        std::string name = info.name;
        app->add_option_function<std::string>(
               info.flag(),
               [&field, &given, values, name](const std::string &text) {
                 field = *values.parse(text);
                 given.insert(name);
               },
               info.help)
            ->type_name(std::is_enum_v<Field>       ? "NAME"
                        : std::is_integral_v<Field> ? "INT"
                                                    : "FLOAT")
            ->default_str(values.print(field))
            ->check(oneOf(values))
            ->group("Hyperparameters (default: the loaded checkpoint's, or "
                    "what follows the =)");
      },
      hyperparameters);
}

/// How a folder is written; `save` names it.
void addSaveFormat(CLI::App &app, SaveFlags &format, CLI::Option *save) {
  app.add_option_function<std::string>(
         "--save-dtype",
         [&format](const std::string &text) {
           format.type = text == "bf16"  ? optimus_support::ElementType::BF16
                         : text == "f16" ? optimus_support::ElementType::F16
                                         : optimus_support::ElementType::F32;
         },
         "Element type of saved parameters: f32, or bf16 or f16, rounded to "
         "the nearest, ties to even")
      ->needs(save)
      ->check(oneOf(Word{{"f32", "bf16", "f16"}}));
  app.add_option_function<std::string>(
         "--save-shard",
         [&format](const std::string &text) {
           format.shardBytes = ByteCount().parse(text);
         },
         "Most bytes of parameters in a file, as 512MiB; a larger tensor "
         "has its own (default: 5GB)")
      ->needs(save)
      ->check(oneOf(ByteCount()));
}

void addTrain(CLI::App &app, TrainOptions &options, JobOptions &job) {
  CLI::App *train = app.add_subcommand("train", "Train a model");
  addLibrary(train, "library", options.library);
  addData(train, options.data, &options.evalData);
  train
      ->add_option_function<std::string>(
          "--data-cache",
          [&options](const std::string &text) {
            options.data.cacheBytes = *ByteCount().parse(text);
          },
          "Keep so much of the data in memory, as 8GB, for all ranks and "
          "jobs of this machine: what is read first")
      ->check(oneOf(ByteCount()));
  addHyperparameters(train, options.hyperparameters, options.given);
  train
      ->add_option("--seed", options.seed,
                   "Seed of initial values and of the data's order (default "
                   "0, or the loaded checkpoint's)")
      ->check(kSeed);
  train->add_option("--order", options.order, kOrderHelp)
      ->check(oneOf(Word{{"shuffled", "sequential"}}));
  addRanks(train, addJob(train, job), job);
  addRankOptions(train, options.ranks);
  CLI::Option *save = train->add_option("--save", options.save,
                                        "Folder of the checkpoint to write");
  addSaveFormat(*train, options.saveFormat, save);
  CLI::Option *saveEvery =
      train
          ->add_option("--save-every", options.saveEvery,
                       "Write the checkpoint every so many steps too")
          ->needs(save)
          ->check(kSomeSteps);
  train
      ->add_flag_function(
          "--save-async,!--no-save-async",
          [&options](int64_t count) { options.saveAsync = count > 0; },
          "Write it behind the steps that follow, from a copy in memory "
          "(default: where that fits)")
      ->needs(saveEvery);
  train
      ->add_option("--until", options.until,
                   "Stop and save after this step; learning rates follow "
                   "--steps as before, and --resume goes on")
      ->needs(save)
      ->check(kSomeSteps);
  train
      ->add_option(
          "--check-replicas", options.checkReplicas,
          "Compare copies of parameters and state on all ranks every so many "
          "steps; the run ends where one differs")
      ->check(kSomeSteps);
  CLI::Option *resume = train->add_flag(
      "--resume", options.resume,
      "Go on from the checkpoint in --save's folder, or begin where it "
      "has none: for starts and restarts");
  resume->needs(save);
  train
      ->add_flag("--overwrite", options.overwrite,
                 "Replace a checkpoint that this run did not load")
      ->needs(save)
      ->excludes(resume);
  CLI::Option *load = train->add_option(
      "--load", options.load, "Folder of the checkpoint to go on from");
  train
      ->add_flag("--restart-data", options.restartData,
                 "Read the data from its beginning again")
      ->needs(load);
  train
      ->add_option(
          "--load-weights", options.loadWeights,
          "Folder of the checkpoint, or of weights, whose parameters a new "
          "run begins with, at step 0")
      ->excludes(load);
  addWeights(*train, options.weights);
  train->add_option("--log-json", options.logJson,
                    "File for a JSON object a step, and the run's end");
  CLI::Option *profile =
      train->add_option("--profile", options.profile,
                        "File for when commands ran (docs/profile.md)");
  train
      ->add_option_function<std::string>(
          "--profile-steps",
          [&options](const std::string &text) {
            options.profileSteps = *ProfileSteps().parse(text);
          },
          "FIRST:LAST of the steps recorded (default: all)")
      ->needs(profile)
      ->check(oneOf(ProfileSteps()));
  train
      ->add_option_function<std::string>(
          "--placement",
          [&options](const std::string &text) {
            options.ranks.placement =
                text == "dynamic" ? Placement::Dynamic : Placement::Planned;
          },
          "Where buffers lie: planned in one arena, or dynamic, each by "
          "itself, to compare (default: planned)")
      ->check(oneOf(Word{{"planned", "dynamic"}}));
  CLI::Option *evalData = train->add_option(
      "--eval-data", options.evalData,
      "Data whose mean loss is reported at the end and every --eval-every "
      "steps");
  CLI::Option *evalEvery =
      train
          ->add_option("--eval-every", options.evalEvery,
                       "Evaluate every so many steps, without --eval-data on "
                       "what the store of --data holds out")
          ->check(kSomeSteps);
  train->add_option(
      "--lanes", options.lanes,
      "FILE with a run's flags on each line: these runs train side by "
      "side (docs/lanes.md)");
  CLI::Option *sampleEvery =
      train
          ->add_option("--sample-every", options.sampleEvery,
                       "Print texts of the model every so many steps, where "
                       "the library was built with --generate")
          ->check(kSomeSteps);
  CLI::Option *sampleBytes =
      train->add_option("--sample-bytes", options.samplePrompts.bytes,
                        "The prompt of a sample, of a model of bytes");
  CLI::Option *sampleTokens =
      train->add_option("--sample-tokens", options.samplePrompts.file,
                        "FILE.jsonl of prompts, as of generate --tokens");
  sampleBytes->needs(sampleEvery)->excludes(sampleTokens);
  sampleTokens->needs(sampleEvery);
  CLI::Option *keepBest =
      train
          ->add_option("--keep-best", options.keepBest,
                       "Folder of another checkpoint, written whenever an "
                       "evaluation has the least loss so far")
          ->needs(save);
  CLI::Option *patience =
      train
          ->add_option("--patience", options.patience,
                       "End after so many evaluations without a better loss")
          ->check(kSomeSteps);
  train->final_callback([=, &options] {
    if (sampleEvery->count() && !options.samplePrompts.isText() &&
        options.samplePrompts.file.empty())
      throw CLI::RequiresError(sampleEvery->get_name(),
                               "--sample-bytes or --sample-tokens");
    for (const CLI::Option *option : {keepBest, patience})
      if (option->count() && !evalEvery->count())
        throw CLI::RequiresError(option->get_name(), evalEvery->get_name());
    if (evalEvery->count() && !evalData->count() &&
        !Dataset::isStore(options.data.path))
      throw CLI::RequiresError(evalEvery->get_name(), evalData->get_name());
  });
}

void addEval(CLI::App &app, EvalOptions &options, JobOptions &job) {
  CLI::App *eval = app.add_subcommand(
      "eval", "Mean cross-entropy over all windows of a file");
  addLibrary(eval, "library", options.library);
  addData(eval, options.data);
  addParameters(eval, options.load, options.weights, options.seed, "evaluated");
  addFunction(*eval, options.function, "eval");
  eval->add_flag("--json", options.json,
                 "Print {\"loss\": ..., \"tokens\": "
                 "...}");
  addRanks(eval, addJob(eval, job), job);
  addRankOptions(eval, options.ranks);
}

void addForward(CLI::App &app, ForwardOptions &options, JobOptions &job) {
  CLI::App *forward = app.add_subcommand(
      "forward", "Logits of the windows of a file, in their order");
  addLibrary(forward, "library", options.library);
  addData(forward, options.data);
  addParameters(forward, options.load, options.weights, options.seed, "used");
  forward
      ->add_option("--windows", options.windows,
                   "How many of the file's windows (default: all)")
      ->check(kSomeSteps);
  addFunction(*forward, options.function, "forward");
  forward->add_option("--result", options.result,
                      "Which of its outputs (default: logits, or hidden_states "
                      "of a model without a head)");
  forward
      ->add_option("-o,--output", options.output,
                   "FILE.npy or FILE.safetensors to write")
      ->required();
  addRanks(forward, addJob(forward, job), job);
  addRankOptions(forward, options.ranks);
}

void addInspect(CLI::App &app, InspectOptions &options) {
  CLI::App *inspect =
      app.add_subcommand("inspect", "What a model library contains");
  addLibrary(inspect, "library", options.library);
  CLI::Option *json =
      inspect->add_flag("--json", options.json, "Print the manifest");
  CLI::Option *commands =
      inspect
          ->add_flag("--commands", options.commands,
                     "Print what ranks execute: the commands of every "
                     "function, with queues, edges, buffers, flops and bytes")
          ->excludes(json);
  inspect
      ->add_option("--function", options.function,
                   "With --commands: of this function only")
      ->needs(commands);
  inspect
      ->add_option("--rank", options.rank,
                   "With --commands: addresses and numbers of this rank "
                   "(default: for all ranks)")
      ->needs(commands)
      ->check(inRange(0, optimus_support::kMaxRanks - 1));
}

void addVerify(CLI::App &app, VerifyOptions &options) {
  CLI::App *verify = app.add_subcommand(
      "verify",
      "Compare the gradients and logits of two compilations of one model");
  addLibrary(verify, "a", options.first);
  addLibrary(verify, "b", options.second, "Model library to compare with a");
  addData(verify, options.data);
  verify
      ->add_option("--seed", options.seed,
                   "Seed of initial values and of the data's order")
      ->capture_default_str()
      ->check(kSeed);
  CLI::Option *load = verify->add_option(
      "--load", options.load,
      "Folder of the checkpoint, or of weights, with the parameters");
  addWeights(*verify, options.weights)->needs(load);
  verify->add_option("--order", options.order, kOrderHelp)
      ->check(oneOf(Word{{"shuffled", "sequential"}}));
  verify
      ->add_option("--step-index", options.stepIndex,
                   "Which batch of the data, from 0")
      ->capture_default_str()
      ->check(kSteps);
  addRankOptions(verify, options.ranks);
  verify->add_flag("--json", options.json, "Print the comparison as JSON");
}

void addConvert(CLI::App &app, ConvertOptions &options) {
  CLI::App *convert = app.add_subcommand(
      "convert", "Write a model as a folder of weights, for Transformers");
  CLI::Option *library = convert->add_option(
      "library", options.library,
      "Library of the model: its names and config.json; needed where --load's "
      "folder has no config.json");
  convert
      ->add_option("--load", options.load,
                   "Folder of the checkpoint, or of weights")
      ->required();
  addWeights(*convert, options.weights)->needs(library);
  convert->add_flag(
      "--merge", options.merges,
      "Add the adapters to the weights that they are beside: the folder is "
      "that of a model without adapters");
  addSaveFormat(*convert, options.format,
                convert
                    ->add_option("--save", options.save,
                                 "Folder to write: a new or an empty one")
                    ->required());
}

void addBench(CLI::App &app, BenchOptions &options, JobOptions &job) {
  CLI::App *bench =
      app.add_subcommand("bench", "Time training steps on random tokens, or "
                                  "the machine with --comm and --gemm");
  addLibrary(bench, "library", options.library)->required(false);
  CLI::Option *comm =
      bench->add_flag("--comm", options.comm,
                      "Time and check collectives instead, with no library");
  bench
      ->add_option(
          "--ranks", options.numRanks,
          "With --comm: how many ranks communicate as threads; with "
          "--gemm: how many compute at the same time; with --rank: how "
          "many processes there are (OPTIMUS_RANKS)")
      ->check(inRange(1, 4096));
  for (auto [name, bytes, help] :
       {std::tuple("--min-bytes", &options.minBytes,
                   "With --comm: the smallest tensor; each next is four times "
                   "as large"),
        {"--max-bytes", &options.maxBytes, "With --comm: the largest tensor"}})
    bench->add_option(name, *bytes, help)
        ->capture_default_str()
        ->needs(comm)
        ->check(kCommBytes);
  CLI::Option *gemm = bench->add_flag(
      "--gemm", options.gemm,
      "Time what --ranks (default: 1) compute at the same time instead, with "
      "--threads-per-rank (default: 1) and no library");
  gemm->excludes(comm);
  for (auto [name, number, least, help] :
       {std::tuple("--largest", &options.largest, 32,
                   "With --gemm: the most features of a product"),
        {"--prompt", &options.prompt, 1,
         "With --generate: tokens of the prompt, or as many as a slot holds"},
        {"--rounds", &options.rounds, 1,
         "With --gemm or --generate: rounds in which all is timed; the median "
         "counts"}})
    bench->add_option(name, *number, help)
        ->capture_default_str()
        ->check(inRange(least, 1 << 20));
  bench
      ->add_flag("--generate", options.generate,
                 "Time a prompt and 128 new tokens, in the columns "
                 "of llama-bench, beside a plain sum over as many bytes")
      ->excludes(comm)
      ->excludes(gemm);
  bench
      ->add_option("--live", options.live,
                   "With --generate: numbers of slots with a token, as 1,2,4 "
                   "(default: one, and all)")
      ->delimiter(',')
      ->check(inRange(1, 1 << 12));
  bench
      ->add_option("--data", options.data,
                   "Time the reading of this data, too, from the disk and from "
                   "memory, and predict steps with a share of it in memory")
      ->excludes(comm)
      ->excludes(gemm);
  bench->add_option("--profile", options.profile,
                    "With --comm or --gemm: machine profile (JSON) to write "
                    "the measured costs into; its other entries stay");
  bench->parse_complete_callback([&options, &job, bench] {
    if (job.rank && options.numRanks == 0)
      throw CLI::RequiresError("--rank", "--ranks");
    if (options.numRanks != 0 && !options.comm && !options.gemm && !job.rank)
      throw CLI::RequiresError("--ranks", "--comm, --gemm or --rank");
    if (job.rank)
      job.ranks = static_cast<int>(std::exchange(options.numRanks, 0));
    bool timesMachine = options.comm || options.gemm;
    for (auto [name, isFor] : {std::pair("--largest", options.gemm),
                               {"--rounds", options.gemm || options.generate}})
      if (bench->count(name) && !isFor)
        throw CLI::RequiresError(name, "--gemm");
    for (const char *name : {"--live", "--prompt"})
      if (bench->count(name) && !options.generate)
        throw CLI::RequiresError(name, "--generate");
    for (const char *name : {"--function", "--steps", "--warmup", "--data"})
      if (options.generate && bench->count(name))
        throw CLI::ExcludesError("--generate", name);
    if (timesMachine)
      refuseDeviceFlags(*bench, options.comm ? "--comm" : "--gemm");
    if (options.library.empty() && !timesMachine)
      throw CLI::RequiredError("library");
    if (!options.profile.empty() && !timesMachine)
      throw CLI::RequiresError("--profile", "--comm or --gemm");
  });
  bench
      ->add_option("--function", options.function,
                   "The kind of function that is timed: train, eval, grad, "
                   "forward, prefill, decode, score; or one by its name")
      ->capture_default_str()
      ->excludes(comm)
      ->excludes(gemm);
  bench->add_option("--steps", options.steps, "Steps that are timed")
      ->capture_default_str()
      ->check(kSomeSteps);
  bench
      ->add_option("--warmup", options.warmup,
                   "Steps before those that are timed")
      ->capture_default_str()
      ->check(kSteps);
  addJob(bench, job);
  addRankOptions(bench, options.ranks);
  bench->add_flag("--json", options.json, "Print the figures as JSON");
}

constexpr std::pair<const char *, Subcommand> kSubcommands[] = {
    {"train", Subcommand::Train},     {"eval", Subcommand::Eval},
    {"forward", Subcommand::Forward}, {"generate", Subcommand::Generate},
    {"score", Subcommand::Score},     {"verify", Subcommand::Verify},
    {"inspect", Subcommand::Inspect}, {"convert", Subcommand::Convert},
    {"bench", Subcommand::Bench},
};

} // namespace

StatusOr<std::string> parseArguments(std::vector<std::string> arguments,
                                     CommandLine &line) {
  CLI::App app("Trains and examines models that optimus-compile compiled.\n"
               "optimus-run COMMAND --help explains a command.",
               "optimus-run");
  constexpr const char *kVersion = "optimus-run " OPTIMUS_VERSION;
  optimus_command_line::prepare(app, kVersion);
  app.require_subcommand(1);
  addTrain(app, line.train, line.job);
  addEval(app, line.eval, line.job);
  addForward(app, line.forward, line.job);
  addGenerate(app, line.generate, line.job);
  addScore(app, line.score, line.job);
  addVerify(app, line.verify);
  addInspect(app, line.inspect);
  addConvert(app, line.convert);
  addBench(app, line.bench, line.job);
  for (const auto &[name, subcommand] : kSubcommands)
    app.get_subcommand(name)->set_version_flag("--version", kVersion,
                                               "Print the version");

  StatusOr<std::string> asked = optimus_command_line::parse(
      app, std::move(arguments),
      {.lastCounts = true,
       .elsewhere = {"--accumulate", "--memory-budget", "--mesh", "--offload",
                     "--optimizer", "--precision", "--recompute", "--strategy"},
       .otherTool = "optimus-compile"});
  if (!asked.ok() || !asked->empty())
    return asked;
  for (const auto &[name, subcommand] : kSubcommands)
    if (app.got_subcommand(name))
      line.subcommand = subcommand;
  return asked;
}

std::optional<int> parseCommandLine(int argc, char **argv, bool speaks,
                                    CommandLine &line) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  StatusOr<std::string> asked = std::string();
  if (const std::optional<std::string> file = takeLanes(arguments)) {
    if (Status read = readLanes(arguments, *file, line); !read.ok())
      asked = std::move(read).withContext("--lanes");
  } else {
    asked = parseArguments(std::move(arguments), line);
    if (asked.ok() && asked->empty() && !line.train.lanes.empty())
      asked = invalidArgument("--lanes: expected it behind `train`");
  }
  if (!asked.ok()) {
    if (speaks)
      printFailure(asked.status());
    return asked.status().exitCode();
  }
  if (asked->empty())
    return std::nullopt;
  if (speaks)
    std::fputs(asked->c_str(), stdout);
  return 0;
}

} // namespace optimus_run
