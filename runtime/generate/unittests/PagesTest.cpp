//===- PagesTest.cpp - Pages of a cache -----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../PagePool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace optrt;
using testing::HasSubstr;

namespace {

/// Two groups of two slots, the last with one, and two pages a slot.
constexpr CacheExtents kGroups = {.slots = 3,
                                  .context = 256,
                                  .bytesPerToken = 8,
                                  .pages = 6,
                                  .slotsOfPool = 2};

TEST(PagePool, GroupsHaveThePagesOfTheirSlots) {
  PagePool pool(kGroups);
  EXPECT_EQ(pool.groupOf(1), 0);
  EXPECT_EQ(pool.groupOf(2), 1);
  EXPECT_EQ(pool.available(0), 4);
  EXPECT_EQ(pool.available(1), 2);
  pool.promise(1, 2);
  EXPECT_EQ(pool.available(1), 0);
  EXPECT_EQ(pool.take(1), 4);
  EXPECT_EQ(pool.take(1), 5);
  EXPECT_EQ(pool.available(1), 0);
  EXPECT_TRUE(pool.drop(4));
  EXPECT_EQ(pool.available(1), 1);
  EXPECT_EQ(pool.counts().held, 1);
  EXPECT_EQ(pool.counts().free, 5);
}

TEST(PagePool, ATextNeedsThePagesOfItsWindowAndCall) {
  CacheExtents cache = kGroups;
  EXPECT_EQ(cache.pagesAtOnce(1), 4);
  cache.pages = 3;
  EXPECT_EQ(cache.tokensOfOne(1), 128);
  cache.window = 64;
  // From the last token of a page on, and from any other one.
  EXPECT_EQ(cache.pagesAtOnce(1), 2);
  EXPECT_EQ(cache.pagesAtOnce(2), 2);
  EXPECT_EQ(cache.pagesAtOnce(3), 3);
  EXPECT_EQ(cache.pagesAtOnce(256), 4);
  EXPECT_EQ(cache.tokensOfOne(1), 256);
  EXPECT_EQ(cache.tokensOfOne(3), 128);
}

TEST(PagePool, APageIsFreeOnceItsLastHolderIsGone) {
  PagePool pool(kGroups);
  pool.promise(0, 1);
  const int32_t page = pool.take(0);
  pool.hold(page);
  EXPECT_EQ(pool.counts().shared, 1);
  EXPECT_FALSE(pool.drop(page));
  EXPECT_EQ(pool.counts().shared, 0);
  EXPECT_TRUE(pool.drop(page));
  EXPECT_EQ(pool.counts().held, 0);
}

TEST(PagePool, PrefixesAreFoundBehindThoseBefore) {
  PagePool pool(kGroups);
  pool.promise(0, 3);
  const std::vector<int32_t> one = {1, 2}, other = {1, 3};
  const int32_t first = pool.take(0), second = pool.take(0),
                third = pool.take(0);
  pool.addPrefix(0, -1, one, first);
  pool.addPrefix(0, first, other, second);
  EXPECT_EQ(pool.findPrefix(0, -1, one), first);
  EXPECT_EQ(pool.findPrefix(0, first, other), second);
  EXPECT_EQ(pool.findPrefix(0, -1, other), -1);
  EXPECT_EQ(pool.findPrefix(0, second, other), -1);
  EXPECT_EQ(pool.findPrefix(1, -1, one), -1);
  // The page that came first stays.
  pool.addPrefix(0, -1, one, third);
  EXPECT_FALSE(pool.isPrefix(third));
  EXPECT_EQ(pool.findPrefix(0, -1, one), first);
  pool.drop(second);
  pool.drop(first);
  EXPECT_EQ(pool.findPrefix(0, -1, one), -1);
  EXPECT_EQ(pool.findPrefix(0, first, other), -1);
}

/// With two pages a group on the host, and one to change places.
TEST(PagePool, PagesMoveWithTheirHolders) {
  PagePool pool(kGroups, /*hostPages=*/3);
  EXPECT_EQ(pool.available(0), 4 + 2);
  EXPECT_EQ(pool.available(1), 2 + 2);
  pool.promise(0, 4);
  const std::vector<int32_t> tokens = {1, 2};
  const int32_t page = pool.take(0);
  pool.hold(page);
  pool.addPrefix(0, -1, tokens, page);
  const int32_t moved = pool.moveOut(page);
  EXPECT_TRUE(PagePool::isOnHost(moved));
  EXPECT_EQ(pool.findPrefix(0, -1, tokens), -1);
  EXPECT_EQ(pool.numFree(0), 4);
  EXPECT_EQ(pool.available(0), 4 + 2 - 1 - 3);
  EXPECT_EQ(pool.counts().onHost, 1);
  EXPECT_FALSE(pool.drop(moved));
  const int32_t back = pool.moveIn(moved);
  EXPECT_EQ(pool.counts().onHost, 0);
  EXPECT_EQ(pool.numFree(0), 3);
  EXPECT_TRUE(pool.drop(back));
  // Those of the other group are others.
  pool.promise(1, 1);
  const int32_t other = pool.moveOut(pool.take(1));
  EXPECT_NE(PagePool::placeOnHost(other), PagePool::placeOnHost(moved));
  EXPECT_TRUE(pool.drop(other));
  EXPECT_EQ(pool.available(1), 2 + 2);
}

/// A session of a model with random parameters: three slots of 128 tokens, and
/// three pages.
class PagesTest : public testing::Test {
protected:
  void SetUp() override {
    auto opened = ModelLibrary::open(OPTIMUS_PAGED);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    library = std::move(opened).value();
    auto found = GenerationEntries::find("paged.so", library->manifest());
    ASSERT_TRUE(found.ok()) << found.status().message();
    entries = *found;
    world = createLocalWorld();
    SessionOptions options;
    options.functions = entries.functions();
    auto made = Session::create(*library, world, options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    session = std::move(made).value();
    ASSERT_TRUE(session->initialize(/*seed=*/3).ok());
    ASSERT_TRUE(entries.prepare(*session).ok());
  }

  std::unique_ptr<ModelLibrary> library;
  GenerationEntries entries;
  World world;
  std::unique_ptr<Session> session;
};

TEST_F(PagesTest, KnowsItsLibrary) {
  EXPECT_EQ(entries.cache, (CacheExtents{3, 128, 32, 3, 3}));
  EXPECT_EQ(entries.cache.tokensOfOne(entries.chunk), 128);
  EXPECT_EQ(entries.cache.tokensOfEach(), 64);
  EXPECT_THAT(entries.cache.pagesOfEach(3)[2], testing::ElementsAre(2));
}

TEST_F(PagesTest, TablesOfOtherPagesAreRefused) {
  const std::vector<int32_t> tokens(64, 1);
  auto message = [&](const char *function, int64_t position, int64_t count,
                     std::vector<int32_t> pages) {
    const SlotTokens given = {.slot = 1,
                              .position = position,
                              .tokens = std::span(tokens).first(count),
                              .pages = pages};
    return std::string(session->fillSlots(function, {&given, 1}).message());
  };
  EXPECT_EQ(message("prefill", 0, 64, {2}), "");
  EXPECT_EQ(message("decode", 64, 1, {2, 0}), "");
  EXPECT_THAT(message("decode", 64, 1, {2}),
              HasSubstr("slot 1: expected from 2 to 2 pages of 64 tokens, "
                        "found 1"));
  EXPECT_THAT(message("decode", 0, 1, {}),
              HasSubstr("expected from 1 to 2 pages of 64 tokens, found 0"));
  EXPECT_THAT(message("prefill", 0, 64, {2, 1, 0}), HasSubstr("found 3"));
  EXPECT_THAT(message("prefill", 0, 64, {3}),
              HasSubstr("prefill, slot 1: expected pages of its ranks, from 0 "
                        "to 2, found 3 in place 0"));
  EXPECT_THAT(message("decode", 3, 1, {0, -1}),
              HasSubstr("found -1 in place 1"));
}

TEST_F(PagesTest, CopiesAPageWithinTheCache) {
  const std::string &decode = entries.decode->name;
  EXPECT_TRUE(session->copyPage(decode, 0, 2, 64).ok());
  EXPECT_THAT(session->copyPage(decode, 0, 3, 1).message(),
              HasSubstr("expected pages of the same ranks, found page 3 of 3"));
  EXPECT_THAT(session->copyPage(decode, -1, 0, 1).message(),
              HasSubstr("found page -1 of 3"));
  for (int64_t tokens : {65, -1})
    EXPECT_THAT(session->copyPage(decode, 0, 1, tokens).message(),
                HasSubstr("expected tokens of a page, found"));
  EXPECT_THAT(session->copySlot(decode, 0, 1, 1).message(),
              HasSubstr("expected slots and tokens of a cache"));
}

/// A text that could never be let in would keep all others out.
TEST_F(PagesTest, ATextWaitsForThePagesThatItMayNeed) {
  Generator generator(*session, *world.control, entries);
  auto add = [&](int64_t size, int64_t maxTokens) {
    GenerationRequest request;
    request.prompt.assign(size, 1);
    request.prompt.back() = static_cast<int32_t>(size % 11);
    request.maxTokens = maxTokens;
    return generator.add(request);
  };
  EXPECT_TRUE(add(60, 8).ok()); // two pages
  EXPECT_TRUE(add(50, 40).ok());
  EXPECT_TRUE(add(1, 30).ok());
  ASSERT_TRUE(generator.step().ok());
  // The last one does not overtake the second.
  EXPECT_EQ(generator.pages()->held, 1);
  EXPECT_EQ(generator.counters().prefills, 1);
  EXPECT_EQ(generator.counters().decodes, 0);
  int64_t most = 0;
  while (generator.hasWork()) {
    ASSERT_TRUE(generator.step().ok());
    most = std::max(most, generator.pages()->held);
  }
  EXPECT_EQ(most, 3);
  EXPECT_EQ(generator.pages()->held, 0);
  EXPECT_EQ(generator.counters().generatedTokens, 8 + 40 + 30);
}

/// Texts need twice the pages of the cache, and some have a beginning in
/// common. Each has the bits that it has alone.
TEST_F(PagesTest, NoBitDependsOnPagesThatMove) {
  std::vector<GenerationRequest> requests(8);
  std::minstd_rand random(5);
  auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (std::size_t i = 0; i != requests.size(); ++i) {
    GenerationRequest &request = requests[i];
    request.prompt.assign(i % 3 == 0 ? 64 : 0, 4);
    const int64_t more = draw(1, 30);
    for (int64_t j = 0; j != more; ++j)
      request.prompt.push_back(static_cast<int32_t>(draw(0, 10)));
    request.maxTokens = draw(20, 129 - std::ssize(request.prompt));
    request.sampling.seed = i;
    request.sampling.temperature = 1;
    request.wantsLogits = true;
  }
  // Beams have their pages for good.
  requests[1] = {.prompt = {1, 2, 3}, .maxTokens = 20, .beams = 2};
  struct Outcome {
    std::vector<int32_t> tokens;
    std::vector<float> logits;
    bool isCancelled = false;
  };
  auto step = [&](Generator &generator, std::map<int64_t, Outcome> &texts) {
    auto parts = generator.step();
    ASSERT_TRUE(parts.ok()) << parts.status().toString();
    for (GeneratedPart &part : *parts) {
      Outcome &text = texts[part.text];
      text.tokens.insert(text.tokens.end(), part.tokens.begin(),
                         part.tokens.end());
      text.logits.insert(text.logits.end(), part.logits.begin(),
                         part.logits.end());
      text.isCancelled = part.finish == FinishReason::Cancelled;
    }
  };
  std::vector<Outcome> expected;
  for (const GenerationRequest &request : requests) {
    Generator alone(*session, *world.control, entries);
    ASSERT_TRUE(alone.add(request).ok());
    std::map<int64_t, Outcome> texts;
    while (alone.hasWork())
      ASSERT_NO_FATAL_FAILURE(step(alone, texts));
    expected.push_back(texts[0]);
  }
  int64_t moved = 0;
  for (unsigned schedule = 0; schedule != 40; ++schedule) {
    random.seed(schedule + 1);
    std::vector<std::size_t> order(requests.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    Generator generator(*session, *world.control, entries, /*hostPages=*/3);
    std::map<int64_t, Outcome> texts;
    std::size_t next = 0;
    while (next != order.size() || generator.hasWork()) {
      for (; next != order.size() && draw(0, 2); ++next)
        ASSERT_TRUE(generator.add(requests[order[next]]).ok());
      if (next && draw(0, 299) == 0)
        generator.cancel(draw(0, static_cast<int64_t>(next) - 1));
      ASSERT_NO_FATAL_FAILURE(step(generator, texts));
    }
    EXPECT_EQ(generator.pages()->held, 0);
    EXPECT_EQ(generator.pages()->onHost, 0);
    moved += generator.counters().movedPages;
    for (std::size_t i = 0; i != order.size(); ++i) {
      const Outcome &text = texts[static_cast<int64_t>(i)];
      Outcome want = expected[order[i]];
      if (text.isCancelled) {
        want.tokens.resize(text.tokens.size());
        want.logits.resize(text.logits.size());
      }
      ASSERT_EQ(text.tokens, want.tokens) << "schedule " << schedule;
      ASSERT_EQ(text.logits, want.logits) << "schedule " << schedule;
    }
  }
  EXPECT_GT(moved, 50);
}

} // namespace
