//===- DatasetTest.cpp - Windows of tokens, and their order ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DatasetFixture.h"
#include "optimus-support/Hash.h"
#include "optimus-support/Permutation.h"
#include "optimus-support/Philox.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

using namespace optrt;

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

TEST_F(DatasetTest, IdentityIsOfTheTokens) {
  auto identityOf = [&](const std::string &name, const std::string &bytes) {
    auto dataset = openBin(write(name, bytes), 256);
    EXPECT_TRUE(dataset.ok()) << dataset.status().message();
    return (*dataset)->identity();
  };
  const DataIdentity small = identityOf("a.txt", "abcdefgh");
  EXPECT_EQ(small, identityOf("b.txt", "abcdefgh"));
  EXPECT_EQ(small.contents, optimus_support::hash64("abcdefgh"));
  EXPECT_FALSE(small.agreesWith(identityOf("c.txt", "abcdefgi")));
  EXPECT_FALSE(small.agreesWith(identityOf("d.txt", "abcdefghi")));
  // The same bytes, and other tokens.
  EXPECT_FALSE(identityOf("e.txt", std::string(18, 'a'))
                   .agreesWith(identityOf("e.bin", std::string(18, '\0'))));
}

TEST_F(DatasetTest, ManyTokensAreSampledAndThenHashedInTheBackground) {
  std::string bytes(3'000'000, 'a');
  for (size_t i = 0; i != bytes.size(); ++i)
    bytes[i] = char('a' + i * 7 % 23);
  auto open = [&](const std::string &name) {
    auto dataset = openBin(write(name, bytes), 256);
    EXPECT_TRUE(dataset.ok()) << dataset.status().message();
    return std::move(*dataset);
  };
  auto dataset = open("a.txt");
  const DataIdentity sampled = dataset->identity();
  EXPECT_FALSE(sampled.contents);
  auto finished = [](Dataset &dataset) {
    EXPECT_TRUE(dataset.hashInBackground().ok());
    for (int i = 0; i != 3000 && !dataset.identity().contents; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return dataset.identity();
  };
  const DataIdentity whole = finished(*dataset);
  EXPECT_EQ(whole.contents, optimus_support::hash64(bytes));
  EXPECT_TRUE(whole.agreesWith(sampled));

  // Between two pieces of the sample only the whole sees a difference.
  bytes[20'000] ^= 1;
  auto other = open("b.txt");
  EXPECT_TRUE(whole.agreesWith(other->identity()));
  EXPECT_FALSE(whole.agreesWith(finished(*other)));
  for (size_t at : {size_t(0), size_t(16383), bytes.size() - 1,
                    31 * (bytes.size() - 16384) / 63 + 5}) {
    bytes[at] ^= 1;
    EXPECT_FALSE(sampled.agreesWith(open("c.txt")->identity())) << at;
    bytes[at] ^= 1;
  }
  // One that is closed meanwhile waits for nobody.
  EXPECT_TRUE(open("d.txt")->hashInBackground().ok());
}

TEST_F(DatasetTest, HashesOfRowsAreThoseOfTheirWindows) {
  constexpr int64_t s = 4, b = 3;
  const std::string bytes = "abcdefghijklmnopqrstuvwxyz"; // 6 windows
  auto dataset = Dataset::open(write("data.txt", bytes), s, 256);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  std::vector<int32_t> tokens(4 * s), targets(4 * s);
  std::vector<uint64_t> hashes(4), again(4);
  std::vector<int64_t> windows;
  for (int64_t position : {int64_t(0), int64_t(5)}) {
    ASSERT_TRUE((*dataset)
                    ->fillBatch(position, b, 0, 4, tokens.data(),
                                targets.data(), hashes.data())
                    .ok());
    windows.clear();
    for (int64_t row = 0; row != 4; ++row) {
      windows.push_back((*dataset)->windowOfRow(position, b, row));
      EXPECT_EQ(hashes[row], row < b ? optimus_support::hash64(bytes.substr(
                                           windows[row] * s, s + 1))
                                     : 0);
    }
    EXPECT_EQ(windows[3], Dataset::kPadding);
    ASSERT_TRUE((*dataset)->hashWindows(windows, again.data()).ok());
    EXPECT_EQ(again, hashes);
  }
  ASSERT_TRUE((*dataset)
                  ->fillEvalBatch(1, 4, 0, 4, tokens.data(), targets.data(),
                                  hashes.data())
                  .ok());
  windows.clear();
  for (int64_t row = 0; row != 4; ++row)
    windows.push_back((*dataset)->windowOfEvalRow(1, 4, row));
  EXPECT_EQ(windows, (std::vector<int64_t>{4, 5, -1, -1}));
  ASSERT_TRUE((*dataset)->hashWindows(windows, again.data()).ok());
  EXPECT_EQ(again, hashes);
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

TEST_F(DatasetTest, MixturesHaveTheirSharesInEveryBlock) {
  const int64_t s = 4;
  const std::string a = write("a.txt", std::string(41, 'a')),
                    b = write("b.txt", std::string(17, 'b'));
  const std::string mixed = a + "=0.7," + b + "=0.3";
  auto dataset = Dataset::open(mixed, s, 256, DataOrder::Shuffled, 5);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  const Dataset &data = **dataset;
  EXPECT_EQ(data.numTokens(), 58);
  EXPECT_EQ(data.numWindows(), 10 + 4);
  int64_t firsts = 0;
  // Four epochs of b, and three of a less a window.
  std::vector<int64_t> times(14);
  for (int64_t block = 0; block != 4; ++block) {
    std::vector<int32_t> tokens(10 * s), targets(10 * s);
    ASSERT_TRUE(
        data.fillBatch(10 * block, 10, 0, 10, tokens.data(), targets.data())
            .ok());
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 'a'), 7 * s);
    EXPECT_EQ(std::count(targets.begin(), targets.end(), 'b'), 3 * s);
    firsts += tokens.front() == 'a';
    for (int64_t row = 0; row != 10; ++row)
      ++times[data.windowAt(10 * block + row)];
  }
  EXPECT_NE(firsts, 0);
  EXPECT_NE(firsts, 4);
  // Parts have epochs of their own.
  for (int64_t window = 0; window != 14; ++window)
    EXPECT_NEAR(times[window], window < 10 ? 2.8 : 3, 0.9) << window;
  // Ranks and resumed runs ask for any position.
  std::vector<int32_t> row(s), targets(s);
  ASSERT_TRUE(data.fillBatch(0, 40, 17, 1, row.data(), targets.data()).ok());
  EXPECT_EQ(row[0] == 'a', data.windowAt(17) < 10);
  EXPECT_EQ(data.describeWindow(11), "window 1 (tokens 4 to 8) of " + b);

  auto other = Dataset::open(mixed, s, 256, DataOrder::Shuffled, 6);
  auto inTurn = Dataset::open(mixed, s, 256, DataOrder::Sequential);
  auto shares = Dataset::open(a + "=7," + b + "=4", s, 256);
  ASSERT_TRUE(other.ok() && inTurn.ok() && shares.ok());
  bool differs = false;
  for (int64_t position = 0; position != 40; ++position) {
    differs |= (*other)->windowAt(position) != data.windowAt(position);
    const int64_t element = position % 10;
    EXPECT_EQ((*inTurn)->windowAt(position),
              element < 7 ? (position / 10 * 7 + element) % 10
                          : 10 + (position / 10 * 3 + element - 7) % 4);
  }
  EXPECT_TRUE(differs);
  EXPECT_EQ(data.identity(), (*other)->identity());
  EXPECT_FALSE(data.identity().agreesWith((*shares)->identity()));
}

TEST_F(DatasetTest, MixturesThatAreNone) {
  const std::string a = write("a.txt", std::string(41, 'a'));
  const std::string wide = write("wide.bin", std::string(40, '\0'));
  expectError(a + "=0.7,b", 4, 256,
              "expected PATH=WEIGHT with a weight such as "
              "0.7 (up to 6 decimals), found 'b'");
  for (const char *weight : {"", "-1", "0", "1e3", "0.0000001", ".", "inf"})
    expectError(a + "=" + weight, 4, 256, concat("found '", a, "=", weight));
  expectError(a + "=1," + a + "=2", 4, 256, "has two weights; add them up");
  expectError(a + "=0.000001," + wide + "=999", 4, 256,
              "exact in blocks of 999000001 sequences");
  expectError(a + "=1," + wide + "=2", 4, 256,
              "has tokens of type u8, and " + wide + " u16; a mixture has one");
  // A file's own name comes first.
  EXPECT_TRUE(
      Dataset::open(write("a=1.txt", std::string(41, 'a')), 4, 256).ok());
}
