//===- Generate.cpp - optimus-run generate --------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Format.h"
#include "Generation.h"
#include "JsonLine.h"
#include "Prompts.h"
#include "TensorFile.h"
#include "optimus-support/PathUse.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

using namespace optrt;

namespace optimus_run {
namespace {

using Clock = std::chrono::steady_clock;

Status planGeneration(const GenerateOptions &options, GenerationPlan &plan) {
  const optimus_support::PathUse inputs[] = {
      {"the library", options.source.library},
      {"--tokens", options.prompts.file},
      {"--load", options.source.load, /*isWhole=*/true}};
  const optimus_support::PathUse outputs[] = {
      {"--tune", options.source.ranks.tune}, {"--logits", options.logits}};
  if (!options.logits.empty())
    OPTRT_RETURN_IF_ERROR(TensorFile::check(options.logits));
  OPTRT_RETURN_IF_ERROR(optimus_support::checkOutputsApart(inputs, outputs));
  OPTRT_RETURN_IF_ERROR(
      plan.open(options.source.library, options.source.ranks));
  OPTRT_RETURN_IF_ERROR(plan.entries.checkHostPages(options.hostPages)
                            .withContext("--host-pages"));
  OPTRT_ASSIGN_OR_RETURN(
      plan.requests, readPrompts(options.prompts, plan.entries.vocabulary,
                                 {.maxTokens = options.maxTokens.value_or(0),
                                  .wantsLogits = !options.logits.empty(),
                                  .beams = options.beams,
                                  .lengthPenalty = options.lengthPenalty,
                                  .sampling = options.sampling}));
  return okStatus();
}

/// A text as it is printed when it has ended.
struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logits; ///< of each choice, if they are written
  FinishReason finish = FinishReason::Length;
  double score = 0; ///< of beams
  bool isComplete = false;
};

class Printer {
public:
  Printer(const GenerateOptions &options, const GenerationPlan &plan)
      : options(options), plan(plan), answers(plan.requests.size()) {
    if (isStreamed())
      print(toText(plan.requests[0].prompt));
  }

  void add(const GeneratedPart &part) {
    Answer &answer = answers[part.text];
    answer.tokens.insert(answer.tokens.end(), part.tokens.begin(),
                         part.tokens.end());
    answer.logits.insert(answer.logits.end(), part.logits.begin(),
                         part.logits.end());
    if (isStreamed())
      print(toText(part.tokens));
    if (part.finish) {
      answer.finish = *part.finish;
      answer.score = part.score;
      answer.isComplete = true;
    }
    // In the order of the prompts, whichever ends first.
    for (; next != answers.size() && answers[next].isComplete; ++next)
      if (!isStreamed())
        printAnswer(next);
  }

  Status finish() {
    if (isStreamed()) {
      print("\n");
      if (options.sampling.copyingPenalty)
        std::fprintf(stderr,
                     "%.3g of the text's letters and digits are of the "
                     "prompt's\n",
                     copiedShare(0));
    }
    if (options.logits.empty())
      return okStatus();
    // The choices of all texts, one text behind the other.
    const int64_t vocabulary = plan.entries.vocabulary;
    int64_t rows = 0;
    for (const Answer &answer : answers)
      rows += std::ssize(answer.logits) / vocabulary;
    OPTRT_ASSIGN_OR_RETURN(
        TensorFile file,
        TensorFile::open(
            options.logits,
            {"next_logits", ElementType::F32, {rows, vocabulary}}));
    for (const Answer &answer : answers)
      OPTRT_RETURN_IF_ERROR(
          file.append(std::as_bytes(std::span(answer.logits))));
    return file.commit();
  }

private:
  /// Whether text is printed as it comes.
  bool isStreamed() const { return options.prompts.isText() && !options.json; }

  static void print(const std::string &text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  double copiedShare(std::size_t index) const {
    const GenerationRequest &request = plan.requests[index];
    return request.sampling.copiedShare(request.prompt, answers[index].tokens);
  }

  void printAnswer(std::size_t index) const {
    const Answer &answer = answers[index];
    nlohmann::ordered_json line;
    line["prompt_tokens"] = plan.requests[index].prompt.size();
    line["tokens"] = answer.tokens;
    if (options.prompts.isText())
      line["text"] = toText(answer.tokens);
    line["finish_reason"] = toString(answer.finish);
    if (plan.requests[index].beams > 1)
      line["score"] = answer.score;
    if (plan.requests[index].sampling.copyingPenalty)
      line["copied"] = copiedShare(index);
    // Bytes that are no characters are replaced.
    print(toLine(line) + "\n");
  }

  const GenerateOptions &options;
  const GenerationPlan &plan;
  std::vector<Answer> answers;
  std::size_t next = 0;
};

/// What has been done, and how fast, for people.
void printRates(const Generator &generator, double seconds) {
  const GenerationCounters &counts = generator.counters();
  std::string ofPages =
      counts.sharedTokens == 0
          ? ""
          : concat("; ", counts.sharedTokens, " tokens of prompts shared");
  if (const int64_t bytes = generator.pages().value_or(PageCounts()).hostBytes)
    ofPages += concat("; ", counts.movedPages,
                      " pages moved to the host, where they take at most ",
                      formatBytes(bytes), " of all ranks together");
  std::fprintf(stderr,
               "%lld tokens of prompts and %lld new ones in %.2f s, %.1f a "
               "second; %.1f texts a decode%s\n",
               static_cast<long long>(counts.promptTokens),
               static_cast<long long>(counts.generatedTokens), seconds,
               static_cast<double>(counts.generatedTokens) /
                   std::max(seconds, 1e-9),
               static_cast<double>(counts.decodedTokens) /
                   static_cast<double>(std::max<int64_t>(counts.decodes, 1)),
               ofPages.c_str());
}

Status generateAll(const GenerateOptions &options, GenerationPlan &plan,
                   Session &session, ControlPlane &control) {
  Generator generator(session, control, plan.entries, options.hostPages);
  for (std::size_t i = 0; i != plan.requests.size(); ++i)
    OPTRT_RETURN_IF_ERROR(generator.add(plan.requests[i])
                              .status()
                              .withContext(describePrompt(options.prompts, i)));
  std::optional<Printer> printer;
  if (control.isRoot())
    printer.emplace(options, plan);
  const Clock::time_point begin = Clock::now();
  while (generator.hasWork()) {
    OPTRT_ASSIGN_OR_RETURN(std::vector<GeneratedPart> parts, generator.step());
    if (printer)
      for (const GeneratedPart &part : parts)
        printer->add(part);
  }
  OPTRT_RETURN_IF_ERROR(
      control.agree(printer ? printer->finish() : okStatus()));
  if (printer && options.rates)
    printRates(generator,
               std::chrono::duration<double>(Clock::now() - begin).count());
  return okStatus();
}

} // namespace

Status generate(const GenerateOptions &options, World &world) {
  GenerationPlan plan;
  return withGeneration(planGeneration(options, plan), plan, options.source,
                        world, [&](Session &session) {
                          return generateAll(options, plan, session,
                                             *world.control);
                        });
}

} // namespace optimus_run
