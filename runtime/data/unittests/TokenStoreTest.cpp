//===- TokenStoreTest.cpp - Reading the tokens of a store -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/TokenStore.h"

#include "optimus-support/Hash.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <unistd.h>

using namespace optrt;
using nlohmann::json;
using optimus_support::hash64;
using optimus_support::hashToHex;
namespace fs = std::filesystem;

namespace {

/// Token i of a split.
uint32_t tokenAt(int64_t i) { return i * 7919 % 50021; }

class TokenStoreTest : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "optimus-store-" +
             testing::UnitTest::GetInstance()->current_test_info()->name() +
             "-" + std::to_string(getpid());
    fs::create_directories(folder + "/train");
    fs::create_directories(folder + "/held-out");
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string shard(const std::string &split, int number,
                    const char *suffix = "bin") {
    char name[16];
    std::snprintf(name, sizeof(name), "/%05d.%s", number, suffix);
    return folder + "/" + split + name;
  }

  /// The last tokens of the documents of a shard, counted from 1.
  void writeEnds(const std::string &split, int number,
                 const std::vector<uint32_t> &ends) {
    std::ofstream(shard(split, number, "ends"), std::ios::binary)
        .write(reinterpret_cast<const char *>(ends.data()),
               std::streamsize(ends.size() * sizeof(uint32_t)));
  }

  static std::string words(int64_t begin, int64_t count, int width) {
    std::string bytes;
    for (int64_t i = begin; i != begin + count; ++i)
      for (int byte = 0; byte != width; ++byte)
        bytes += char(tokenAt(i) >> (8 * byte));
    return bytes;
  }

  /// Shards of so many tokens, as python/optimus/data/store.py writes them.
  json writeSplit(const std::string &split, const std::vector<int64_t> &shards,
                  int width) {
    json listed = json::array();
    std::string lines;
    int64_t total = 0;
    for (std::size_t i = 0; i != shards.size(); ++i) {
      const std::string bytes = words(total, shards[i], width);
      std::ofstream(shard(split, i), std::ios::binary) << bytes;
      writeEnds(split, i, {uint32_t(shards[i])});
      listed.push_back(
          {shards[i], 1, hashToHex(hash64(bytes)), "00000000000000aa"});
      lines += concat(shards[i], " 1 ", hashToHex(hash64(bytes)),
                      " 00000000000000aa\n");
      total += shards[i];
    }
    return {{"tokens", total},
            {"documents", shards.size()},
            {"xxh64", hashToHex(hash64(lines))},
            {"shards", listed}};
  }

  void writeStore(const std::vector<int64_t> &train,
                  const std::vector<int64_t> &heldOut, int width = 2) {
    index = {{"format", 1},
             {"token_type", width == 2 ? "u16" : "u32"},
             {"vocabulary", 50021},
             {"tokenizer",
              {{"name", "tokenizer.json"}, {"xxh64", "0123456789abcdef"}}},
             {"special", {{"<|endoftext|>", 7}}},
             {"document_end", 7},
             {"held_out", 0.01},
             {"splits",
              {{"train", writeSplit("train", train, width)},
               {"held-out", writeSplit("held-out", heldOut, width)}}}};
    writeIndex(index);
  }
  void writeIndex(const json &text) {
    std::ofstream(folder + "/index.json") << text.dump();
  }

  StatusOr<std::unique_ptr<Dataset>> open(const std::string &path,
                                          StoreSplit split = StoreSplit::Train,
                                          int64_t sequence = 4,
                                          int64_t vocabulary = 50021) {
    return Dataset::open(path, sequence, vocabulary, DataOrder::Sequential,
                         /*seed=*/0, std::nullopt, std::nullopt, split);
  }

  void expectError(const StatusOr<std::unique_ptr<Dataset>> &opened,
                   const std::string &message) {
    ASSERT_FALSE(opened.ok()) << message;
    EXPECT_EQ(opened.status().code(), StatusCode::InvalidArgument);
    EXPECT_NE(opened.status().message().find(message), std::string::npos)
        << opened.status().message();
  }
  /// Of an index with a lie in it.
  void expectLie(const std::function<void(json &)> &lie,
                 const std::string &message) {
    json changed = index;
    lie(changed);
    writeIndex(changed);
    expectError(open(folder), message);
    writeIndex(index);
  }

  std::string folder;
  json index;
};

} // namespace

TEST_F(TokenStoreTest, ShardsAreOneSequence) {
  for (int width : {2, 4}) {
    writeStore({7, 1, 30, 2}, {11}, width);
    auto data = open(folder);
    ASSERT_TRUE(data.ok()) << data.status().message();
    EXPECT_EQ((*data)->numTokens(), 40);
    ASSERT_EQ((*data)->numWindows(), 9);
    std::vector<int32_t> tokens(9 * 4), targets(9 * 4);
    ASSERT_TRUE(
        (*data)->fillBatch(0, 9, 0, 9, tokens.data(), targets.data()).ok());
    for (int64_t i = 0; i != 36; ++i) {
      EXPECT_EQ(tokens[i], int32_t(tokenAt(i)));
      EXPECT_EQ(targets[i], int32_t(tokenAt(i + 1)));
    }
    EXPECT_EQ((*data)->origin(),
              (TokenOrigin{"0123456789abcdef", folder + "/tokenizer.json", 7}));
  }
}

TEST_F(TokenStoreTest, TokensThatAreNoLabelsAreNoTargets) {
  // Bits go on from shard to shard with a new byte each.
  const std::vector<int64_t> shards = {7, 1, 30, 2};
  auto isLabel = [](int64_t token) { return token % 3 != 1; };
  writeStore(shards, {});
  json &train = index["splits"]["train"];
  std::string lines;
  int64_t begin = 0;
  for (std::size_t i = 0; i != shards.size(); ++i) {
    std::string bits((shards[i] + 7) / 8, '\0');
    for (int64_t token = 0; token != shards[i]; ++token)
      bits[token / 8] |= isLabel(begin + token) << token % 8;
    begin += shards[i];
    std::ofstream(folder + concat("/train/0000", i, ".labels")) << bits;
    json &shard = train["shards"][i];
    shard.push_back(hashToHex(hash64(bits)));
    lines += concat(shards[i], " 1");
    for (int member : {2, 3, 4})
      lines += " " + shard[member].get<std::string>();
    lines += "\n";
  }
  train["xxh64"] = hashToHex(hash64(lines));
  index["format"] = 2;
  writeIndex(index);
  auto data = open(folder);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(hashToHex(*(*data)->identity().contents),
            train["xxh64"].get<std::string>());
  std::vector<int32_t> tokens(9 * 4), targets(9 * 4);
  std::vector<uint64_t> hashes(9), again(9);
  ASSERT_TRUE(
      (*data)
          ->fillBatch(0, 9, 0, 9, tokens.data(), targets.data(), hashes.data())
          .ok());
  for (int64_t i = 0; i != 36; ++i) {
    EXPECT_EQ(tokens[i], int32_t(tokenAt(i)));
    EXPECT_EQ(targets[i], isLabel(i + 1) ? int32_t(tokenAt(i + 1)) : -1) << i;
  }
  const int64_t windows[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_TRUE((*data)->hashWindows(windows, again.data()).ok());
  EXPECT_EQ(hashes, again);

  // Nothing is hidden that is no label.
  auto masked = Dataset::open(folder, 4, 50021, DataOrder::Sequential, 0,
                              MaskedObjective{3, -1});
  ASSERT_TRUE(masked.ok());
  int64_t hidden = 0;
  for (int64_t epoch = 0; epoch != 20; ++epoch) {
    ASSERT_TRUE(
        (*masked)
            ->fillBatch(9 * epoch, 9, 0, 9, tokens.data(), targets.data())
            .ok());
    for (int64_t i = 0; i != 36; ++i) {
      hidden += targets[i] >= 0;
      if (!isLabel(i)) {
        EXPECT_EQ(tokens[i], int32_t(tokenAt(i)));
      }
    }
  }
  EXPECT_GT(hidden, 0);

  // Other labels are other data, and a shard's are all there.
  const std::string path = folder + "/train/00002.labels";
  std::ofstream(path) << "abc";
  expectError(open(folder), path + " has 3 bytes; by ");
  fs::remove(path);
  expectError(open(folder), "cannot open " + path);
}

TEST_F(TokenStoreTest, DocumentsEndWhereTheShardsSay) {
  const std::vector<int64_t> shards = {7, 1, 30, 2};
  const std::vector<std::vector<uint32_t>> ends = {
      {3, 7}, {}, {1, 2, 5, 6, 30}, {1}};
  writeStore(shards, {});
  json &train = index["splits"]["train"];
  std::string lines;
  std::vector<uint8_t> expected(41, 0);
  int64_t begin = 0;
  for (std::size_t i = 0; i != shards.size(); ++i) {
    writeEnds("train", i, ends[i]);
    for (uint32_t end : ends[i])
      expected[begin + end - 1] = 1;
    begin += shards[i];
    json &shard = train["shards"][i];
    shard[1] = ends[i].size();
    lines +=
        concat(shards[i], " ", ends[i].size(), " ", shard[2].get<std::string>(),
               " ", shard[3].get<std::string>(), "\n");
  }
  train["documents"] = 8;
  train["xxh64"] = hashToHex(hash64(lines));
  writeIndex(index);
  for (int64_t sequence : {1, 3, 4, 13, 39}) {
    auto data = open(folder, StoreSplit::Train, sequence);
    ASSERT_TRUE(data.ok()) << data.status().message();
    EXPECT_TRUE((*data)->hasEnds());
    std::vector<uint8_t> found(sequence, 7);
    for (int64_t window = 0; window != (*data)->numWindows(); ++window) {
      Status status = (*data)->findEnds(window, found);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int64_t i = 0; i != sequence; ++i)
        EXPECT_EQ(found[i], expected[window * sequence + i])
            << window << " of " << sequence << ", " << i;
    }
    ASSERT_TRUE((*data)->findEnds(Dataset::kPadding, found).ok());
    EXPECT_EQ(found, std::vector<uint8_t>(sequence, 0));
  }

  // What does not rise is found where it is read.
  for (const std::vector<uint32_t> &damaged :
       {std::vector<uint32_t>{1, 2, 6, 6, 30}, {1, 2, 5, 6, 31}}) {
    writeEnds("train", 2, damaged);
    auto data = open(folder, StoreSplit::Train, 39);
    ASSERT_TRUE(data.ok()) << data.status().message();
    std::vector<uint8_t> found(39);
    Status status = (*data)->findEnds(0, found);
    EXPECT_EQ(status.code(), StatusCode::DataLoss);
    EXPECT_NE(status.message().find("00002.ends is damaged"), std::string::npos)
        << status.message();
  }
  fs::remove(shard("train", 2, "ends"));
  expectError(open(folder), "cannot open " + shard("train", 2, "ends"));
}

TEST_F(TokenStoreTest, WindowsAndTheirOrderAreThoseOfOneFile) {
  // A store in many shards, and its tokens in one file.
  writeStore({100, 3, 250, 47, 1, 99}, {11});
  const std::string file = folder + "/whole.bin";
  std::ofstream(file, std::ios::binary) << words(0, 500, 2);
  auto store = Dataset::open(folder, 7, 50021, DataOrder::Shuffled, 5);
  auto whole = Dataset::open(file, 7, 50021, DataOrder::Shuffled, 5);
  ASSERT_TRUE(store.ok() && whole.ok());
  ASSERT_EQ((*store)->numWindows(), (*whole)->numWindows());
  std::vector<int32_t> one(16 * 7), other(16 * 7), targets(16 * 7);
  std::vector<uint64_t> hashes(16), expected(16);
  for (int64_t position : {0, 16, 100}) {
    ASSERT_TRUE((*store)
                    ->fillBatch(position, 16, 0, 16, one.data(), targets.data(),
                                hashes.data())
                    .ok());
    ASSERT_TRUE((*whole)
                    ->fillBatch(position, 16, 0, 16, other.data(),
                                targets.data(), expected.data())
                    .ok());
    EXPECT_EQ(one, other);
    EXPECT_EQ(hashes, expected);
  }
  // A sample of the same bytes; what is known of all is the index's.
  EXPECT_EQ((*store)->identity().sample, (*whole)->identity().sample);
  EXPECT_EQ(hashToHex(*(*store)->identity().contents),
            index["splits"]["train"]["xxh64"].get<std::string>());
}

TEST_F(TokenStoreTest, ASplitIsChosenByUseOrByPath) {
  writeStore({20}, {11});
  EXPECT_EQ((*open(folder))->numTokens(), 20);
  EXPECT_EQ((*open(folder, StoreSplit::HeldOut))->numTokens(), 11);
  EXPECT_EQ((*open(folder + "/"))->numTokens(), 20);
  EXPECT_EQ((*open(folder + "/train", StoreSplit::HeldOut))->numTokens(), 20);
  EXPECT_EQ((*open(folder + "/held-out/"))->numTokens(), 11);
  EXPECT_TRUE(Dataset::isStore(folder));
  EXPECT_TRUE(Dataset::isStore(folder + "/held-out"));
  EXPECT_FALSE(Dataset::isStore(folder + "/index.json"));
  EXPECT_FALSE(Dataset::isStore(folder + "/../"));
  expectError(open(folder + "/.."), "is a folder without an index.json");
  writeStore({20}, {});
  expectError(open(folder, StoreSplit::HeldOut), "has no tokens in held-out");
}

TEST_F(TokenStoreTest, FewShardsAreOpenAtATime) {
  writeStore(std::vector<int64_t>(300, 3), {11});
  auto countOpen = [] {
    auto begin = fs::directory_iterator("/proc/self/fd");
    return std::distance(begin, fs::directory_iterator());
  };
  const auto before = countOpen();
  auto data = open(folder);
  ASSERT_TRUE(data.ok()) << data.status().message();
  std::vector<std::thread> readers;
  for (int64_t t = 0; t != 4; ++t)
    readers.emplace_back([&, t] {
      std::vector<int32_t> tokens(4), targets(4);
      for (int64_t i = 0; i != 224; ++i) {
        const int64_t window = (i * 61 + t * 17) % 224;
        EXPECT_TRUE(
            (*data)
                ->fillBatch(window, 1, 0, 1, tokens.data(), targets.data())
                .ok());
        EXPECT_EQ(tokens[0], int32_t(tokenAt(window * 4)));
        EXPECT_EQ(targets[3], int32_t(tokenAt(window * 4 + 4)));
      }
    });
  for (std::thread &reader : readers)
    reader.join();
  // And the index.
  EXPECT_LE(countOpen() - before, int64_t(TokenStore::kMostOpenFiles) + 1);
}

TEST_F(TokenStoreTest, RefusesAnIndexThatItsFilesBelie) {
  writeStore({20, 20}, {11});
  fs::resize_file(shard("train", 1), 39);
  expectError(open(folder), "00001.bin has 39 bytes; by ");
  fs::resize_file(shard("train", 1), 42);
  expectError(open(folder), "it has 40");
  fs::remove(shard("train", 1));
  expectError(open(folder), "No such file");
  fs::create_directory(shard("train", 1));
  expectError(open(folder), "is not a regular file");
  fs::remove(shard("train", 1));
  fs::create_symlink("/dev/zero", shard("train", 1));
  expectError(open(folder), "is not a regular file");
  fs::remove(shard("train", 1));
  fs::create_symlink(shard("train", 1), shard("train", 1));
  expectError(open(folder), "Too many levels of symbolic links");
  // Held-out documents are read without the others.
  EXPECT_TRUE(open(folder, StoreSplit::HeldOut).ok());
}

TEST_F(TokenStoreTest, RefusesAnIndexThatContradictsItself) {
  writeStore({20, 20}, {11});
  auto train = [](json &index) -> json & { return index["splits"]["train"]; };
  expectLie([](json &index) { index["format"] = 3; }, "has format 3");
  expectLie([](json &index) { index["format"] = 2; },
            "expected 5 members, found 4");
  expectLie([](json &index) { index["token_type"] = "i8"; }, "found \"i8\"");
  expectLie([](json &index) { index["vocabulary"] = 70000; }, "vocabulary");
  expectLie([](json &index) { index["vocabulary"] = -1; }, "vocabulary");
  expectLie([](json &index) { index["document_end"] = 50021; }, "document_end");
  expectLie([](json &index) { index.erase("document_end"); }, "document_end");
  expectLie([](json &index) { index["tokenizer"]["xxh64"] = "xyz"; },
            "expected 16 hexadecimal digits");
  expectLie([&](json &index) { train(index)["tokens"] = 41; },
            "the shards make 40, found 41");
  expectLie([&](json &index) { train(index)["documents"] = 1; },
            "the shards make 2, found 1");
  expectLie([&](json &index) { train(index)["shards"][0][2] = "0"; },
            "expected 16 hexadecimal digits");
  expectLie(
      [&](json &index) { train(index)["shards"][0][2] = "0123456789abcdef"; },
      "xxh64: the shards make");
  expectLie([&](json &index) { train(index)["shards"][1][0] = 0; },
            "shards[1][0]");
  expectLie(
      [&](json &index) { train(index)["shards"][1][0] = int64_t(1) << 40; },
      "shards[1][0]");
  expectLie(
      [&](json &index) {
        train(index)["shards"][1] = {1, 2};
      },
      "expected 4 members, found 2");
  expectLie([&](json &index) { train(index)["shards"] = "none"; }, "shards");
  expectLie([](json &index) { index["splits"].erase("held-out"); }, "held-out");
  std::ofstream(folder + "/index.json") << std::string(100'000, '[');
  expectError(open(folder), "index.json");
  std::ofstream(folder + "/index.json") << "";
  expectError(open(folder), "index.json");
}

TEST_F(TokenStoreTest, RefusesAMillionShards) {
  writeStore({20}, {11});
  json many = json::array();
  for (int i = 0; i != 65'537; ++i)
    many.push_back({1, 0, "0123456789abcdef", "0123456789abcdef"});
  expectLie([&](json &index) { index["splits"]["train"]["shards"] = many; },
            "expected at most 65536 shards, found 65537");
  // More has more bytes than an index.
  std::ofstream(folder + "/index.json") << std::string((16 << 20) + 1, ' ');
  expectError(open(folder), "has more than the 16777216 bytes");
}

TEST_F(TokenStoreTest, HoldsTheVocabularyAgainstTheModels) {
  writeStore({20}, {11});
  EXPECT_TRUE(open(folder, StoreSplit::Train, 4, 50304).ok());
  expectError(open(folder, StoreSplit::Train, 4, 50000),
              "has tokens of a vocabulary of 50021, but the model's has 50000");
  expectError(open(folder, StoreSplit::Train, 20),
              "has 20 tokens; one sequence");
  auto stated = Dataset::open(folder, 4, 50021, DataOrder::Sequential, 0,
                              std::nullopt, TokenType::U32);
  expectError(stated, "--token-type u32: the store");
  // An index that lies about its tokens is found where they are read.
  index["vocabulary"] = 5000;
  writeIndex(index);
  auto data = open(folder, StoreSplit::Train, 4, 5000);
  ASSERT_TRUE(data.ok()) << data.status().message();
  std::vector<int32_t> tokens(4), targets(4);
  Status status = (*data)->fillBatch(0, 1, 0, 1, tokens.data(), targets.data());
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_NE(
      status.message().find("has token 31676, but its vocabulary has 5000"),
      std::string::npos)
      << status.message();
}

TEST_F(TokenStoreTest, NoticesShardsThatChangeWhileRead) {
  writeStore(std::vector<int64_t>(40, 8), {11});
  auto data = open(folder);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_FALSE((*data)->wasWrittenTo());
  // The sample has read all: the first shards are closed again, the last not.
  std::ofstream(shard("train", 39), std::ios::binary) << words(5, 8, 2);
  EXPECT_TRUE((*data)->wasWrittenTo());
  std::ofstream(shard("train", 0), std::ios::binary) << words(5, 8, 2);
  std::vector<int32_t> tokens(4), targets(4);
  Status status = (*data)->fillBatch(0, 1, 0, 1, tokens.data(), targets.data());
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_NE(status.message().find("changed while the store was read"),
            std::string::npos)
      << status.message();
}
