//===- Generator.cpp - Texts, token by token ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Generator.h"

#include "Message.h"
#include "RowScores.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace optrt;

static constexpr const char *kNextLogits = "next_logits",
                            *kPromptLogits = "prompt_logits",
                            *kScoredLogits = "scored_logits";

StatusOr<GenerationEntries> GenerationEntries::find(const std::string &library,
                                                    const Manifest &manifest) {
  GenerationEntries found;
  for (auto [kind, entry] : {std::pair(EntryKind::Prefill, &found.prefill),
                             {EntryKind::Decode, &found.decode}}) {
    OPTRT_ASSIGN_OR_RETURN(*entry, manifest.findEntry(library, kind));
  }
  const std::optional<CacheExtents> prefilled =
                                        manifest.cacheOf(*found.prefill),
                                    decoded = manifest.cacheOf(*found.decode);
  if (!prefilled || prefilled != decoded)
    return invalidArgument(concat("`", library, "`: expected one cache of ",
                                  found.prefill->name, " and ",
                                  found.decode->name));
  OPTRT_ASSIGN_OR_RETURN(
      int64_t logits, manifest.findOutput(library, *found.decode, kNextLogits));
  if (manifest.has(EntryKind::Score)) {
    OPTRT_ASSIGN_OR_RETURN(found.score,
                           manifest.findEntry(library, EntryKind::Score));
    if (manifest.cacheOf(*found.score) != decoded)
      return invalidArgument(concat("`", library, "`: expected one cache of ",
                                    found.score->name, " and ",
                                    found.decode->name));
  }
  found.cache = *decoded;
  found.chunk = found.prefill->sequence;
  for (const Function *function : {found.prefill, found.decode, found.score})
    for (const Function *preparer : function
                                        ? manifest.findPreparersOf(*function)
                                        : std::vector<const Function *>())
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

StatusOr<std::vector<std::string>>
GenerationEntries::scoringFunctions(const std::string &library) const {
  if (!score)
    return invalidArgument(
               concat("`", library, "` has no function of the kind score"))
        .withAdvice("`--generate` of the models' builders writes one");
  std::vector<std::string> names = {score->name};
  for (const Function *preparer : preparers)
    names.push_back(preparer->name);
  return names;
}

Status GenerationEntries::prepare(Session &session) const {
  for (const Function *reader : {prefill, decode, score})
    if (reader && session.hasChosen(*reader))
      OPTRT_RETURN_IF_ERROR(session.prepareFor(*reader));
  return okStatus();
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

/// What a text of several beams may ask for.
static Status checkBeams(const GenerationRequest &request,
                         const CacheExtents &cache) {
  const bool hasPages = cache.pages != 0;
  const int64_t slots = hasPages ? cache.slotsOfPool : cache.slots;
  if (request.beams < 1 || request.beams > slots)
    return invalidArgument(
        concat("expected from 1 to ", slots, " beams, one a slot of ",
               hasPages ? "a rank, whose pages they share" : "the library",
               ", found ", request.beams));
  constexpr double kMostPenalty = 100;
  // What is no number is in no range.
  if (!(std::abs(request.lengthPenalty) <= kMostPenalty))
    return invalidArgument(concat(
        "the length penalty is ", request.lengthPenalty,
        "; expected a number from -", kMostPenalty, " to ", kMostPenalty));
  if (request.sampling.temperature != 0)
    return invalidArgument(concat("beams are chosen by their scores; expected "
                                  "temperature 0 beside them, found ",
                                  request.sampling.temperature));
  if (!request.continuation.empty() || request.wantsLogits ||
      request.wantsScores || request.numBest != 0)
    return invalidArgument("expected no continuation, logits or "
                           "log-probabilities of single tokens beside beams");
  return okStatus();
}

Status GenerationEntries::check(const GenerationRequest &request) const {
  const int64_t size = std::ssize(request.prompt);
  const int64_t context = cache.context;
  if (size == 0)
    return invalidArgument("the prompt has no token; expected at least one, "
                           "which the first new one follows");
  for (auto [where, tokens] :
       {std::pair("the prompt", std::span<const int32_t>(request.prompt)),
        {"the continuation", request.continuation}})
    for (std::size_t i = 0; i != tokens.size(); ++i)
      if (tokens[i] < 0 || tokens[i] >= vocabulary)
        return invalidArgument(concat(
            "token ", i, " of ", where, " is ", tokens[i],
            "; expected one of the vocabulary's ", vocabulary, ", from 0 on"));
  // The last token that is generated is put nowhere.
  const int64_t place = context - size + 1;
  if (place < 1)
    return invalidArgument(concat("the prompt has ", size,
                                  " tokens; expected at most the ", context,
                                  " of the context that the library was "
                                  "compiled for"));
  const int64_t asked = request.continuation.empty()
                            ? request.maxTokens
                            : std::ssize(request.continuation);
  if (asked < 0 || asked > place)
    return invalidArgument(
        concat("expected at most ", place, " new tokens behind a prompt of ",
               size, " in a context of ", context, ", found ", asked));
  for (const std::vector<int32_t> &stop : request.stops)
    if (stop.empty())
      return invalidArgument("expected a stop of at least one token, found an "
                             "empty one");
  if (request.beams != 1)
    OPTRT_RETURN_IF_ERROR(checkBeams(request, cache));
  OPTRT_RETURN_IF_ERROR(checkPages(request, std::max<int64_t>(asked, 1)));
  return request.sampling.check(vocabulary);
}

StatusOr<int64_t> Generator::add(GenerationRequest request) {
  OPTRT_RETURN_IF_ERROR(entries.check(request));
  if (!request.continuation.empty()) {
    if (!entries.score || !session.hasChosen(*entries.score))
      return invalidArgument("expected a session with the library's function "
                             "of the kind score, which takes a continuation "
                             "in; found none");
    request.maxTokens = std::ssize(request.continuation);
  }
  if (request.maxTokens == 0)
    request.maxTokens = entries.placeBehind(request);
  Text text;
  text.number = numTexts++;
  text.slides = entries.slides(request, request.maxTokens);
  if (request.beams > 1)
    text.search.emplace(BeamOptions{.beams = request.beams,
                                    .lengthPenalty = request.lengthPenalty,
                                    .maxTokens = request.maxTokens,
                                    .stops = request.stops});
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

Status Generator::readLogits(const Function &function, const char *output,
                             std::span<Choice> choices) {
  const StatusOr<HostTensor> logits = session.output(function.name, output);
  OPTRT_RETURN_IF_ERROR(control.agree(logits.status()));
  if (!control.isRoot())
    return okStatus();
  const std::size_t bytes = entries.vocabulary * sizeof(float);
  for (Choice &choice : choices) {
    choice.logits.resize(entries.vocabulary * choice.rows.size());
    for (std::size_t i = 0; i != choice.rows.size(); ++i)
      std::memcpy(choice.logits.data() + i * entries.vocabulary,
                  logits->bytes.data() + choice.rows[i] * bytes, bytes);
  }
  return okStatus();
}

std::optional<int64_t> Generator::findPrompt() {
  while (true) {
    auto oldest = slots.end();
    for (auto slot = slots.begin(); slot != slots.end(); ++slot)
      if (*slot && !(*slot)->isParked && (*slot)->numOfChunks() > 0 &&
          (oldest == slots.end() || (*slot)->number < (*oldest)->number))
        oldest = slot;
    if (oldest == slots.end())
      return std::nullopt;
    // Perhaps another text has what is left for chunks.
    adoptPrefix(**oldest, oldest - slots.begin());
    if ((*oldest)->numOfChunks() > 0)
      return oldest - slots.begin();
  }
}

Status Generator::takePrompt(std::vector<Choice> &choices) {
  OPTRT_RETURN_IF_ERROR(forkPrompts(choices));
  const std::optional<int64_t> slot = findPrompt();
  if (!slot)
    return okStatus();
  Text &text = *slots[*slot];
  if (text.isGiven())
    return takeGiven(*slot, choices);
  const int64_t count = std::min(entries.chunk, text.numOfChunks());
  OPTRT_ASSIGN_OR_RETURN(const bool hasPages,
                         takePages(text, *slot, text.cached + count));
  if (!hasPages)
    return okStatus();
  const SlotTokens chunk = {.slot = *slot,
                            .position = text.cached,
                            .tokens =
                                std::span<const int32_t>(text.request.prompt)
                                    .subspan(text.cached, count),
                            .wantsLogits = count == text.numMissing(),
                            .pages = pagesOfSlots[*slot]};
  const Function &prefill = *entries.prefill;
  OPTRT_RETURN_IF_ERROR(session.fillSlots(prefill.name, {&chunk, 1}));
  OPTRT_RETURN_IF_ERROR(session.run(prefill.name).status());
  ++counts.prefills;
  counts.promptTokens += count;
  text.cached += count;
  publishPrefix(text, *slot);
  if (text.numMissing() > 0)
    return okStatus();
  choices.push_back({.slot = chunk.slot});
  return readLogits(prefill, kPromptLogits, std::span(choices).last(1));
}

Status Generator::takeGiven(int64_t slot, std::vector<Choice> &choices) {
  Text &text = *slots[slot];
  std::vector<int32_t> tokens = text.request.prompt;
  tokens.insert(tokens.end(), text.request.continuation.begin(),
                text.request.continuation.end());
  const std::span<const int32_t> all = tokens;
  const int64_t begin = text.cached;
  const int64_t count = std::min(entries.chunk, text.numOfChunks());
  OPTRT_ASSIGN_OR_RETURN(const bool hasPages,
                         takePages(text, slot, begin + count));
  if (!hasPages)
    return okStatus();
  const SlotTokens chunk = {.slot = slot,
                            .position = begin,
                            .tokens = all.subspan(begin, count),
                            .targets = all.subspan(begin + 1, count),
                            .pages = pagesOfSlots[slot]};
  const Function &score = *entries.score;
  OPTRT_RETURN_IF_ERROR(session.fillSlots(score.name, {&chunk, 1}));
  OPTRT_RETURN_IF_ERROR(session.run(score.name).status());
  ++counts.prefills;
  counts.promptTokens += count;
  text.cached += count;
  const std::size_t first = choices.size();
  for (int64_t row = std::max<int64_t>(text.promptSize() - 1 - begin, 0);
       row < count; ++row)
    choices.push_back(
        {.slot = slot, .rows = {row}, .given = chunk.targets[row]});
  const std::span<Choice> given = std::span(choices).subspan(first);
  const GenerationRequest &request = text.request;
  if (given.empty())
    return okStatus();
  if (request.wantsLogits)
    return readLogits(score, kScoredLogits, given);
  if (!request.wantsScores && request.numBest == 0)
    return okStatus();
  const int64_t row = given.front().rows.front();
  OPTRT_ASSIGN_OR_RETURN(std::vector<RowScore> scores,
                         scoreRows(session, control, kScoredLogits, row,
                                   chunk.targets.subspan(row),
                                   request.numBest));
  for (std::size_t i = 0; i != scores.size(); ++i) {
    given[i].score = scores[i].logProbability;
    given[i].best = std::move(scores[i].best);
  }
  return okStatus();
}

StatusOr<std::vector<int64_t>> Generator::findDecoded() {
  std::vector<int64_t> found;
  for (std::size_t slot = 0; slot != slots.size(); ++slot)
    if (const std::optional<Text> &text = slots[slot];
        text && !text->isGiven() && !text->isParked &&
        (!text->slotsOfBeams.empty() || text->numMissing() == 1))
      found.push_back(static_cast<int64_t>(slot));
  // Older texts take pages first, perhaps those of younger ones.
  std::vector<int64_t> order = found;
  std::ranges::sort(order, {}, [&](int64_t slot) {
    return std::pair(slots[slot]->canPark(), slots[slot]->number);
  });
  for (int64_t slot : order) {
    Text &text = *slots[slot];
    const std::vector<int64_t> own = {slot};
    for (int64_t each : text.slotsOfBeams.empty() ? own : text.slotsOfBeams)
      if (!text.isParked)
        OPTRT_RETURN_IF_ERROR(takePages(text, each, text.cached + 1).status());
  }
  std::erase_if(found, [&](int64_t slot) { return slots[slot]->isParked; });
  return found;
}

Status Generator::decode(std::vector<Choice> &choices) {
  std::vector<int32_t> last(slots.size());
  std::vector<SlotTokens> inputs;
  const std::size_t first = choices.size();
  OPTRT_ASSIGN_OR_RETURN(const std::vector<int64_t> decoded, findDecoded());
  for (int64_t slot : decoded) {
    Text &text = *slots[slot];
    auto put = [&](int64_t into, int32_t token) {
      last[into] = token;
      inputs.push_back({.slot = into,
                        .position = text.cached,
                        .tokens = std::span<const int32_t>(&last[into], 1),
                        .pages = pagesOfSlots[into]});
    };
    if (text.slotsOfBeams.empty()) {
      choices.push_back({.slot = slot, .rows = {slot}});
      put(slot, text.last());
    } else {
      choices.push_back({.slot = slot, .rows = text.slotsOfBeams});
      for (std::size_t i = 0; i != text.slotsOfBeams.size(); ++i)
        put(text.slotsOfBeams[i], text.search->beams()[i].tokens.back());
    }
    ++text.cached;
  }
  if (inputs.empty())
    return okStatus();
  const Function &decode = *entries.decode;
  OPTRT_RETURN_IF_ERROR(session.fillSlots(decode.name, inputs));
  OPTRT_RETURN_IF_ERROR(session.run(decode.name).status());
  ++counts.decodes;
  counts.decodedTokens += std::ssize(inputs);
  return readLogits(decode, kNextLogits, std::span(choices).subspan(first));
}

Status Generator::chooseOne(const Text &text, Choice &choice) {
  const GenerationRequest &request = text.request;
  if (text.search) {
    OPTRT_ASSIGN_OR_RETURN(choice.candidates, text.search->findCandidates(
                                                  choice.logits, request.prompt,
                                                  request.sampling));
    return okStatus();
  }
  if (choice.given) {
    choice.token = *choice.given;
    // Otherwise it has its scores.
    if (!request.wantsLogits)
      return okStatus();
  } else {
    OPTRT_ASSIGN_OR_RETURN(choice.token,
                           sampleToken(choice.logits, request.prompt,
                                       text.generated, request.sampling));
  }
  if (request.wantsScores)
    choice.score = logProbability(choice.logits, choice.token);
  if (request.numBest > 0)
    choice.best = mostProbable(choice.logits, request.numBest);
  if (!request.wantsLogits)
    choice.logits.clear();
  return okStatus();
}

Status Generator::choose(std::vector<Choice> &choices) {
  keepForTwins(choices);
  Status own;
  Message said;
  for (Choice &choice : choices) {
    if (!own.ok() || !control.isRoot())
      break;
    const Text &text = *slots[choice.slot];
    own = chooseOne(text, choice).withContext(concat("text ", text.number));
    if (text.search) {
      said.add(choice.candidates.size());
      for (const BeamCandidate &candidate : choice.candidates)
        said.add(candidate);
    } else {
      said.add(choice.token);
    }
  }
  OPTRT_RETURN_IF_ERROR(control.agree(own));
  Message heard(control.allGather(said.text()).front());
  bool isWhole = true;
  for (Choice &choice : choices) {
    if (!slots[choice.slot]->search) {
      isWhole = isWhole && heard.take(choice.token);
      continue;
    }
    std::size_t count = 0;
    isWhole = isWhole && heard.take(count);
    choice.candidates.clear();
    for (std::size_t i = 0; i != count && isWhole; ++i)
      isWhole = heard.take(choice.candidates.emplace_back());
  }
  if (!isWhole || !heard.isOver())
    return internal(concat("rank 0 has not chosen what follows ",
                           choices.size(), " texts"));
  return okStatus();
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

StatusOr<std::optional<GeneratedPart>>
Generator::extendBeams(Text &text, const Choice &choice) {
  std::vector<int64_t> from = text.slotsOfBeams;
  if (from.empty())
    from = text.kept;
  const std::vector<int64_t> parents = text.search->advance(choice.candidates);
  if (text.search->isDone()) {
    const EndedBeam &best = text.search->best();
    counts.generatedTokens += std::ssize(best.tokens);
    return std::optional(GeneratedPart{
        .text = text.number,
        .tokens = best.tokens,
        .finish = best.isStopped ? FinishReason::Stop : FinishReason::Length,
        .score = best.score});
  }
  // The first that goes on from a beam stays in its slot, others get copies.
  std::vector<int64_t> free = text.kept;
  std::vector<int64_t> sources, into(parents.size(), -1);
  for (std::size_t i = 0; i != parents.size(); ++i) {
    sources.push_back(from[parents[i]]);
    if (std::erase(free, sources[i]) != 0)
      into[i] = sources[i];
  }
  for (int64_t &slot : into)
    if (slot < 0) {
      slot = free.front();
      free.erase(free.begin());
    }
  OPTRT_RETURN_IF_ERROR(pool ? forkPages(text, sources, into)
                             : forkSlots(text, sources, into));
  text.slotsOfBeams = std::move(into);
  return std::optional<GeneratedPart>();
}

StatusOr<std::vector<GeneratedPart>> Generator::step() {
  std::vector<GeneratedPart> parts = std::move(ended);
  ended.clear();
  for (std::size_t slot = 0; slot != slots.size(); ++slot)
    if (slots[slot] && slots[slot]->isCancelled) {
      parts.push_back({slots[slot]->number, {}, FinishReason::Cancelled});
      leave(static_cast<int64_t>(slot));
    }
  OPTRT_RETURN_IF_ERROR(resumeParked());
  admit();
  // A prompt's last chunk has logits.
  std::vector<Choice> choices;
  OPTRT_RETURN_IF_ERROR(takePrompt(choices));
  OPTRT_RETURN_IF_ERROR(decode(choices));
  if (choices.empty())
    return parts;
  OPTRT_RETURN_IF_ERROR(choose(choices));
  std::ranges::stable_sort(choices, {}, &Choice::slot);
  for (Choice &choice : choices) {
    std::optional<Text> &text = slots[choice.slot];
    // A stop may have come within a chunk.
    if (!text)
      continue;
    if (text->search) {
      OPTRT_ASSIGN_OR_RETURN(std::optional<GeneratedPart> part,
                             extendBeams(*text, choice));
      if (!part)
        continue;
      parts.push_back(std::move(*part));
    } else {
      parts.push_back(extend(*text, choice));
    }
    if (parts.back().finish)
      leave(choice.slot);
  }
  return parts;
}
