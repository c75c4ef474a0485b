//===- GeneratorTest.cpp - Texts side by side -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Generator.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>

using namespace optrt;
using testing::HasSubstr;

namespace {

/// What became of a text.
struct Outcome {
  std::vector<int32_t> tokens;
  std::vector<float> logits; ///< by which they were chosen
  std::optional<FinishReason> finish;
  double score = 0; ///< of beams
};

/// A session of a model with random parameters: three slots of 16 tokens, chunks
/// of three, a vocabulary of 11.
class GeneratorTest : public testing::Test {
protected:
  void open(int threads = 1) {
    session.reset();
    auto opened = ModelLibrary::open(OPTIMUS_TINY);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    library = std::move(opened).value();
    auto found = GenerationEntries::find("tiny.so", library->manifest());
    ASSERT_TRUE(found.ok()) << found.status().message();
    entries = *found;
    world = createLocalWorld();
    SessionOptions options;
    options.functions = entries.functions();
    options.threadsPerRank = threads;
    auto made = Session::create(*library, world, options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    session = std::move(made).value();
    ASSERT_TRUE(session->initialize(/*seed=*/3).ok());
    const Status prepared = entries.prepare(*session);
    ASSERT_TRUE(prepared.ok()) << prepared.message();
  }
  void SetUp() override { open(); }

  Generator generator() { return {*session, *world.control, entries}; }

  static int64_t add(Generator &generator, const GenerationRequest &request) {
    StatusOr<int64_t> number = generator.add(request);
    EXPECT_TRUE(number.ok()) << number.status().message();
    return number.ok() ? *number : -1;
  }

  static void step(Generator &generator, std::map<int64_t, Outcome> &texts) {
    auto parts = generator.step();
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    for (const GeneratedPart &part : *parts) {
      Outcome &text = texts[part.text];
      EXPECT_FALSE(text.finish) << "text " << part.text << " goes on";
      text.tokens.insert(text.tokens.end(), part.tokens.begin(),
                         part.tokens.end());
      text.logits.insert(text.logits.end(), part.logits.begin(),
                         part.logits.end());
      text.finish = part.finish;
      text.score = part.score;
    }
  }

  /// One text, with nobody beside it.
  Outcome alone(const GenerationRequest &request) {
    Generator own = generator();
    std::map<int64_t, Outcome> texts;
    add(own, request);
    while (own.hasWork() && !HasFatalFailure())
      step(own, texts);
    return texts[0];
  }

  static std::vector<GenerationRequest> drawRequests(std::size_t count) {
    std::minstd_rand random(7);
    auto draw = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    std::vector<GenerationRequest> requests(count);
    for (GenerationRequest &request : requests) {
      request.prompt.resize(draw(1, 12));
      for (int32_t &token : request.prompt)
        token = static_cast<int32_t>(draw(0, 10));
      request.maxTokens = draw(1, 5);
      request.wantsLogits = true;
      request.sampling.temperature = draw(0, 1) ? 1.5 : 0;
      request.sampling.seed = draw(0, 1000);
    }
    return requests;
  }

  std::unique_ptr<ModelLibrary> library;
  GenerationEntries entries;
  World world;
  std::unique_ptr<Session> session;
};

/// The control plane of two processes that say the same, until one is told to
/// say something else.
class Twins final : public ControlPlane {
public:
  Status layOut(const optimus_support::Mesh &) override { return okStatus(); }
  int size() const override { return 1; }
  int firstRank() const override { return 0; }
  int numLocalRanks() const override { return 1; }
  std::vector<std::string> allGather(const std::string &own) override {
    heard.push_back(own);
    return {own, other.value_or(own)};
  }
  Status exchange(int, std::span<const float>, int, std::span<float>) override {
    return okStatus();
  }
  RankActivity &activity(int) override { return idle; }
  Status watch(WatchOptions) override { return okStatus(); }
  [[noreturn]] void exitJob(int code) override { std::exit(code); }

  std::optional<std::string> other;
  std::vector<std::string> heard;

private:
  RankActivity idle;
};

/// Both are asked for the same texts between two steps.
TEST_F(GeneratorTest, ProcessesThatDisagreeAreNamed) {
  // The words of a step behind these requests and a cancellation.
  auto wordsOf = [&](std::vector<GenerationRequest> requests,
                     std::optional<int64_t> cancelled, auto check) {
    Twins control;
    Generator own(*session, control, entries);
    for (const GenerationRequest &request : requests)
      add(own, request);
    if (cancelled)
      own.cancel(*cancelled);
    check(control, own);
    return control.heard.empty() ? std::string() : control.heard.front();
  };
  auto goesOn = [](Twins &, Generator &own) {
    const auto parts = own.step();
    EXPECT_TRUE(parts.ok()) << parts.status().message();
  };
  const GenerationRequest usual = {.prompt = {1, 2}, .maxTokens = 3};
  GenerationRequest drawn = usual, longer = usual, stopped = usual;
  drawn.sampling = {.temperature = 1, .seed = 7};
  longer.maxTokens = 4;
  stopped.stops = {{5}};
  const std::string same = wordsOf({usual}, std::nullopt, goesOn);
  EXPECT_EQ(wordsOf({drawn}, std::nullopt, goesOn), same);
  // A text that is not there is not cancelled.
  EXPECT_EQ(wordsOf({usual}, 5, goesOn), same);
  std::vector<std::string> others = {
      wordsOf({usual}, 0, goesOn),
      wordsOf({usual, usual}, std::nullopt, goesOn),
      wordsOf({{.prompt = {2, 1}, .maxTokens = 3}}, std::nullopt, goesOn),
      wordsOf({longer}, std::nullopt, goesOn),
      wordsOf({stopped}, std::nullopt, goesOn)};
  for (const std::string &other : others) {
    EXPECT_NE(other, same);
    wordsOf({usual}, std::nullopt, [&](Twins &control, Generator &own) {
      control.other = other;
      const Status status = own.step().status();
      EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("rank 1 and rank 0 disagree on texts: expected "));
      EXPECT_EQ(own.counters().decodes + own.counters().prefills, 0);
    });
  }
  // Of two steps without a request between them.
  wordsOf({usual}, std::nullopt, [&](Twins &control, Generator &own) {
    ASSERT_TRUE(own.step().ok());
    control.heard.clear();
    ASSERT_TRUE(own.step().ok());
    EXPECT_NE(control.heard.front(), same);
  });
}

/// Whoever has slots before or beside them, and in whatever slots they are.
TEST_F(GeneratorTest, BeamsDependOnTheirPromptAlone) {
  std::vector<GenerationRequest> requests = drawRequests(24);
  for (std::size_t i = 0; i != requests.size(); ++i) {
    requests[i].maxTokens = 4;
    if (i % 3 == 0)
      continue;
    requests[i].beams = i % 3 + 1;
    requests[i].lengthPenalty = 0.5;
    requests[i].stops = {{3}, {7, 1}};
    requests[i].wantsLogits = false;
    requests[i].sampling.temperature = 0;
  }
  std::map<int64_t, Outcome> texts;
  Generator together = generator();
  for (const GenerationRequest &request : requests)
    add(together, request);
  // Its slots are free for others.
  step(together, texts);
  together.cancel(1);
  while (together.hasWork() && !HasFatalFailure())
    step(together, texts);
  EXPECT_EQ(texts[1].finish, FinishReason::Cancelled);
  for (std::size_t i = 2; i != requests.size(); ++i) {
    const Outcome own = alone(requests[i]);
    EXPECT_EQ(texts[i].tokens, own.tokens) << i;
    EXPECT_EQ(texts[i].logits, own.logits) << i;
    EXPECT_EQ(texts[i].score, own.score) << i;
    EXPECT_EQ(texts[i].finish, own.finish) << i;
  }
}

/// One beam is the most probable token each time; more find no worse text.
TEST_F(GeneratorTest, MoreBeamsFindBetterTexts) {
  int better = 0;
  for (GenerationRequest request : drawRequests(20)) {
    request.maxTokens = 4;
    request.lengthPenalty = 0;
    request.sampling.temperature = 0;
    const Outcome greedy = alone(request);
    double sum = 0;
    for (std::size_t i = 0; i != greedy.tokens.size(); ++i)
      sum += logProbability(
          std::span(greedy.logits)
              .subspan(i * entries.vocabulary, entries.vocabulary),
          greedy.tokens[i]);
    request.wantsLogits = false;
    request.beams = 3;
    const Outcome found = alone(request);
    better += found.score > sum + 1e-6;
    EXPECT_EQ(found.tokens.size(), 4);
  }
  EXPECT_GT(better, 0);
}

TEST_F(GeneratorTest, CopiesASlotWithinTheCache) {
  const std::string &decode = entries.decode->name;
  EXPECT_TRUE(session->copySlot(decode, 0, 2, 16).ok());
  for (auto [from, to, tokens] :
       {std::tuple(0, 3, 1), {-1, 0, 1}, {0, 1, 17}, {0, 1, -1}})
    EXPECT_THAT(session->copySlot(decode, from, to, tokens).message(),
                HasSubstr("expected slots and tokens of a cache"));
}

TEST_F(GeneratorTest, KnowsItsLibrary) {
  EXPECT_EQ(entries.cache, (CacheExtents{3, 16, 32}));
  EXPECT_EQ(entries.chunk, 3);
  EXPECT_EQ(entries.vocabulary, 11);
}

/// Where the processor multiplies from packed weights, these alone are held.
TEST_F(GeneratorTest, WhatWasPreparedIsHeldInThatFormAlone) {
  const Manifest &manifest = session->manifest();
  int64_t alone = 0, most = 0;
  for (int64_t buffer : session->preparedParameters()) {
    const int64_t bytes = manifest.buffers[buffer].numBytes();
    alone += bytes;
    most = std::max(most, bytes);
    EXPECT_THAT(session->heldBuffers(),
                testing::Not(testing::Contains(buffer)));
  }
  const RankMemory memory = session->largestRankMemory();
  EXPECT_GE(memory.staging, most);
  EXPECT_LE(memory.staging, alone);
  EXPECT_EQ(session->preparedParameters().empty(), entries.preparers.empty());
  if (entries.preparers.empty())
    return;
  const Status again = session->run(entries.preparers.front()->name).status();
  EXPECT_THAT(again.message(), HasSubstr("has memory only while it is set"));
}

/// A parameter of which weights are prepared alone is prepared when it is set.
TEST_F(GeneratorTest, AssignedParametersArePreparedAtOnce) {
  const Outcome before = alone({.prompt = {1, 2, 3}, .wantsLogits = true});
  for (int64_t index : session->preparedParameters()) {
    const Buffer &buffer = session->manifest().buffers[index];
    const std::vector<float> zeros(buffer.layout.numElements());
    ASSERT_TRUE(session->assign(buffer.name, zeros).ok());
    EXPECT_THAT(std::string(session->gather(buffer.name).status().message()),
                HasSubstr("the prepared form is held alone"));
  }
  EXPECT_EQ(alone({.prompt = {1, 2, 3}, .wantsLogits = true}).logits ==
                before.logits,
            session->preparedParameters().empty());
  ASSERT_TRUE(session->initialize(/*seed=*/3).ok());
  EXPECT_EQ(alone({.prompt = {1, 2, 3}, .wantsLogits = true}).logits,
            before.logits);
}

TEST_F(GeneratorTest, SlotsRefuseWhatHasNoPlace) {
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 11};
  auto message = [&](const char *function, std::vector<SlotTokens> slots) {
    return std::string(session->fillSlots(function, slots).message());
  };
  const std::span<const int32_t> all = tokens;
  EXPECT_EQ(message("prefill", {{0, 13, all.first(3)}}), "");
  EXPECT_EQ(message("decode", {{0, 13, all.first(1)}, {2, 0, all.first(1)}}),
            "");
  EXPECT_THAT(message("prefill", {{0, 0, all.first(3)}, {2, 0, all.first(1)}}),
              HasSubstr("expected the tokens of one slot, found those of 2"));
  EXPECT_THAT(message("prefill", {{0, 0, all.first(2), all.first(2)}}),
              HasSubstr("slot 0: expected 0 targets, found 2"));
  EXPECT_THAT(message("prefill", {{0, 14, all.first(3)}}),
              HasSubstr("slot 0: expected positions within the context of 16 "
                        "tokens that the library was compiled for, found 3 "
                        "from 14 on"));
  EXPECT_THAT(message("decode", {{0, 16, all.first(1)}}),
              HasSubstr("found 1 from 16 on"));
  EXPECT_THAT(message("decode", {{0, -1, all.first(1)}}),
              HasSubstr("found 1 from -1 on"));
  EXPECT_THAT(message("prefill", {{3, 0, all.first(1)}}),
              HasSubstr("slot 3: expected one of the 3 slots"));
  EXPECT_THAT(message("prefill", {{1, 0, all.first(4)}}),
              HasSubstr("expected from 1 to 3 tokens, found 4"));
  EXPECT_THAT(message("decode", {{1, 0, {}}}),
              HasSubstr("expected from 1 to 1 tokens, found 0"));
  EXPECT_THAT(message("decode", {{1, 0, all.last(1)}}),
              HasSubstr("expected tokens of the vocabulary of 11, from 0 on, "
                        "found 11"));
  EXPECT_THAT(message("decode", {{1, 0, all.first(1)}, {1, 1, all.first(1)}}),
              HasSubstr("slot 1: expected the tokens of one text, found two"));
  EXPECT_THAT(message("forward", {}), HasSubstr("has no slots"));
}

TEST_F(GeneratorTest, RefusesRequestsThatCannotBeMet) {
  Generator own = generator();
  auto message = [&](const GenerationRequest &request) {
    return std::string(own.add(request).status().message());
  };
  EXPECT_THAT(message({}), HasSubstr("the prompt has no token"));
  EXPECT_THAT(message({.prompt = std::vector<int32_t>(17)}),
              HasSubstr("the prompt has 17 tokens; expected at most the 16"));
  EXPECT_THAT(message({.prompt = {1, 11}}),
              HasSubstr("token 1 of the prompt is 11"));
  EXPECT_THAT(message({.prompt = {1}, .maxTokens = 17}),
              HasSubstr("expected at most 16 new tokens"));
  EXPECT_THAT(message({.prompt = {1}, .stops = {{}}}),
              HasSubstr("expected a stop of at least one token"));
  EXPECT_THAT(message({.prompt = {1}, .stops = {{3}, {1, 11}}}),
              HasSubstr("a stop has the token 11"));
  EXPECT_THAT(message({.prompt = {1}, .sampling = {.copyingExceptions = {-1}}}),
              HasSubstr("the list of exceptions of copies has the token -1"));
  EXPECT_THAT(message({.prompt = {1}, .sampling = {.topP = 2}}),
              HasSubstr("the top-p is 2"));
  EXPECT_FALSE(own.hasWork());
  EXPECT_EQ(add(own, {.prompt = {1}}), 0);
}

TEST_F(GeneratorTest, FillsTheContext) {
  Outcome text = alone({.prompt = {1, 2, 3}});
  EXPECT_EQ(text.tokens.size(), 14u);
  EXPECT_EQ(text.finish, FinishReason::Length);
}

TEST_F(GeneratorTest, CancelsInEveryState) {
  const std::vector<GenerationRequest> requests = {
      {.prompt = {1, 2}, .maxTokens = 8},
      {.prompt = {3}, .maxTokens = 8},
      {.prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9}, .maxTokens = 8},
      {.prompt = {4, 5}, .maxTokens = 3},
      {.prompt = {6}, .maxTokens = 3}};
  Generator own = generator();
  std::map<int64_t, Outcome> texts;
  for (const GenerationRequest &request : requests)
    add(own, request);
  step(own, texts);
  step(own, texts);
  // The first decodes, the third is in its prompt, the fifth waits.
  for (int64_t number : {0, 2, 4})
    own.cancel(number);
  own.cancel(99);
  while (own.hasWork() && !HasFatalFailure())
    step(own, texts);
  EXPECT_EQ(texts[0].tokens.size(), 2u);
  for (int64_t number : {2, 4})
    EXPECT_TRUE(texts[number].tokens.empty());
  EXPECT_EQ(own.counters().promptTokens, 2 + 3 + 2);
  for (int64_t number : {0, 2, 4})
    EXPECT_EQ(texts[number].finish, FinishReason::Cancelled);
  for (int64_t number : {1, 3}) {
    EXPECT_EQ(texts[number].tokens, alone(requests[number]).tokens);
    EXPECT_EQ(texts[number].finish, FinishReason::Length);
  }
  own.cancel(1);
  EXPECT_FALSE(own.hasWork());
}

/// Behind a long prompt, of four chunks, whose tokens stay as they are.
TEST_F(GeneratorTest, AShortPromptWaitsForTwoChunks) {
  GenerationRequest longer = {.maxTokens = 2, .wantsLogits = true};
  longer.prompt.resize(12, 4);
  const GenerationRequest shorter = {.prompt = {5, 6}, .maxTokens = 1};
  for (int before : {0, 1}) {
    Generator own = generator();
    std::map<int64_t, Outcome> texts;
    add(own, longer);
    for (int i = 0; i != before; ++i)
      step(own, texts);
    add(own, shorter);
    const int64_t began = own.counters().prefills;
    while (!texts[1].finish && !HasFatalFailure())
      step(own, texts);
    EXPECT_LE(own.counters().prefills - began, 2) << before;
    EXPECT_FALSE(texts[0].finish);
    // Others that are as short do not keep it from going on.
    int steps = 0;
    for (; !texts[0].finish && !HasFatalFailure(); ++steps) {
      add(own, shorter);
      step(own, texts);
    }
    EXPECT_LE(steps, 8);
    EXPECT_EQ(texts[0].logits, alone(longer).logits);
  }
}

TEST_F(GeneratorTest, StopsAreHeldBackUntilTheyAreKnown) {
  const GenerationRequest request = {.prompt = {1, 2},
                                     .maxTokens = 10,
                                     .sampling = {.temperature = 3, .seed = 5}};
  const std::vector<int32_t> whole = alone(request).tokens;
  ASSERT_EQ(whole.size(), 10u);
  GenerationRequest stopped = request;
  stopped.stops = {{whole[4], whole[5], whole[6]}};
  Outcome text = alone(stopped);
  EXPECT_EQ(text.finish, FinishReason::Stop);
  const auto at = std::search(whole.begin(), whole.end(),
                              stopped.stops[0].begin(), stopped.stops[0].end());
  EXPECT_EQ(text.tokens, std::vector<int32_t>(whole.begin(), at));
  // One that only begins comes out whole.
  const int32_t other = whole[6] == 0 ? 1 : 0;
  stopped.stops = {{whole[4], whole[5], other, other, other, other}};
  EXPECT_EQ(alone(stopped).tokens, whole);
}

/// What is chosen greedily is the most probable token.
TEST_F(GeneratorTest, ScoresEachChoice) {
  Generator own = generator();
  add(own,
      {.prompt = {1, 2}, .maxTokens = 4, .wantsScores = true, .numBest = 2});
  add(own, {.prompt = {1, 2}, .maxTokens = 4});
  int scored = 0, others = 0;
  while (own.hasWork()) {
    auto parts = own.step();
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    for (const GeneratedPart &part : *parts) {
      if (part.text != 0) {
        EXPECT_TRUE(part.best.empty());
        ++others;
        continue;
      }
      ++scored;
      ASSERT_EQ(part.best.size(), 2u);
      ASSERT_EQ(part.tokens.size(), 1u);
      EXPECT_EQ(part.best[0].token, part.tokens[0]);
      EXPECT_EQ(part.best[0].logProbability, part.score);
      EXPECT_GE(part.score, part.best[1].logProbability);
    }
  }
  EXPECT_EQ(scored, 4);
  EXPECT_EQ(others, 4);
}

/// Nobody waits for more than a chunk of one prompt.
TEST_F(GeneratorTest, AStepTakesOneChunkIn) {
  Generator own = generator();
  std::map<int64_t, Outcome> texts;
  add(own, {.prompt = {5}, .maxTokens = 9});
  add(own, {.prompt = {1, 2, 3, 4, 5, 6, 7, 8}, .maxTokens = 2});
  add(own, {.prompt = {1, 2}, .maxTokens = 2});
  // Tokens of each after each step: the last of a prompt has logits. The
  // shortest prompt comes first.
  const std::vector<std::vector<std::size_t>> expected = {
      {1, 0, 1}, {2, 0, 2}, {3, 0, 2}, {4, 1, 2}, {5, 2, 2}};
  for (const std::vector<std::size_t> &sizes : expected) {
    step(own, texts);
    for (std::size_t i = 0; i != sizes.size(); ++i)
      EXPECT_EQ(texts[static_cast<int64_t>(i)].tokens.size(), sizes[i]) << i;
  }
  EXPECT_EQ(own.counters().prefills, 4);
  EXPECT_EQ(own.counters().promptTokens, 8 + 2);
}

/// A product without a row that is read leaves its result as it is.
TEST_F(GeneratorTest, ChunksBeforeTheLastHaveNoLogits) {
  const std::vector<int32_t> one = {1, 2, 3}, other = {4, 5, 6};
  auto logits = [&](const std::vector<int32_t> &tokens, bool wantsLogits) {
    const SlotTokens chunk = {.tokens = tokens, .wantsLogits = wantsLogits};
    EXPECT_TRUE(session->fillSlots("prefill", {&chunk, 1}).ok());
    EXPECT_TRUE(session->run("prefill").ok());
    auto found = session->output("prefill", "prompt_logits");
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? found->bytes : decltype(found->bytes)();
  };
  const auto first = logits(one, true);
  EXPECT_EQ(logits(other, false), first);
  EXPECT_NE(logits(other, true), first);
}

/// A text that is given takes chunks, and nothing of it depends on others.
TEST_F(GeneratorTest, ScoresAreThoseOfTheLogits) {
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
  auto given = [&](int64_t first) {
    GenerationRequest request = {.wantsScores = true, .numBest = 11};
    request.prompt = {tokens.begin(), tokens.begin() + first};
    request.continuation = {tokens.begin() + first, tokens.end()};
    return request;
  };
  EXPECT_THAT(std::string(generator().add(given(1)).status().message()),
              HasSubstr("function of the kind score"));
  SessionOptions options;
  auto functions = entries.scoringFunctions("tiny.so");
  ASSERT_TRUE(functions.ok());
  options.functions = entries.functions();
  options.functions.insert(options.functions.end(), functions->begin(),
                           functions->end());
  auto scoring = Session::create(*library, world, options);
  ASSERT_TRUE(scoring.ok()) << scoring.status().message();
  ASSERT_TRUE((*scoring)->initialize(/*seed=*/3).ok());
  ASSERT_TRUE(entries.prepare(**scoring).ok());
  Generator own(**scoring, *world.control, entries);
  // The second is beside the third, and a text that is generated.
  std::map<int64_t, std::vector<GeneratedPart>> parts;
  auto run = [&] {
    while (own.hasWork()) {
      auto made = own.step();
      ASSERT_TRUE(made.ok()) << made.status().message();
      for (GeneratedPart &part : *made)
        parts[part.text].push_back(std::move(part));
    }
  };
  add(own, given(1));
  run();
  EXPECT_EQ(own.counters().prefills, 3);
  EXPECT_EQ(own.counters().decodes, 0);
  add(own, given(1));
  add(own, given(4));
  add(own, {.prompt = {7}, .maxTokens = 5});
  run();
  std::vector<double> expected;
  for (std::size_t i = 0; i != 9; ++i) {
    const GeneratedPart &part = parts[0][i];
    EXPECT_EQ(part.tokens, std::vector<int32_t>{tokens[i + 1]});
    EXPECT_EQ(part.finish.has_value(), i == 8);
    double sum = 0;
    for (const ScoredToken &each : part.best) {
      sum += std::exp(each.logProbability);
      if (each.token == tokens[i + 1])
        EXPECT_EQ(each.logProbability, part.score);
    }
    EXPECT_NEAR(sum, 1, 1e-12);
    EXPECT_EQ(parts[1][i].score, part.score);
    if (i >= 3)
      EXPECT_EQ(parts[2][i - 3].score, part.score);
    expected.push_back(part.score);
  }
  EXPECT_EQ(parts[1].size(), 9u);
  EXPECT_EQ(parts[2].size(), 6u);
  EXPECT_EQ(parts[3].size(), 5u);
  Scorer scorer(**scoring, *world.control, entries);
  for (std::size_t first : {1, 2, 4, 9}) {
    auto scores = scorer.score(tokens, static_cast<int64_t>(first));
    ASSERT_TRUE(scores.ok()) << scores.status().message();
    ASSERT_EQ(scores->size(), tokens.size() - first);
    for (std::size_t i = 0; i != scores->size(); ++i)
      EXPECT_NEAR((*scores)[i], expected[first - 1 + i], 1e-4);
  }
  auto message = [&](std::span<const int32_t> given, int64_t first) {
    return std::string(scorer.score(given, first).status().message());
  };
  EXPECT_THAT(message(tokens, 0), HasSubstr("at least one token behind"));
  EXPECT_THAT(message(tokens, 10), HasSubstr("at least one token behind"));
  EXPECT_THAT(message(std::vector<int32_t>(18), 1),
              HasSubstr("the text has 18 tokens; expected at most the 16"));
  EXPECT_THAT(message(std::vector<int32_t>{1, 11}, 1),
              HasSubstr("token 1 of the text is 11"));
  const std::vector<float> numbers(8, NAN);
  ASSERT_TRUE((*scoring)
                  ->assign("model.layers.0.input_layernorm.weight", numbers)
                  .ok());
  EXPECT_THAT(message(tokens, 1), HasSubstr("log-probability of the text is "));
}

/// Bits do not depend on slots, on other texts, or on when a text comes.
TEST_F(GeneratorTest, TextsAreTheSameOnEverySchedule) {
  const std::vector<GenerationRequest> requests = drawRequests(12);
  std::vector<Outcome> expected;
  for (const GenerationRequest &request : requests)
    expected.push_back(alone(request));
  for (int threads : {1, 2}) {
    open(threads);
    for (unsigned schedule = 0; schedule != 500; ++schedule) {
      std::minstd_rand random(schedule + 1);
      std::vector<std::size_t> order(requests.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      Generator own = generator();
      std::map<int64_t, Outcome> texts;
      std::size_t next = 0;
      while (next != order.size() || own.hasWork()) {
        for (; next != order.size() && random() % 3; ++next)
          add(own, requests[order[next]]);
        if (next && random() % 8 == 0)
          own.cancel(static_cast<int64_t>(random() % next));
        step(own, texts);
        ASSERT_FALSE(HasFatalFailure());
      }
      ASSERT_EQ(texts.size(), requests.size());
      for (std::size_t i = 0; i != order.size(); ++i) {
        const Outcome &text = texts[static_cast<int64_t>(i)];
        Outcome want = expected[order[i]];
        ASSERT_TRUE(text.finish);
        if (text.finish == FinishReason::Cancelled) {
          want.finish = FinishReason::Cancelled;
          ASSERT_LE(text.tokens.size(), want.tokens.size());
          want.tokens.resize(text.tokens.size());
          want.logits.resize(text.logits.size());
        }
        ASSERT_EQ(text.finish, want.finish) << "schedule " << schedule;
        ASSERT_EQ(text.tokens, want.tokens) << "schedule " << schedule;
        ASSERT_EQ(text.logits, want.logits) << "schedule " << schedule;
      }
    }
  }
}

} // namespace
