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
  for (auto [from, to, tokens] :
       {std::tuple(0, 3, 1), {-1, 0, 1}, {0, 1, 65}, {0, 1, -1}})
    EXPECT_THAT(
        session->copyPage(decode, from, to, tokens).message(),
        HasSubstr("expected pages of the same ranks and tokens of one"));
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

} // namespace
