//===- data.cpp - The cost of comparing the ranks' reads ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// optimus-bench-data FILE SEQUENCE ROWS prints microseconds of a batch of ROWS
// windows: reading it, hashing it besides, and hashing another process's rows.
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Dataset.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace optrt;

/// The median of rounds of 200 batches.
template <typename Batch>
static double microseconds(Batch batch) {
  constexpr int kRounds = 21, kBatches = 200;
  std::vector<double> rounds;
  for (int round = 0; round != kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t k = 0; k != kBatches; ++k)
      if (Status status = batch(k); !status.ok()) {
        std::fprintf(stderr, "%s\n", status.message().c_str());
        std::exit(1);
      }
    const std::chrono::duration<double, std::micro> took =
        std::chrono::steady_clock::now() - begin;
    rounds.push_back(took.count() / kBatches);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: optimus-bench-data FILE SEQUENCE ROWS\n");
    return 1;
  }
  const int64_t sequence = std::atoll(argv[2]), rows = std::atoll(argv[3]);
  auto opened = Dataset::open(argv[1], sequence, /*vocabulary=*/65536);
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", opened.status().message().c_str());
    return 1;
  }
  const Dataset &data = **opened;
  std::vector<int32_t> tokens(rows * sequence), targets(rows * sequence);
  std::vector<uint64_t> hashes(rows);
  std::vector<int64_t> windows(rows);
  auto fill = [&](uint64_t *to) {
    return microseconds([&, to](int64_t k) {
      return data.fillBatch(k * rows, rows, 0, rows, tokens.data(),
                            targets.data(), to);
    });
  };
  const double plain = fill(nullptr), hashed = fill(hashes.data());
  const double witness = microseconds([&](int64_t k) {
    for (int64_t row = 0; row != rows; ++row)
      windows[row] = data.windowOfRow(k * rows, rows, row);
    return data.hashWindows(windows, hashes.data());
  });
  std::printf("read %.1f us, with hashes %.1f us, as a witness %.1f us\n",
              plain, hashed, witness);
}
