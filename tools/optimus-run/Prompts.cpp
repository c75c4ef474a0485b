//===- Prompts.cpp - What texts are asked for -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Prompts.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/JsonCursor.h"

#include <charconv>
#include <limits>

using namespace optrt;
using optimus_support::JsonCursor;
using optimus_support::JsonDocument;

namespace optimus_run {
namespace {

constexpr std::size_t kMostPromptBytes = std::size_t(1) << 30;
constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();

std::vector<int32_t> toTokens(std::string_view bytes) {
  std::vector<int32_t> tokens;
  for (char byte : bytes)
    tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

/// Of bytes beyond ASCII, which make up letters, nobody asks.
bool isLetterOrDigit(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= 'a' && byte <= 'z');
}

/// A stop: the bytes of a text, or the number of a token.
StatusOr<std::vector<int32_t>> readStop(const PromptOptions &options,
                                        const std::string &stop) {
  if (options.isText())
    return toTokens(stop);
  int32_t token = -1;
  const char *end = stop.data() + stop.size();
  auto [last, error] = std::from_chars(stop.data(), end, token);
  if (error != std::errc() || last != end || token < 0)
    return invalidArgument(concat("--stop: expected the number of a token "
                                  "beside --tokens, found '",
                                  stop, "'"));
  return std::vector<int32_t>{token};
}

std::vector<int32_t> readTokens(const JsonCursor &cursor) {
  std::vector<int32_t> tokens;
  for (int64_t token : cursor.integers(0, kMostTokens))
    tokens.push_back(static_cast<int32_t>(token));
  return tokens;
}

/// What a line says; `request` is what all have in common.
void readLine(const JsonCursor &line, GenerationRequest &request) {
  SamplingOptions &sampling = request.sampling;
  const std::pair<std::string_view, double *> numbers[] = {
      {"temperature", &sampling.temperature},
      {"top_p", &sampling.topP},
      {"min_p", &sampling.minP},
      {"repetition_penalty", &sampling.repetitionPenalty},
      {"presence_penalty", &sampling.presencePenalty},
      {"frequency_penalty", &sampling.frequencyPenalty},
      {"length_penalty", &request.lengthPenalty}};
  request.prompt = readTokens(line["tokens"]);
  for (const auto &[name, member] : line.members()) {
    auto number = std::find_if(
        std::begin(numbers), std::end(numbers),
        [&, &name = name](const auto &each) { return each.first == name; });
    if (name == "tokens")
      continue;
    if (name == "copying_penalty")
      sampling.copyingPenalty = member.number();
    else if (name == "copying_source")
      sampling.copyingSource = readTokens(member);
    else if (name == "copying_exceptions")
      for (int32_t token : readTokens(member))
        sampling.copyingExceptions.insert(token);
    else if (number != std::end(numbers))
      *number->second = member.number();
    else if (name == "max_tokens")
      request.maxTokens = member.integer(1, kMostTokens);
    else if (name == "beams")
      request.beams = member.integer(1, kMostTokens);
    else if (name == "seed")
      sampling.seed = member.unsignedInteger();
    else if (name == "top_k")
      sampling.topK = member.integer(0, kMostTokens);
    else if (name == "stop")
      for (const JsonCursor &stop : member.elements())
        request.stops.push_back(readTokens(stop));
    else
      member.fail("there is no such option; expected tokens, max_tokens, stop, "
                  "seed, temperature, top_k, top_p, min_p, repetition_penalty, "
                  "presence_penalty, frequency_penalty, copying_penalty, "
                  "copying_source, copying_exceptions, beams or "
                  "length_penalty");
  }
}

} // namespace

std::string describePrompt(const PromptOptions &options, std::size_t index) {
  return options.isText() ? std::string("--bytes")
                          : concat(options.file, ", prompt ", index + 1);
}

/// InvalidArgument where bytes are no tokens of a model.
static Status checkBytes(int64_t vocabulary) {
  if (vocabulary <= 256)
    return okStatus();
  return invalidArgument(concat(
      "--bytes is for models with a token a byte, and this one has a "
      "vocabulary of ",
      vocabulary, ", which a tokenizer made; give its tokens by --tokens"));
}

/// Visits the lines of a file, JSON objects; a list is one of tokens.
template <typename Visit>
static Status forEachLine(const std::string &path, const Visit &visit) {
  const StatusOr<std::string> read =
      optimus_support::readInput(path, kMostPromptBytes);
  if (!read.ok())
    return read.status().withAdvice(
        "expected a file with lines such as [1, 2]");
  const std::string &text = *read;
  int64_t number = 0;
  bool isEmpty = true;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    ++number;
    std::string line = text.substr(begin, end - begin);
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos)
      continue;
    if (line[first] == '[')
      line = concat("{\"tokens\": ", line, "}");
    JsonDocument document(line, concat(path, ":", number),
                          StatusCode::InvalidArgument);
    visit(document.root());
    OPTRT_RETURN_IF_ERROR(document.status());
    isEmpty = false;
  }
  return isEmpty ? invalidArgument(concat(
                       path, " has no prompt; expected a line such as [1, 2] "
                             "or {\"tokens\": [1, 2], ...}"))
                 : okStatus();
}

StatusOr<std::vector<GenerationRequest>>
readPrompts(const PromptOptions &options, int64_t vocabulary,
            const GenerationRequest &common) {
  GenerationRequest request = common;
  for (const std::string &stop : options.stops) {
    OPTRT_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                           readStop(options, stop));
    request.stops.push_back(std::move(tokens));
  }
  std::vector<GenerationRequest> requests;
  if (options.isText()) {
    OPTRT_RETURN_IF_ERROR(checkBytes(vocabulary));
    request.prompt = toTokens(*options.bytes);
    for (int32_t byte = 0; byte != 128; ++byte)
      if (!isLetterOrDigit(static_cast<char>(byte)))
        request.sampling.copyingExceptions.insert(byte);
    requests.push_back(std::move(request));
    return requests;
  }
  OPTRT_RETURN_IF_ERROR(forEachLine(options.file, [&](const JsonCursor &line) {
    requests.push_back(request);
    readLine(line, requests.back());
  }));
  return requests;
}

StatusOr<std::vector<ScoredText>> readScoredTexts(const PromptOptions &options,
                                                  int64_t vocabulary) {
  std::vector<ScoredText> texts;
  if (options.isText()) {
    OPTRT_RETURN_IF_ERROR(checkBytes(vocabulary));
    texts.push_back({toTokens(*options.bytes)});
    return texts;
  }
  OPTRT_RETURN_IF_ERROR(forEachLine(options.file, [&](const JsonCursor &line) {
    texts.push_back({readTokens(line["tokens"])});
    for (const auto &[name, member] : line.members())
      if (name == "choices")
        for (const JsonCursor &choice : member.elements())
          texts.back().choices.push_back(readTokens(choice));
      else if (name != "tokens")
        member.fail("there is no such option; expected tokens or choices");
  }));
  return texts;
}

} // namespace optimus_run
