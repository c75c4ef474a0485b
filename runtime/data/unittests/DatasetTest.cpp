//===- DatasetTest.cpp - Tokens of a training or evaluation file ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Dataset.h"

#include "optimus-support/Permutation.h"
#include "optimus-support/Philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace optrt;

namespace {

class DatasetTest : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "optimus-dataset-" +
             testing::UnitTest::GetInstance()->current_test_info()->name() +
             "-" + std::to_string(getpid());
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string &name, const std::string &bytes) {
    std::string path = folder + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  /// A .txt of `count` tokens; token i is i * 7 % 101.
  std::string writeText(int64_t count) {
    std::string bytes;
    for (int64_t i = 0; i < count; ++i)
      bytes += char(tokenAt(i));
    return write("data.txt", bytes);
  }
  /// A .bin of `count` tokens; token i is i * 7919 % 50021.
  std::string writeBinary(int64_t count) {
    std::string bytes;
    for (int64_t i = 0; i < count; ++i) {
      int32_t token = wideTokenAt(i);
      bytes += char(token & 255);
      bytes += char(token >> 8);
    }
    return write("data.bin", bytes);
  }
  static int32_t tokenAt(int64_t i) { return i * 7 % 101; }
  static int32_t wideTokenAt(int64_t i) { return i * 7919 % 50021; }

  void expectError(const std::string &path, int64_t sequence,
                   int64_t vocabulary, const std::string &message) {
    auto dataset = Dataset::open(path, sequence, vocabulary);
    ASSERT_FALSE(dataset.ok());
    EXPECT_EQ(dataset.status().code(), StatusCode::InvalidArgument);
    EXPECT_NE(dataset.status().message().find(message), std::string::npos)
        << dataset.status().message();
    // The file is named.
    EXPECT_NE(dataset.status().message().find(path), std::string::npos)
        << dataset.status().message();
  }

  std::string folder;
};

} // namespace

TEST_F(DatasetTest, DropsTheTailThatIsTooShort) {
  // The last window needs the token after it as its last target.
  for (auto [tokens, windows] :
       {std::pair(5, 1), {8, 1}, {9, 2}, {12, 2}, {13, 3}}) {
    auto dataset = Dataset::open(writeText(tokens), 4, 256);
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    EXPECT_EQ((*dataset)->numWindows(), windows);
    EXPECT_EQ((*dataset)->numTokens(), tokens);
  }
}

TEST_F(DatasetTest, SequentialReadsWindowsAsTheyLieAndWraps) {
  constexpr int64_t s = 4, b = 3, count = 23; // 5 windows
  auto dataset = Dataset::open(writeText(count), s, 256, DataOrder::Sequential);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  ASSERT_EQ((*dataset)->numWindows(), 5);
  std::vector<int32_t> tokens(b * s), targets(b * s);
  for (int64_t k = 0; k < 7; ++k) {
    ASSERT_TRUE((*dataset)
                    ->fillBatch(k * b, b, 0, b, tokens.data(), targets.data())
                    .ok());
    for (int64_t j = 0; j < b; ++j)
      for (int64_t i = 0; i < s; ++i) {
        int64_t window = (k * b + j) % 5;
        ASSERT_EQ(tokens[j * s + i], tokenAt(window * s + i));
        ASSERT_EQ(targets[j * s + i], tokenAt(window * s + i + 1));
      }
  }
}

TEST_F(DatasetTest, ReadsSixteenBitTokensInLittleEndian) {
  constexpr int64_t s = 5, b = 2;
  auto dataset =
      Dataset::open(writeBinary(41), s, 50021, DataOrder::Sequential);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  std::vector<int32_t> tokens(b * s), targets(b * s);
  ASSERT_TRUE(
      (*dataset)->fillBatch(b, b, 0, b, tokens.data(), targets.data()).ok());
  for (int64_t i = 0; i < b * s; ++i) {
    EXPECT_EQ(tokens[i], wideTokenAt(2 * s + i));
    EXPECT_EQ(targets[i], wideTokenAt(2 * s + i + 1));
  }
}

TEST_F(DatasetTest, BytesAboveAsciiAreNotNegative) {
  auto dataset = Dataset::open(write("high.txt", "\xff\x80\x7f"), 2, 256,
                               DataOrder::Sequential);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  std::vector<int32_t> tokens(2), targets(2);
  ASSERT_TRUE(
      (*dataset)->fillBatch(0, 1, 0, 1, tokens.data(), targets.data()).ok());
  EXPECT_EQ(tokens, (std::vector<int32_t>{255, 128}));
  EXPECT_EQ(targets, (std::vector<int32_t>{128, 127}));
}

TEST_F(DatasetTest, ShuffledConcatenatesTheEpochsPermutations) {
  // 5 windows, so that batches of 3 and of 7 reach over ends of epochs.
  auto dataset = Dataset::open(writeText(21), 4, 256, DataOrder::Shuffled, 17);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  std::vector<uint64_t> order;
  for (uint64_t epoch = 0; epoch < 12; ++epoch)
    for (uint64_t window : optimus_support::permutation(5, 17, epoch))
      order.push_back(window);
  for (int64_t b : {1, 3, 7}) {
    std::vector<int32_t> tokens(b * 4), targets(b * 4);
    for (int64_t k = 0; (k + 1) * b <= int64_t(order.size()); ++k) {
      ASSERT_TRUE((*dataset)
                      ->fillBatch(k * b, b, 0, b, tokens.data(), targets.data())
                      .ok());
      for (int64_t j = 0; j < b; ++j)
        for (int64_t i = 0; i < 4; ++i) {
          int64_t at = order[k * b + j] * 4 + i;
          ASSERT_EQ(tokens[j * 4 + i], tokenAt(at));
          ASSERT_EQ(targets[j * 4 + i], tokenAt(at + 1));
        }
    }
  }
  // Going back, as after loading a checkpoint, gives the same.
  for (int64_t position : {59, 0, 31, 7})
    EXPECT_EQ((*dataset)->windowAt(position), int64_t(order[position]));
}

TEST_F(DatasetTest, TheOrderOfManyWindowsIsComputed) {
  // Holes take no room on the disk, and 256 tokens need no look at the file.
  auto shuffled = [&](int64_t windows) {
    std::string path = write("many.txt", "");
    std::filesystem::resize_file(path, windows + 1);
    auto dataset = Dataset::open(path, 1, 256, DataOrder::Shuffled, 17);
    EXPECT_TRUE(dataset.ok()) << dataset.status().message();
    EXPECT_EQ((*dataset)->numWindows(), windows);
    return std::move(*dataset);
  };
  const int64_t many = int64_t(1) << 24;
  auto dataset = shuffled(many);
  for (int64_t position :
       {int64_t(0), int64_t(5), many - 1, many, 3 * many + 1})
    EXPECT_EQ(dataset->windowAt(position),
              int64_t(optimus_support::permuted(position % many, many, 17,
                                                position / many)));
  // One less, and the order is what it always was.
  dataset = shuffled(many - 1);
  auto order = optimus_support::permutation(many - 1, 17, 1);
  for (int64_t within : {int64_t(0), int64_t(5), many - 2})
    EXPECT_EQ(dataset->windowAt(many - 1 + within), int64_t(order[within]));
}

TEST_F(DatasetTest, RanksRowsMakeUpTheGlobalBatch) {
  constexpr int64_t s = 4, b = 7, local = 4; // 2 ranks, one row of padding
  auto dataset = Dataset::open(writeText(100), s, 256);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  std::vector<int32_t> whole(b * s), wholeTargets(b * s);
  ASSERT_TRUE((*dataset)
                  ->fillBatch(2 * b, b, 0, b, whole.data(), wholeTargets.data())
                  .ok());
  for (int64_t rank = 0; rank < 2; ++rank) {
    std::vector<int32_t> tokens(local * s, 77), targets(local * s, 77);
    ASSERT_TRUE((*dataset)
                    ->fillBatch(2 * b, b, rank * local, local, tokens.data(),
                                targets.data())
                    .ok());
    for (int64_t i = 0; i < local * s; ++i) {
      int64_t at = rank * local * s + i;
      EXPECT_EQ(tokens[i], at < b * s ? whole[at] : 0);
      EXPECT_EQ(targets[i], at < b * s ? wholeTargets[at] : -1);
    }
  }
}

TEST_F(DatasetTest, EvaluationCoversEveryWindowOnce) {
  constexpr int64_t s = 4, b = 3;
  auto dataset = Dataset::open(writeText(30), s, 256); // 7 windows, shuffled
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  ASSERT_EQ((*dataset)->numEvalBatches(b), 3);
  std::vector<int32_t> tokens(4 * s), targets(4 * s);
  for (int64_t k = 0; k < 3; ++k) {
    // A fourth row is beyond the batch, and always padding.
    ASSERT_TRUE((*dataset)
                    ->fillEvalBatch(k, b, 0, 4, tokens.data(), targets.data())
                    .ok());
    for (int64_t j = 0; j < 4; ++j)
      for (int64_t i = 0; i < s; ++i) {
        int64_t window = k * b + j;
        bool real = j < b && window < 7;
        EXPECT_EQ(tokens[j * s + i], real ? tokenAt(window * s + i) : 0);
        EXPECT_EQ(targets[j * s + i], real ? tokenAt(window * s + i + 1) : -1);
      }
  }
}

TEST_F(DatasetTest, ServesSeveralThreads) {
  constexpr int64_t s = 8, b = 16, threads = 4, steps = 40;
  auto opened = Dataset::open(writeText(1000), s, 256);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Dataset &dataset = **opened;
  std::vector<std::vector<int32_t>> parts(threads);
  std::vector<std::thread> workers;
  for (int64_t t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      std::vector<int32_t> targets(b / threads * s);
      parts[t].resize(steps * b / threads * s);
      for (int64_t k = 0; k < steps; ++k)
        EXPECT_TRUE(dataset
                        .fillBatch(k * b, b, t * b / threads, b / threads,
                                   &parts[t][k * b / threads * s],
                                   targets.data())
                        .ok());
    });
  for (std::thread &worker : workers)
    worker.join();
  std::vector<int32_t> tokens(b * s), targets(b * s);
  for (int64_t k = 0; k < steps; ++k) {
    ASSERT_TRUE(
        dataset.fillBatch(k * b, b, 0, b, tokens.data(), targets.data()).ok());
    for (int64_t i = 0; i < b * s; ++i) {
      int64_t share = b / threads * s;
      ASSERT_EQ(tokens[i], parts[i / share][k * share + i % share]);
    }
  }
}

TEST_F(DatasetTest, NamesWhatIsWrongWithTheFile) {
  expectError(folder + "/none.txt", 4, 256, "No such file");
  std::filesystem::create_directory(folder + "/folder.txt");
  expectError(folder + "/folder.txt", 4, 256, "is a folder");
  expectError(write("data.csv", "a,b,c,d,e,f"), 4, 256, ".txt");
  expectError(write("odd.bin", "abcdefghijklm"), 4, 256, "13 bytes, an odd");
  expectError(write("empty.txt", ""), 4, 256, "has 0 tokens");
  expectError(write("short.txt", "abcd"), 4, 256,
              "has 4 tokens; one sequence of 4 and its last target need 5");
  expectError(write("short.bin", "abcdefgh"), 4, 65536,
              "has 4 tokens; one sequence of 4 and its last target need 5");
  expectError(write("short.txt", "abcd"), INT64_MAX, 256, "has 4 tokens");
}

TEST_F(DatasetTest, NamesTheFirstTokenOutsideTheVocabulary) {
  std::string bytes(200000, 'a');
  bytes[150001] = 'c';
  bytes[150000] = 'b';
  std::string path = write("data.txt", bytes);
  EXPECT_TRUE(Dataset::open(path, 4, 'c' + 1).ok());
  expectError(path, 4, 'c', "token 99 at offset 150001 (byte 150001)");
  expectError(path, 4, 'b', "token 98 at offset 150000");
  expectError(path, 4, 'a', "token 97 at offset 0");
  // The last token is only a target, and is checked too.
  expectError(write("last.txt", "aaaab"), 4, 'b', "token 98 at offset 4");

  std::string wide("\x01\x00\x01\x01\x01\x00\x01\x00", 8);
  path = write("data.bin", wide);
  EXPECT_TRUE(Dataset::open(path, 2, 258).ok());
  expectError(path, 2, 257, "token 257 at offset 1 (byte 2)");
}

TEST_F(DatasetTest, HidesTokensByTheRule) {
  // docs/masked-tokens.md, token by token.
  constexpr int64_t sequence = 5, batch = 3, vocabulary = 102;
  constexpr uint64_t seed = 0x8123456789ABCDEF;
  std::string path = writeText(1000);
  MaskedObjective masked{101, 7};
  auto dataset = Dataset::open(path, sequence, vocabulary,
                               DataOrder::Sequential, seed, masked);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  int64_t counts[4] = {}, targetsOfPads = 0;
  auto check = [&](uint64_t step, int64_t position, int64_t window,
                   const int32_t *tokens, const int32_t *targets) {
    for (int64_t i = 0; i < sequence; ++i) {
      int32_t token = tokenAt(window * sequence + i);
      auto words = optimus_support::philoxBlock(seed, 0xFFFFFFFE, step,
                                                position * sequence + i);
      bool chosen = uint32_t(words[0]) < 644245094 && token != 7;
      EXPECT_EQ(targets[i], chosen ? token : -1);
      targetsOfPads += targets[i] == 7;
      double kind = double(words[0] >> 32) / 0x1p32;
      int32_t expected = token;
      if (chosen && kind < 0.8)
        expected = 101;
      else if (chosen && kind < 0.9)
        expected = (words[1] & 0xFFFFFFFF) * vocabulary >> 32;
      EXPECT_EQ(tokens[i], expected);
      ++counts[!chosen ? 0 : kind < 0.8 ? 1 : kind < 0.9 ? 2 : 3];
    }
  };
  int32_t tokens[batch * sequence], targets[batch * sequence];
  // Into the second epoch, where the same windows hide other tokens.
  for (int64_t step = 0; step < 130; ++step) {
    ASSERT_TRUE((*dataset)
                    ->fillBatch(step * batch, batch, 0, batch, tokens, targets)
                    .ok());
    for (int64_t row = 0; row < batch; ++row) {
      int64_t position = step * batch + row;
      check(1, position, position % (*dataset)->numWindows(),
            tokens + row * sequence, targets + row * sequence);
    }
  }
  // Four standard deviations of binomial counts.
  double n = 130 * batch * sequence;
  EXPECT_NEAR(n - counts[0], 0.15 * n, 4 * std::sqrt(n * 0.15 * 0.85) + 0.01 * n);
  EXPECT_NEAR(counts[1], 0.12 * n, 4 * std::sqrt(n * 0.12 * 0.88));
  EXPECT_GT(counts[2], 0);
  EXPECT_GT(counts[3], 0);
  EXPECT_EQ(targetsOfPads, 0);
  // Evaluation draws at step 0, for the window; padding rows are what they are.
  ASSERT_TRUE((*dataset)->fillEvalBatch(1, batch, 1, 2, tokens, targets).ok());
  check(0, 4, 4, tokens, targets);
  check(0, 5, 5, tokens + sequence, targets + sequence);
  ASSERT_TRUE((*dataset)->fillBatch(0, batch, 3, 1, tokens, targets).ok());
  EXPECT_EQ(std::vector<int32_t>(tokens, tokens + sequence),
            std::vector<int32_t>(sequence, 0));
  EXPECT_EQ(std::vector<int32_t>(targets, targets + sequence),
            std::vector<int32_t>(sequence, -1));
}

TEST_F(DatasetTest, BatchesFollowOneAnotherWhateverTheirSizes) {
  constexpr int64_t s = 4, count = 29; // 7 windows
  for (DataOrder order : {DataOrder::Sequential, DataOrder::Shuffled}) {
    auto dataset = Dataset::open(writeText(count), s, 256, order, /*seed=*/5);
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    std::vector<int32_t> whole(24 * s), targets(24 * s), tokens(24 * s);
    ASSERT_TRUE(
        (*dataset)->fillBatch(0, 24, 0, 24, whole.data(), targets.data()).ok());
    // 6 sequences a step, then 10, then 8: from where the last one ended.
    int64_t position = 0;
    for (int64_t batch : {6, 10, 8}) {
      ASSERT_TRUE((*dataset)
                      ->fillBatch(position, batch, 0, batch,
                                  tokens.data() + position * s, targets.data())
                      .ok());
      position += batch;
    }
    EXPECT_EQ(tokens, whole);
  }
}

TEST_F(DatasetTest, AFileThatShrinksOrChangesIsAFailureAndNoCrash) {
  constexpr int64_t s = 4;
  std::string path = writeText(100'000);
  auto dataset = Dataset::open(path, s, 101, DataOrder::Sequential);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  auto windowFrom = [&](int64_t window) {
    int32_t tokens[s], targets[s];
    return (*dataset)->fillBatch(window, 1, 0, 1, tokens, targets);
  };
  ASSERT_TRUE(windowFrom(24'000).ok());
  EXPECT_FALSE((*dataset)->wasWrittenTo());

  // Grown: what was there is there.
  std::ofstream(path, std::ios::app) << "abc";
  EXPECT_TRUE((*dataset)->wasWrittenTo());
  EXPECT_TRUE(windowFrom(24'000).ok());

  std::filesystem::resize_file(path, 5'000);
  EXPECT_TRUE(windowFrom(1'000).ok());
  Status status = windowFrom(24'000);
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_NE(status.message().find(path + " changed while it was read"),
            std::string::npos)
      << status.message();

  // A token that no table has a row for.
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "\x70";
  status = windowFrom(0);
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_NE(status.message().find("it has token 112 now"), std::string::npos)
      << status.message();
  EXPECT_TRUE(windowFrom(1).ok());
}
