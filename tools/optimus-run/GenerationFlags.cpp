//===- GenerationFlags.cpp - The commands of generation -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedFlags.h"

#include "CommandLine/Values.h"

#include <tuple>
#include <utility>

using namespace optrt;

namespace optimus_run {

namespace {
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
} // namespace

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
  generate
      ->add_option("--host-pages", options.hostPages,
                   "Pages that texts may have in host memory beside those of "
                   "the library: more texts at a time, of which some wait")
      ->check(kSomeSteps);
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

} // namespace optimus_run
