//===- Generator.cpp - Texts, token by token ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Generator.h"

#include <algorithm>
#include <cstring>

using namespace optrt;

static constexpr const char *kLogits = "next_logits";

StatusOr<GenerationEntries> GenerationEntries::find(const std::string &library,
                                                    const Manifest &manifest) {
  GenerationEntries found;
  for (auto [kind, entry] : {std::pair(EntryKind::Prefill, &found.prefill),
                             {EntryKind::Decode, &found.decode}}) {
    StatusOr<const Function *> function = manifest.findEntry(library, kind);
    if (!function.ok())
      return function.status().withAdvice(
          "`python3 -m optimus.models … --generate slots=1,context=N,chunk=N` "
          "writes a program with both, for optimus-compile");
    *entry = *function;
  }
  const std::optional<CacheExtents> prefilled =
                                        manifest.cacheOf(*found.prefill),
                                    decoded = manifest.cacheOf(*found.decode);
  if (!prefilled || prefilled != decoded)
    return invalidArgument(concat("`", library, "`: expected one cache of ",
                                  found.prefill->name, " and ",
                                  found.decode->name));
  OPTRT_ASSIGN_OR_RETURN(int64_t logits,
                         manifest.findOutput(library, *found.decode, kLogits));
  found.cache = *decoded;
  found.chunk = found.prefill->sequence;
  for (const Function *function : {found.prefill, found.decode})
    for (const Function *preparer : manifest.findPreparersOf(*function))
      if (std::find(found.preparers.begin(), found.preparers.end(), preparer) ==
          found.preparers.end())
        found.preparers.push_back(preparer);
  found.vocabulary = manifest.buffers[logits].layout.shape.back();
  return found;
}

std::vector<std::string> GenerationEntries::functions() const {
  std::vector<std::string> names;
  for (const Function *preparer : preparers)
    names.push_back(preparer->name);
  names.insert(names.end(), {prefill->name, decode->name});
  return names;
}

Status GenerationEntries::prepare(Session &session) const {
  for (const Function *reader : {prefill, decode})
    OPTRT_RETURN_IF_ERROR(session.prepareFor(*reader));
  return preparers.empty() ? okStatus() : session.releaseSources();
}

std::string_view optrt::toString(FinishReason reason) {
  switch (reason) {
  case FinishReason::Stop:
    return "stop";
  case FinishReason::Length:
    return "length";
  case FinishReason::Cancelled:
    return "cancelled";
  }
  return "";
}

StatusOr<int64_t> Generator::add(GenerationRequest request) {
  const int64_t size = std::ssize(request.prompt);
  const int64_t context = entries.cache.context;
  if (size == 0)
    return invalidArgument("the prompt has no token; expected at least one, "
                           "which the first new one follows");
  for (auto [where, tokens] :
       {std::pair("the prompt", std::span<const int32_t>(request.prompt)),
        {"the continuation", request.continuation}})
    for (std::size_t i = 0; i != tokens.size(); ++i)
      if (tokens[i] < 0 || tokens[i] >= entries.vocabulary)
        return invalidArgument(concat("token ", i, " of ", where, " is ",
                                      tokens[i],
                                      "; expected one of the vocabulary's ",
                                      entries.vocabulary, ", from 0 on"));
  if (!request.continuation.empty())
    request.maxTokens = std::ssize(request.continuation);
  // The last token that is generated is put nowhere.
  const int64_t place = context - size + 1;
  if (place < 1)
    return invalidArgument(concat("the prompt has ", size,
                                  " tokens; expected at most the ", context,
                                  " of the context that the library was "
                                  "compiled for"));
  if (request.maxTokens < 0 || request.maxTokens > place)
    return invalidArgument(concat(
        "expected at most ", place, " new tokens behind a prompt of ", size,
        " in a context of ", context, ", found ", request.maxTokens));
  if (request.maxTokens == 0)
    request.maxTokens = place;
  for (const std::vector<int32_t> &stop : request.stops)
    if (stop.empty())
      return invalidArgument("expected a stop of at least one token, found an "
                             "empty one");
  OPTRT_RETURN_IF_ERROR(request.sampling.check(entries.vocabulary));
  Text text;
  text.number = numTexts++;
  text.request = std::move(request);
  waiting.push_back(std::move(text));
  return waiting.back().number;
}

void Generator::cancel(int64_t number) {
  for (std::optional<Text> &text : slots)
    if (text && text->number == number)
      text->isCancelled = true;
  for (auto text = waiting.begin(); text != waiting.end(); ++text)
    if (text->number == number) {
      ended.push_back({number, {}, FinishReason::Cancelled});
      waiting.erase(text);
      return;
    }
}

bool Generator::hasWork() const {
  return !waiting.empty() || !ended.empty() ||
         std::any_of(slots.begin(), slots.end(),
                     [](const auto &text) { return text.has_value(); });
}

/// Puts the next chunk of each prompt into the cache, all but its last token.
Status Generator::takePrompts() {
  std::vector<SlotTokens> chunks;
  for (std::size_t slot = 0; slot != slots.size(); ++slot) {
    if (!slots[slot])
      continue;
    const Text &text = *slots[slot];
    const int64_t count =
        std::min(entries.chunk, text.promptSize() - 1 - text.cached);
    if (count > 0)
      chunks.push_back({static_cast<int64_t>(slot), text.cached,
                        std::span<const int32_t>(text.request.prompt)
                            .subspan(text.cached, count)});
  }
  if (chunks.empty())
    return okStatus();
  OPTRT_RETURN_IF_ERROR(session.fillSlots(entries.prefill->name, chunks));
  OPTRT_RETURN_IF_ERROR(session.run(entries.prefill->name).status());
  ++counts.prefills;
  for (const SlotTokens &chunk : chunks) {
    slots[chunk.slot]->cached += std::ssize(chunk.tokens);
    counts.promptTokens += std::ssize(chunk.tokens);
  }
  return okStatus();
}

Status Generator::choose(std::vector<Choice> &choices,
                         const StatusOr<HostTensor> &logits) {
  Status own = logits.status();
  std::vector<int32_t> tokens;
  for (Choice &choice : choices) {
    if (!own.ok() || !control.isRoot())
      break;
    std::vector<float> row(entries.vocabulary);
    const std::size_t bytes = row.size() * sizeof(float);
    std::memcpy(row.data(), logits->bytes.data() + choice.slot * bytes, bytes);
    const Text &text = *slots[choice.slot];
    const GenerationRequest &request = text.request;
    StatusOr<int32_t> token =
        request.continuation.empty()
            ? sampleToken(row, request.prompt, text.generated, request.sampling)
            : StatusOr<int32_t>(request.continuation[text.generated.size()]);
    if (token.ok() && request.wantsScores)
      choice.score = logProbability(row, *token);
    if (token.ok() && request.numBest > 0)
      choice.best = mostProbable(row, request.numBest);
    if (!token.ok())
      own = token.status().withContext(concat("text ", text.number));
    else
      tokens.push_back(*token);
    if (request.wantsLogits)
      choice.logits = std::move(row);
  }
  OPTRT_RETURN_IF_ERROR(control.agree(own));
  const std::string said(reinterpret_cast<const char *>(tokens.data()),
                         tokens.size() * sizeof(int32_t));
  const std::string heard = control.allGather(said).front();
  if (heard.size() != choices.size() * sizeof(int32_t))
    return internal(concat("rank 0 has chosen ", heard.size() / sizeof(int32_t),
                           " tokens for ", choices.size(), " texts"));
  for (std::size_t i = 0; i != choices.size(); ++i)
    std::memcpy(&choices[i].token, heard.data() + i * sizeof(int32_t),
                sizeof(int32_t));
  return okStatus();
}

StatusOr<std::vector<Generator::Choice>> Generator::decode() {
  std::vector<int32_t> last(slots.size());
  std::vector<SlotTokens> inputs;
  std::vector<Choice> choices;
  for (std::size_t slot = 0; slot != slots.size(); ++slot) {
    if (!slots[slot] || slots[slot]->cached != slots[slot]->size() - 1)
      continue;
    last[slot] = slots[slot]->last();
    choices.push_back({static_cast<int64_t>(slot)});
    inputs.push_back({choices.back().slot, slots[slot]->cached,
                      std::span<const int32_t>(&last[slot], 1)});
  }
  if (choices.empty())
    return choices;
  const std::string &name = entries.decode->name;
  OPTRT_RETURN_IF_ERROR(session.fillSlots(name, inputs));
  OPTRT_RETURN_IF_ERROR(session.run(name).status());
  ++counts.decodes;
  OPTRT_RETURN_IF_ERROR(choose(choices, session.output(name, kLogits)));
  for (const Choice &choice : choices)
    ++slots[choice.slot]->cached;
  return choices;
}

/// How many of the last tokens a stop begins with: they may become one.
static int64_t countHeldBack(std::span<const int32_t> tokens,
                             std::span<const std::vector<int32_t>> stops) {
  std::size_t held = 0;
  for (const std::vector<int32_t> &stop : stops)
    for (std::size_t length = std::min(stop.size() - 1, tokens.size());
         length > held; --length)
      if (std::equal(stop.begin(), stop.begin() + length,
                     tokens.end() - length))
        held = length;
  return static_cast<int64_t>(held);
}

GeneratedPart Generator::extend(Text &text, Choice &choice) {
  std::vector<int32_t> &tokens = text.generated;
  tokens.push_back(choice.token);
  ++counts.generatedTokens;
  GeneratedPart part;
  part.text = text.number;
  part.logits = std::move(choice.logits);
  part.score = choice.score;
  part.best = std::move(choice.best);
  int64_t end = std::ssize(tokens);
  for (const std::vector<int32_t> &stop : text.request.stops)
    if (stop.size() <= tokens.size() &&
        std::equal(stop.begin(), stop.end(), tokens.end() - stop.size())) {
      part.finish = FinishReason::Stop;
      end = std::min(end, std::ssize(tokens) - std::ssize(stop));
    }
  if (!part.finish && std::ssize(tokens) == text.request.maxTokens)
    part.finish = FinishReason::Length;
  if (!part.finish)
    end -= countHeldBack(tokens, text.request.stops);
  if (end > text.released) {
    part.tokens.assign(tokens.begin() + text.released, tokens.begin() + end);
    text.released = end;
  }
  return part;
}

StatusOr<std::vector<GeneratedPart>> Generator::step() {
  std::vector<GeneratedPart> parts = std::move(ended);
  ended.clear();
  for (std::optional<Text> &text : slots) {
    if (text && text->isCancelled) {
      parts.push_back({text->number, {}, FinishReason::Cancelled});
      text.reset();
    }
    if (!text && !waiting.empty()) {
      text = std::move(waiting.front());
      waiting.pop_front();
    }
  }
  OPTRT_RETURN_IF_ERROR(takePrompts());
  OPTRT_ASSIGN_OR_RETURN(std::vector<Choice> choices, decode());
  for (Choice &choice : choices) {
    std::optional<Text> &text = slots[choice.slot];
    parts.push_back(extend(*text, choice));
    if (parts.back().finish)
      text.reset();
  }
  return parts;
}
