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
#include "TextPages.h"
#include "optimus-support/Hash.h"

#include <algorithm>

using namespace optrt;

static constexpr const char *kScoredLogits = "scored_logits";

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

class Generator::Impl {
public:
  Impl(Session &session, ControlPlane &control, GenerationEntries entries,
       int64_t hostPages)
      : session(session), control(control), entries(std::move(entries)),
        slots(this->entries.cache.slots),
        pages(slots, session, control, this->entries, counts, hostPages) {}

  StatusOr<int64_t> add(GenerationRequest request);
  void cancel(int64_t number);
  bool hasWork() const { return !ended.empty() || slots.hasTexts(); }
  StatusOr<std::vector<GeneratedPart>> step();
  const GenerationEntries &functions() const { return entries; }
  const GenerationCounters &counters() const { return counts; }
  std::optional<PageCounts> pageCounts() const { return pages.counts(); }

private:
  /// Whether every process was asked for the same texts since the last step:
  /// with others it would run other calls.
  Status checkTogether();
  /// Lets waiting texts into free slots, the oldest first.
  void admit();
  /// Frees the slot of a text, and all others that it has.
  void leave(int64_t slot);

  /// The slot of a text with tokens for chunks: of the oldest one, and of that
  /// with the fewest, in turn. So a short prompt behind a long one waits for
  /// two chunks, and a long one has every other.
  std::optional<int64_t> findPrompt();
  /// Puts a chunk of a prompt into its slot. Behind its last token, there is
  /// one to choose.
  Status takePrompt(std::vector<Choice> &choices);
  /// Puts a chunk of a given text into its slot. Each token of its continuation
  /// in the chunk is a choice.
  Status takeGiven(int64_t slot, std::vector<Choice> &choices);
  /// The slots of texts that lack one token, and have the pages for it.
  StatusOr<std::vector<int64_t>> findDecoded();
  /// Puts these tokens into the cache; each text has one to choose.
  Status decode(std::vector<Choice> &choices);
  /// Gives choices their rows of a function's logits, in the root; of its best
  /// alone, where there are any and all are chosen by them. They keep them where
  /// another function may run before they are chosen.
  Status readLogits(const Function &function, const char *output,
                    const char *best, bool keep, std::span<Choice> choices);
  /// All rows of an output, in the root.
  StatusOr<std::span<const float>> wholeLogits(const Function &function,
                                               const char *output);
  /// Chooses the tokens of slots: the root does, for every process.
  Status choose(std::vector<Choice> &choices);
  /// Goes on with the best beams, each in a slot with its cache. The text's
  /// only part, once it has ended.
  StatusOr<std::optional<GeneratedPart>> extendBeams(Text &text,
                                                     const Choice &choice);

  Session &session;
  ControlPlane &control;
  const GenerationEntries entries;
  GenerationCounters counts;
  /// Logits of a function that no rank of this process has whole, or has where
  /// the host cannot read.
  HostTensor gathered;
  std::vector<uint8_t> copied;
  TextSlots slots;
  TextPages pages;
  Message asked; ///< texts added and cancelled since the last step
  std::vector<GeneratedPart> ended; ///< that never had a slot
  int64_t numTexts = 0;
  bool isTurnOfShort = false; ///< see findPrompt()
};

Generator::Generator(Session &session, ControlPlane &control,
                     GenerationEntries entries, int64_t hostPages)
    : impl(std::make_unique<Impl>(session, control, std::move(entries),
                                  hostPages)) {}

Generator::Generator(Generator &&) noexcept = default;
Generator::~Generator() = default;

StatusOr<int64_t> Generator::add(GenerationRequest request) {
  return impl->add(std::move(request));
}

void Generator::cancel(int64_t text) { impl->cancel(text); }

bool Generator::hasWork() const { return impl->hasWork(); }

StatusOr<std::vector<GeneratedPart>> Generator::step() { return impl->step(); }

const GenerationEntries &Generator::functions() const {
  return impl->functions();
}

const GenerationCounters &Generator::counters() const {
  return impl->counters();
}

std::optional<PageCounts> Generator::pages() const {
  return impl->pageCounts();
}

//===----------------------------------------------------------------------===//
// Who comes when
//===----------------------------------------------------------------------===//

/// What must be the same in every process, where functions say so many of the
/// best. How tokens are drawn is the root's.
static void describe(const GenerationRequest &request, int64_t best,
                     Message &message) {
  auto add = [&](const std::vector<int32_t> &tokens) {
    message.add(tokens.size());
    for (int32_t token : tokens)
      message.add(token);
  };
  add(request.prompt);
  add(request.continuation);
  message.add(request.stops.size());
  std::ranges::for_each(request.stops, add);
  for (int64_t number : {request.maxTokens, request.numBest, request.beams})
    message.add(number);
  message.add(request.lengthPenalty);
  for (bool isWanted :
       {request.wantsLogits, request.wantsScores, request.choosesAmong(best)})
    message.add(isWanted);
}

Status Generator::Impl::checkTogether() {
  const uint64_t own = optimus_support::hash64(asked.text());
  asked = {};
  const std::vector<std::string> all =
      control.allGather(optimus_support::hashToHex(own));
  for (std::size_t rank = 1; rank != all.size(); ++rank)
    if (all[rank] != all.front())
      return invalidArgument(
          concat("rank ", rank,
                 " and rank 0 disagree on texts: expected the "
                 "same ones, added and cancelled in the same order between two "
                 "steps; let every process make the same calls"));
  return okStatus();
}

StatusOr<int64_t> Generator::Impl::add(GenerationRequest request) {
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
  describe(request, entries.best, asked);
  Text text;
  text.number = numTexts;
  text.slides = entries.slides(request, request.maxTokens);
  if (request.beams > 1)
    text.beams = {BeamSearch({.beams = request.beams,
                              .lengthPenalty = request.lengthPenalty,
                              .maxTokens = request.maxTokens,
                              .stops = request.stops})};
  text.request = std::move(request);
  slots.queue(std::move(text));
  return numTexts++;
}

void Generator::Impl::cancel(int64_t number) {
  if (!slots.anyOf([&](const Text &text) {
        return text.number == number && !text.isCancelled;
      }))
    return;
  asked.add(number);
  if (slots.cancel(number))
    ended.push_back({number, {}, FinishReason::Cancelled});
}

void Generator::Impl::admit() {
  // Others do not overtake a text that needs more than there is.
  while (const Text *next = slots.next()) {
    std::vector<int64_t> chosen = pages.chooseSlots(*next, slots.findFree());
    if (chosen.empty())
      return;
    const int64_t slot = chosen.front();
    pages.promise(slots.enter(std::move(chosen)), slot);
  }
}

void Generator::Impl::leave(int64_t slot) {
  pages.leave(slots[slot], slot);
  slots.leave(slot);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

StatusOr<std::span<const float>>
Generator::Impl::wholeLogits(const Function &function, const char *output) {
  std::span<const std::byte> bytes;
  const Manifest &manifest = session.manifest();
  const std::optional<int64_t> index = manifest.findBuffer(output);
  const Buffer *buffer = index ? &manifest.buffers[*index] : nullptr;
  if (buffer && buffer->layout.localShape == buffer->layout.shape &&
      buffer->unreduced.empty()) {
    // Rank 0 has them all, and a copy would take as long as choosing a token.
    if (control.isRoot()) {
      OPTRT_ASSIGN_OR_RETURN(bytes, session.shardOf(output, 0, copied));
    }
  } else {
    OPTRT_ASSIGN_OR_RETURN(gathered, session.output(function.name, output));
    bytes = gathered.bytes;
  }
  return std::span(reinterpret_cast<const float *>(bytes.data()),
                   bytes.size() / sizeof(float));
}

Status Generator::Impl::readLogits(const Function &function, const char *output,
                                   const char *best, bool keep,
                                   std::span<Choice> choices) {
  // Another text may go on from the same logits, and choose by all of them.
  const bool isByBest =
      best && std::ranges::all_of(choices, [&](const Choice &choice) {
        const Text &text = slots[choice.slot];
        return text.request.choosesAmong(entries.best) && !pages.hasTwin(text);
      });
  const StatusOr<std::span<const float>> all =
      wholeLogits(function, isByBest ? best : output);
  OPTRT_RETURN_IF_ERROR(control.agree(all.status()));
  if (!control.isRoot())
    return okStatus();
  const int64_t width = isByBest ? 2 * entries.best : entries.vocabulary;
  auto rowOf = [&](int64_t row) { return all->subspan(row * width, width); };
  for (Choice &choice : choices) {
    choice.hasBestAlone = isByBest;
    if (choice.rows.size() == 1 && !keep) {
      choice.logits = rowOf(choice.rows.front());
      continue;
    }
    choice.kept.clear();
    for (int64_t row : choice.rows)
      choice.kept.insert(choice.kept.end(), rowOf(row).begin(),
                         rowOf(row).end());
    choice.logits = choice.kept;
  }
  return okStatus();
}

std::optional<int64_t> Generator::Impl::findPrompt() {
  isTurnOfShort = !isTurnOfShort;
  auto rank = [&](int64_t slot) {
    const Text &text = slots[slot];
    return std::pair(isTurnOfShort ? text.numOfChunks() : 0, text.number);
  };
  while (true) {
    std::optional<int64_t> first;
    for (int64_t slot : slots.findTaken())
      if (!slots[slot].isParked && slots[slot].numOfChunks() > 0 &&
          (!first || rank(slot) < rank(*first)))
        first = slot;
    if (!first)
      return std::nullopt;
    // Perhaps another text has what is left for chunks.
    pages.adoptPrefix(slots[*first], *first);
    if (slots[*first].numOfChunks() > 0)
      return first;
  }
}

Status Generator::Impl::takePrompt(std::vector<Choice> &choices) {
  OPTRT_RETURN_IF_ERROR(pages.forkPrompts(choices));
  const std::optional<int64_t> slot = findPrompt();
  if (!slot)
    return okStatus();
  Text &text = slots[*slot];
  if (text.isGiven())
    return takeGiven(*slot, choices);
  const int64_t count = std::min(entries.chunk, text.numOfChunks());
  OPTRT_ASSIGN_OR_RETURN(const bool hasPages,
                         pages.take(text, *slot, text.cached + count));
  if (!hasPages)
    return okStatus();
  const SlotTokens chunk = {.slot = *slot,
                            .position = text.cached,
                            .tokens =
                                std::span<const int32_t>(text.request.prompt)
                                    .subspan(text.cached, count),
                            .wantsLogits = count == text.numMissing(),
                            .pages = pages.of(*slot)};
  const Function &prefill = *entries.prefill;
  OPTRT_RETURN_IF_ERROR(session.fillSlots(prefill.name, {&chunk, 1}));
  OPTRT_RETURN_IF_ERROR(session.run(prefill.name).status());
  ++counts.prefills;
  counts.promptTokens += count;
  text.cached += count;
  pages.publishPrefix(text, *slot);
  if (text.numMissing() > 0)
    return okStatus();
  choices.push_back({.slot = chunk.slot});
  return readLogits(prefill, kPromptLogits, kPromptBest, /*keep=*/true,
                    std::span(choices).last(1));
}

Status Generator::Impl::takeGiven(int64_t slot, std::vector<Choice> &choices) {
  Text &text = slots[slot];
  std::vector<int32_t> tokens = text.request.prompt;
  tokens.insert(tokens.end(), text.request.continuation.begin(),
                text.request.continuation.end());
  const std::span<const int32_t> all = tokens;
  const int64_t begin = text.cached;
  const int64_t count = std::min(entries.chunk, text.numOfChunks());
  OPTRT_ASSIGN_OR_RETURN(const bool hasPages,
                         pages.take(text, slot, begin + count));
  if (!hasPages)
    return okStatus();
  const SlotTokens chunk = {.slot = slot,
                            .position = begin,
                            .tokens = all.subspan(begin, count),
                            .targets = all.subspan(begin + 1, count),
                            .pages = pages.of(slot)};
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
    return readLogits(score, kScoredLogits, /*keep=*/true, given);
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

StatusOr<std::vector<int64_t>> Generator::Impl::findDecoded() {
  std::vector<int64_t> found;
  for (int64_t slot : slots.findTaken())
    if (const Text &text = slots[slot];
        !text.isGiven() && !text.isParked &&
        (text.isInBeams() || text.numMissing() == 1))
      found.push_back(slot);
  // Older texts take pages first, perhaps those of younger ones.
  std::vector<int64_t> order = found;
  std::ranges::sort(order, {}, [&](int64_t slot) {
    return std::pair(slots[slot].canPark(), slots[slot].number);
  });
  for (int64_t slot : order) {
    Text &text = slots[slot];
    const std::vector<int64_t> own = {slot};
    for (int64_t each : text.isInBeams() ? text.beams->slots : own)
      if (!text.isParked)
        OPTRT_RETURN_IF_ERROR(pages.take(text, each, text.cached + 1).status());
  }
  std::erase_if(found, [&](int64_t slot) { return slots[slot].isParked; });
  return found;
}

Status Generator::Impl::decode(std::vector<Choice> &choices) {
  std::vector<int32_t> last(slots.size());
  std::vector<SlotTokens> inputs;
  const std::size_t first = choices.size();
  OPTRT_ASSIGN_OR_RETURN(const std::vector<int64_t> decoded, findDecoded());
  for (int64_t slot : decoded) {
    Text &text = slots[slot];
    auto put = [&](int64_t into, int32_t token) {
      last[into] = token;
      inputs.push_back({.slot = into,
                        .position = text.cached,
                        .tokens = std::span<const int32_t>(&last[into], 1),
                        .pages = pages.of(into)});
    };
    if (text.isInBeams()) {
      const auto &[search, kept, used] = *text.beams;
      choices.push_back({.slot = slot, .rows = used});
      for (std::size_t i = 0; i != used.size(); ++i)
        put(used[i], search.beams()[i].tokens.back());
    } else {
      choices.push_back({.slot = slot, .rows = {slot}});
      put(slot, text.last());
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
  return readLogits(decode, kNextLogits, kNextBest, /*keep=*/false,
                    std::span(choices).subspan(first));
}

Status Generator::Impl::choose(std::vector<Choice> &choices) {
  pages.keepForTwins(choices);
  Status own;
  Message said;
  for (Choice &choice : choices) {
    if (!own.ok() || !control.isRoot())
      break;
    const Text &text = slots[choice.slot];
    own = chooseNext(text, choice, entries.vocabulary)
              .withContext(concat("text ", text.number));
    if (text.beams) {
      said.add(choice.candidates.size());
      for (const BeamCandidate &candidate : choice.candidates)
        said.add(candidate);
    } else {
      said.add(choice.token);
    }
  }
  // What it has chosen, or why it has not.
  constexpr std::string_view kChosen = "+";
  std::string told = control
                         .allGather(own.ok() ? concat(kChosen, said.text())
                                             : ControlPlane::encode(own))
                         .front();
  if (!told.starts_with(kChosen))
    return ControlPlane::decode(told);
  Message heard(told.substr(kChosen.size()));
  bool isWhole = true;
  for (Choice &choice : choices) {
    if (!slots[choice.slot].beams) {
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

StatusOr<std::optional<GeneratedPart>>
Generator::Impl::extendBeams(Text &text, const Choice &choice) {
  BeamSearch &search = text.beams->search;
  const std::vector<int64_t> parents = search.advance(choice.candidates);
  if (search.isDone()) {
    const EndedBeam &best = search.best();
    counts.generatedTokens += std::ssize(best.tokens);
    return std::optional(GeneratedPart{
        .text = text.number,
        .tokens = best.tokens,
        .finish = best.isStopped ? FinishReason::Stop : FinishReason::Length,
        .score = best.score});
  }
  TextBeams::Moves moves = text.beams->place(parents);
  OPTRT_RETURN_IF_ERROR(pages.forkBeams(text, moves));
  text.beams->slots = std::move(moves.into);
  return std::optional<GeneratedPart>();
}

StatusOr<std::vector<GeneratedPart>> Generator::Impl::step() {
  OPTRT_RETURN_IF_ERROR(checkTogether());
  std::vector<GeneratedPart> parts = std::move(ended);
  ended.clear();
  for (int64_t slot : slots.findTaken())
    if (slots[slot].isCancelled) {
      parts.push_back({slots[slot].number, {}, FinishReason::Cancelled});
      leave(slot);
    }
  OPTRT_RETURN_IF_ERROR(pages.resumeParked());
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
    // A stop may have come within a chunk.
    if (!slots.has(choice.slot))
      continue;
    Text &text = slots[choice.slot];
    if (text.beams) {
      OPTRT_ASSIGN_OR_RETURN(std::optional<GeneratedPart> part,
                             extendBeams(text, choice));
      if (!part)
        continue;
      parts.push_back(std::move(*part));
    } else {
      parts.push_back(text.extend(choice));
      ++counts.generatedTokens;
    }
    if (parts.back().finish)
      leave(choice.slot);
  }
  return parts;
}
