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
#include "TrainProfile.h"
#include "optimus-support/Sizes.h"

#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <tuple>
#include <utility>

using namespace optrt;
using optimus_command_line::ByteCount;
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

/// A whole number in [least, most].
CLI::Validator count(int64_t least, int64_t most) {
  return oneOf(WholeNumber{least, most});
}

const CLI::Validator kSeed = oneOf(Number<uint64_t>{
    concat("a whole number from 0 to ", UINT64_MAX), 0, UINT64_MAX});
const CLI::Validator kSteps = count(0, kMostSteps);
const CLI::Validator kSomeSteps = count(1, kMostSteps);
const CLI::Validator kThreads = count(1, 4096);
const CLI::Validator kCommBytes = count(4, int64_t(1) << 32);
const CLI::Validator kSeconds = oneOf(
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
      ->check(count(0, optimus_support::kMaxRanks - 1))
      ->group(kGroup);
}

void addRanks(CLI::App *app, CLI::Option *rank, JobOptions &job) {
  rank->needs(app->add_option("--ranks", job.ranks,
                              "With --rank: how many there are (OPTIMUS_RANKS)")
                  ->needs(rank)
                  ->check(count(1, optimus_support::kMaxRanks))
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
                        std::string &path) {
  return app->add_option(name, path, "Model library that optimus-compile wrote")
      ->required();
}

/// `evalData` is another file of the run, or null.
void addData(CLI::App *app, DataOptions &data,
             const std::string *evalData = nullptr) {
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

/// Of a command with --load or --load-weights. Returns the option for folders
/// that are no checkpoints.
CLI::Option *addWeights(CLI::App &app, WeightFlags &weights) {
  app.add_option("--base", weights.base,
                 "Folder of the weights beside which adapters alone were "
                 "trained (default: the one that they name)");
  return optimus_command_line::addList(
      app, "--ignore", weights.ignored,
      "Tensors to leave out of a folder of weights, by a pattern such as "
      "'score.*'; may be repeated");
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

/// The parameters of a command that does not train; `use` says in the help what
/// is done with them.
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

/// Of several functions of the kind that a command calls, one.
void addFunction(CLI::App &app, std::string &function, const char *kind) {
  app.add_option("--function", function,
                 concat("Which function, where the library has several of the "
                        "kind ",
                        kind));
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

/// How tokens are chosen; what may be given is checked by SamplingOptions.
void addSampling(CLI::App *app, SamplingOptions &sampling) {
  constexpr const char *kGroup = "Sampling (docs/inference.md)";
  for (auto [name, number, help] :
       {std::tuple("--temperature", &sampling.temperature,
                   "Divides logits; 0 chooses the most probable token"),
        {"--top-p", &sampling.topP,
         "Choose among the fewest tokens of at least this probability"},
        {"--min-p", &sampling.minP,
         "Choose among tokens at least this times as probable as the most "
         "probable one"},
        {"--repetition-penalty", &sampling.repetitionPenalty,
         "Divides positive logits of tokens of the text so far, and multiplies "
         "negative ones"},
        {"--presence-penalty", &sampling.presencePenalty,
         "Subtracted from the logit of each token that was generated"},
        {"--frequency-penalty", &sampling.frequencyPenalty,
         "Subtracted as often as the token was generated"}})
    app->add_option(name, *number, help)->capture_default_str()->group(kGroup);
  app->add_option(
         "--copying-penalty", sampling.copyingPenalty,
         "Its logarithm is added to the logits of the prompt's tokens: "
         "below 1 the text copies less of it; the share of copies is "
         "reported")
      ->group(kGroup);
  app->add_option("--top-k", sampling.topK,
                  "Choose among so many of the most probable tokens; 0: all")
      ->capture_default_str()
      ->group(kGroup);
}

/// One of --bytes and --tokens, in this order.
std::pair<CLI::Option *, CLI::Option *>
addPrompts(CLI::App *app, PromptOptions &prompts, const std::string &bytesHelp,
           const std::string &tokensHelp) {
  CLI::Option *bytes = app->add_option("--bytes", prompts.bytes, bytesHelp);
  CLI::Option *tokens = app->add_option("--tokens", prompts.file, tokensHelp);
  bytes->excludes(tokens);
  return {bytes, tokens};
}

void requireOne(std::pair<CLI::Option *, CLI::Option *> prompts) {
  if (prompts.first->count() + prompts.second->count() == 0)
    throw CLI::RequiredError("--bytes or --tokens");
}

void addGenerate(CLI::App &app, GenerateOptions &options, JobOptions &job) {
  CLI::App *generate =
      app.add_subcommand("generate", "Text that follows a prompt");
  GenerationSource &source = options.source;
  addLibrary(generate, "library", source.library);
  auto prompts = addPrompts(
      generate, options.prompts,
      "The prompt, of a model with a token a byte; it is printed with what "
      "follows",
      "FILE.jsonl of prompts, a line each: [1, 2], or {\"tokens\": [1, 2], "
      "\"max_tokens\": 5, ...}; a line of JSON is printed for each");
  addParameters(generate, source.load, source.weights, source.seed, "used");
  generate
      ->add_option("--max-tokens", options.maxTokens,
                   "New tokens at most (default: what the context has place "
                   "for)")
      ->check(kSomeSteps);
  optimus_command_line::addList(
      *generate, "--stop", options.prompts.stops,
      "End before this text, or with --tokens before this token; may be given "
      "several times");
  generate->add_flag("--json", options.json,
                     "Print a line of JSON for each prompt");
  generate->add_option("--logits", options.logits,
                       "FILE.npy or FILE.safetensors for the logits by which "
                       "each new token was chosen, text behind text");
  generate->add_flag("--rates", options.rates,
                     "Say how many tokens a second there were");
  addSampling(generate, options.sampling);
  generate
      ->add_option(
          "--beams", options.beams,
          "Go on with so many of the most probable beginnings, each in "
          "a slot, and print the best text")
      ->capture_default_str();
  generate
      ->add_option("--length-penalty", options.lengthPenalty,
                   "With --beams: a text's score is divided by its length to "
                   "this power")
      ->capture_default_str();
  generate->parse_complete_callback([&options, prompts] {
    requireOne(prompts);
    options.sampling.seed = options.source.seed;
  });
  addRanks(generate, addJob(generate, job), job);
  addRankOptions(generate, source.ranks);
}

void addScore(CLI::App &app, ScoreOptions &options, JobOptions &job) {
  CLI::App *score = app.add_subcommand(
      "score", "Log-probabilities of given tokens, each after those before it");
  GenerationSource &source = options.source;
  addLibrary(score, "library", source.library);
  auto prompts = addPrompts(
      score, options.prompts, "The text, of a model with a token a byte",
      "FILE.jsonl of texts, a line each: [1, 2], or {\"tokens\": [1, 2], "
      "\"choices\": [[3], [4, 5]]} for tokens that may follow");
  addParameters(score, source.load, source.weights, source.seed, "used");
  score
      ->add_option(
          "--context", options.context,
          "Tokens before a token that count, at most (default: as many "
          "as the library was compiled for)")
      ->check(kSomeSteps);
  score
      ->add_option("--stride", options.stride,
                   "Divide texts into windows of the context, which begin so "
                   "many tokens apart (default with --context: as many)")
      ->check(kSomeSteps);
  score->parse_complete_callback([prompts] { requireOne(prompts); });
  addRanks(score, addJob(score, job), job);
  addRankOptions(score, source.ranks);
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
      ->check(count(0, optimus_support::kMaxRanks - 1));
}

void addVerify(CLI::App &app, VerifyOptions &options) {
  CLI::App *verify = app.add_subcommand(
      "verify",
      "Compare the gradients and logits of two compilations of one model");
  addLibrary(verify, "a", options.first);
  addLibrary(verify, "b", options.second);
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
      ->check(count(1, 4096));
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
                   "With --gemm: the largest extent of a product"),
        {"--rounds", &options.rounds, 1,
         "With --gemm or --generate: rounds in which all is timed; the median "
         "counts"}})
    bench->add_option(name, *number, help)
        ->capture_default_str()
        ->check(count(least, 1 << 20));
  bench
      ->add_flag("--generate", options.generate,
                 "Time a prompt of 512 tokens and 128 new ones, in the columns "
                 "of llama-bench, beside a plain sum over as many bytes")
      ->excludes(comm)
      ->excludes(gemm);
  bench
      ->add_option("--live", options.live,
                   "With --generate: numbers of slots with a token, as 1,2,4 "
                   "(default: one, and all)")
      ->delimiter(',')
      ->check(count(1, 1 << 12));
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
    if (bench->count("--live") && !options.generate)
      throw CLI::RequiresError("--live", "--generate");
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
