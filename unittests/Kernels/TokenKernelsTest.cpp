//===- TokenKernelsTest.cpp - Embedding, head and loss ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTest.h"

#include "optimus-support/WeightBlocks.h"

#include <cmath>
#include <limits>

using namespace mlir::optimus;
using namespace mlir::optimus::kernel_test;

TEST_P(KernelTest, EmbeddingLooksUpAndAccumulates) {
  struct Numbers {
    size_t zero, add, zeroByRows, addByRows;
  };
  std::vector<Numbers> others;
  const int64_t tableRows = 11, first = 20, pad = 25;
  forSizes(
      [&](int64_t count, int64_t cols) {
        others.push_back(
            {kernels.add(EmbeddingGrad{count, tableRows, cols, true, pad},
                         {first}),
             kernels.add(EmbeddingGrad{count, tableRows, cols, false}, {first}),
             kernels.add(EmbeddingGrad{count, tableRows, cols, true, pad, true},
                         {first}),
             kernels.add(EmbeddingGrad{count, tableRows, cols, false,
                                       std::nullopt, true},
                         {first})});
        return kernels.add(Embedding{count, tableRows, cols}, {first});
      },
      [&, next = size_t(0)](size_t number, int64_t count,
                            int64_t cols) mutable {
        Floats table = random(tableRows * cols), dy = random(count * cols);
        Ints tokens(count);
        for (int64_t i = 0; i < count; ++i)
          tokens[i] = i % 7 == 3 ? -1 : 15 + (i * 5) % 25;
        Floats out = unset(count * cols);
        run(number, table, tokens, out);
        Floats zeroed = unset(tableRows * cols), added = table;
        Numbers other = others[next++];
        run(other.zero, dy, tokens, zeroed);
        run(other.add, dy, tokens, added);
        Floats zeroedByRows = unset(tableRows * cols), addedByRows = table;
        run(other.zeroByRows, dy, tokens, zeroedByRows);
        run(other.addByRows, dy, tokens, addedByRows);
        Floats wantZeroed(tableRows * cols, 0.0f), wantAdded = table;
        for (int64_t i = 0; i < count; ++i) {
          int64_t row = tokens[i] - first;
          bool inside = row >= 0 && row < tableRows;
          for (int64_t j = 0; j < cols; ++j) {
            EXPECT_EQ(out[i * cols + j], inside ? table[row * cols + j] : 0.0f);
            if (inside) {
              // In the order of the tokens: the same bits.
              if (tokens[i] != pad)
                wantZeroed[row * cols + j] += dy[i * cols + j];
              wantAdded[row * cols + j] += dy[i * cols + j];
            }
          }
        }
        EXPECT_EQ(zeroed, wantZeroed) << at(count, cols, 0);
        EXPECT_EQ(added, wantAdded) << at(count, cols, 0);
        EXPECT_EQ(zeroedByRows, wantZeroed) << at(count, cols, 0);
        EXPECT_EQ(addedByRows, wantAdded) << at(count, cols, 0);
      });
}

TEST_P(KernelTest, RowsAreAppendedAtTheirPositions) {
  const int64_t batch = 3, capacity = 6;
  for (int64_t seq : {1, 4})
    for (int64_t cols : {1, 16, 37})
      kernels.add(CacheAppend{batch, seq, capacity, cols});
  ASSERT_EQ(kernels.compile(), "");
  size_t number = 0;
  for (int64_t seq : {1, 4})
    for (int64_t cols : {1, 16, 37}) {
      Floats rows = random(batch * seq * cols),
             cache = random(batch * capacity * cols), expected = cache;
      // An empty slot, and what lies beyond the capacity.
      Ints positions = seq == 1 ? Ints{5, -1, 0}
                                : Ints{5, 0, 3, 2, -1, -1, -1, -1, 6, 1, -7, 4};
      for (int64_t row = 0; row < batch * seq; ++row)
        if (positions[row] >= 0 && positions[row] < capacity)
          std::copy_n(rows.begin() + row * cols, cols,
                      expected.begin() +
                          (row / seq * capacity + positions[row]) * cols);
      run(number++, rows, positions, cache);
      EXPECT_EQ(cache, expected) << seq << " " << cols;
    }
}

TEST_P(KernelTest, AChunkGoesToOneSlot) {
  const int64_t count = 5, slots = 2, capacity = 6, first = 3;
  // Rows may lie apart.
  constexpr int64_t kApart = 40;
  for (int64_t cols : {1, 37})
    kernels.add(SlotAppend{count, slots, capacity, cols, /*pages=*/std::nullopt,
                           /*stride=*/kApart},
                {first});
  ASSERT_EQ(kernels.compile(), "");
  size_t number = 0;
  for (int64_t cols : {1, 37}) {
    for (int32_t slot : {3, 4, 2, 5, 0, -1}) {
      Floats rows = random((count - 1) * kApart + cols),
             cache = random(slots * capacity * cols), expected = cache;
      // Padding, and what lies beyond the capacity.
      Ints positions = {2, 5, 0, -1, 6}, chosen = {slot};
      const int64_t own = slot - first;
      for (int64_t row = 0; row < count; ++row)
        if (own >= 0 && own < slots && positions[row] >= 0 &&
            positions[row] < capacity)
          std::copy_n(rows.begin() + row * kApart, cols,
                      expected.begin() +
                          (own * capacity + positions[row]) * cols);
      run(number, rows, positions, chosen, cache);
      EXPECT_EQ(cache, expected) << slot << " " << cols;
    }
    ++number;
  }
}

/// Sequences of two pages each have three of any, in a table whose entries
/// count from their own; what an entry beyond them has is dropped, and read as
/// zeros.
TEST_P(KernelTest, PagesOfACacheAreFoundByATable) {
  constexpr int64_t kPage = 64, sequences = 2, pages = 3, share = 2 * kPage;
  constexpr int64_t cols = 5, first = 3;
  kernels.add(CacheAppend{sequences, 2, share, cols, pages});
  kernels.add(SlotAppend{4, sequences, share, cols, pages}, {first});
  kernels.add(Take{sequences, pages * kPage, cols, true, share}, {first});
  ASSERT_EQ(kernels.compile(), "");
  Ints table = {3, 0, 4, -1, -2, -3};
  // Of a position of a sequence: in the pool, or none.
  auto rowOf = [&](int64_t sequence,
                   int64_t position) -> std::optional<int64_t> {
    const int64_t page =
        2 * sequence + table[sequence * pages + position / kPage];
    if (page < 0 || page >= 4)
      return std::nullopt;
    return page * kPage + position % kPage;
  };
  Floats rows = random(4 * cols), cache = random(sequences * share * cols),
         expected = cache;
  auto expect = [&](int64_t row, int64_t sequence, int64_t position) {
    if (std::optional<int64_t> to = rowOf(sequence, position))
      std::copy_n(rows.begin() + row * cols, cols,
                  expected.begin() + *to * cols);
  };
  Ints positions = {5, 70, 63, 191};
  for (int64_t row = 0; row != 4; ++row)
    expect(row, row / 2, positions[row]);
  run(0, rows, positions, table, cache);
  EXPECT_EQ(cache, expected);
  rows = random(4 * cols);
  Ints chunk = {130, 64, -1, 192}, chosen = {first + 1};
  for (int64_t row = 0; row != 2; ++row)
    expect(row, 1, chunk[row]);
  run(1, rows, chunk, table, chosen, cache);
  EXPECT_EQ(cache, expected);
  for (int32_t slot : {3, 4, 2, 5})
    for (int32_t length : {0, 65, 192}) {
      Floats found = random(pages * kPage * cols), whole(found.size(), 0.0f);
      const int64_t own = slot - first;
      for (int64_t at = 0; own >= 0 && own < sequences && at < length; ++at)
        if (std::optional<int64_t> from = rowOf(own, at))
          std::copy_n(cache.begin() + *from * cols, cols,
                      whole.begin() + at * cols);
      Ints index = {slot}, lengths = {length};
      run(2, cache, index, lengths, table, found);
      EXPECT_EQ(found, whole) << slot << " " << length;
    }
}

TEST_P(KernelTest, RowsOfBlocksAreLookedUp) {
  // Two panels.
  const int64_t rows = 69, cols = 64, first = 3;
  for (int64_t bits : {8, 4})
    kernels.add(EmbeddingOfBlocks{5, rows, cols, bits}, {first});
  ASSERT_EQ(kernels.compile(), "");
  size_t number = 0;
  for (auto blocks : {optimus_support::WeightBlocks::Int8,
                      optimus_support::WeightBlocks::Int4}) {
    const optimus_support::BlockLayout layout{blocks, cols, rows};
    Floats table = random(rows * cols), row(cols);
    // Scales of f16 without a leading one, and of no number.
    for (int64_t i = 0; i < 32; ++i) {
      table[2 * cols + i] *= 1e-4f;
      table[3 * cols + i] *= 1e-40f;
    }
    table[4 * cols + 40] = INFINITY;
    Ints words(*layout.words().get()), tokens = {7, 5, 2, 6, 71};
    writeBlocks(layout, table.data(), 1, cols, 0, rows, words.data());
    Floats found(tokens.size() * cols, 1.0f);
    run(number++, words, tokens, found);
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::fill(row.begin(), row.end(), 0.0f);
      if (tokens[i] >= first)
        readBlocks(layout, words.data(), tokens[i] - first, 0, cols,
                   row.data());
      for (int64_t j = 0; j < cols; ++j)
        EXPECT_TRUE(found[i * cols + j] == row[j] ||
                    (std::isnan(row[j]) && std::isnan(found[i * cols + j])))
            << tokens[i] << ", " << j;
    }
  }
}

TEST_P(KernelTest, OneEntryIsTaken) {
  const int64_t entries = 2, rows = 4, first = 3;
  for (int64_t cols : {1, 37})
    for (bool hasLength : {false, true})
      kernels.add(Take{entries, rows, cols, hasLength}, {first});
  ASSERT_EQ(kernels.compile(), "");
  size_t number = 0;
  for (int64_t cols : {1, 37})
    for (bool hasLength : {false, true}) {
      for (int32_t index : {3, 4, 2, 5, 0, -1})
        for (int32_t length : {0, 3, 4}) {
          Floats x = random(entries * rows * cols),
                 result = random(rows * cols), expected(rows * cols, 0.0f);
          const int64_t own = index - first;
          if (own >= 0 && own < entries)
            std::copy_n(x.begin() + own * rows * cols,
                        (hasLength ? length : rows) * cols, expected.begin());
          Ints chosen = {index}, lengths = {length};
          if (hasLength)
            run(number, x, chosen, lengths, result);
          else
            run(number, x, chosen, result);
          EXPECT_EQ(result, expected) << index << " " << length << " " << cols;
        }
      ++number;
    }
}

TEST_P(KernelTest, LogProbabilitiesAreThoseOfTheSoftmax) {
  const int64_t rows = 4;
  for (int64_t cols : {3, 77})
    kernels.add(LogProbabilities{rows, cols});
  ASSERT_EQ(kernels.compile(), "");
  size_t number = 0;
  for (int64_t cols : {3, 77}) {
    Floats logits = random(rows * cols), found(rows, 1.0f);
    // A vocabulary's padding, and large numbers.
    logits[cols - 1] = -INFINITY;
    for (int64_t i = cols; i < 2 * cols; ++i)
      logits[i] += 1e4f;
    Ints targets = {0, 2, -1, 1};
    run(number++, logits, targets, found);
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int64_t col = 0; col < cols; ++col)
        sum += std::exp(double(logits[row * cols + col]) - logits[row * cols]);
      const double expected = targets[row] < 0
                                  ? 0
                                  : double(logits[row * cols + targets[row]]) -
                                        logits[row * cols] - std::log(sum);
      EXPECT_NEAR(found[row], expected, 1e-5 * (1 + std::abs(expected)))
          << row << " of " << cols;
    }
  }
}

TEST_P(KernelTest, BestAreTheHighestAndTheFirstOfEqualOnes) {
  const int64_t rows = 4;
  const std::vector<std::pair<int64_t, int64_t>> sizes = {
      {3, 3}, {77, 5}, {200, 64}, {5000, 4}};
  for (auto [cols, count] : sizes)
    kernels.add(Best{rows, cols, count});
  ASSERT_EQ(kernels.compile(), "");
  size_t number = 0;
  for (auto [cols, count] : sizes) {
    Floats logits = random(rows * cols), found(rows * 2 * count, 7.0f);
    // Many equal ones, a vocabulary's padding, no number, and a row with one.
    for (int64_t i = 0; i < cols; ++i) {
      logits[i] = std::round(2 * logits[i]);
      logits[3 * cols + i] = i == 1 ? -3e38f : -INFINITY;
    }
    logits[cols - 1] = -INFINITY;
    logits[2 * cols + 2] = NAN;
    logits[2 * cols + 1] = INFINITY;
    run(number++, logits, found);
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<std::pair<float, int64_t>> order;
      for (int64_t col = 0; col < cols; ++col) {
        const float x = logits[row * cols + col];
        if (x != -INFINITY)
          order.emplace_back(std::isnan(x) ? -INFINITY : -x, col);
      }
      std::sort(order.begin(), order.end());
      order.resize(std::max<size_t>(order.size(), count), {INFINITY, -1});
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(found[row * 2 * count + i], -order[i].first)
            << i << " of row " << row << " of " << cols;
        EXPECT_EQ(found[row * 2 * count + count + i], float(order[i].second))
            << i << " of row " << row << " of " << cols;
      }
    }
  }
}

TEST_P(KernelTest, LengthsEndWithWhatIsNoPadding) {
  const int64_t rows = 4, cols = 5, pad = 3, real = 4;
  size_t plain = kernels.add(Lengths{rows, cols, pad}, {real});
  size_t masked = kernels.add(Lengths{rows, cols, pad, true}, {real});
  ASSERT_EQ(kernels.compile(), "");
  // The last column is padding of the mesh.
  Ints tokens = {7, 3, 7, 3, 7, 3, 3, 3, 3, 7, 3, 7, 3, 3, 7, 7, 3, 3, 7, 7};
  Ints targets(rows * cols, -1);
  targets[8] = targets[11] = targets[14] = 0;
  Ints found(rows, -1), foundMasked(rows, -1);
  run(plain, tokens, found);
  run(masked, tokens, targets, foundMasked);
  EXPECT_EQ(found, (Ints{3, 1, 2, 4}));
  EXPECT_EQ(foundMasked, (Ints{3, 4, 2, 4}));
}

namespace {
/// Columns of which the last quarter is padding.
int64_t chooseReal(int64_t cols) {
  return std::max<int64_t>(1, cols - cols / 4);
}
/// Of entries [first, first + real), and one in five of none.
Ints spreadTargets(int64_t rows, int64_t first, int64_t real) {
  Ints targets(rows);
  for (int64_t i = 0; i < rows; ++i)
    targets[i] = i % 5 == 4 ? -1 : first + (i * 13) % real;
  return targets;
}
} // namespace

TEST_P(KernelTest, HeadLossInPartsAndWhole) {
  struct Numbers {
    size_t max, exp, fused, loss, grad, fusedGrad;
    int64_t real;
  };
  std::vector<Numbers> all;
  const int64_t first = 3;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        int64_t real = chooseReal(cols);
        all.push_back(
            {kernels.add(RowMax{rows, cols}, {real}),
             kernels.add(ExpSum{rows, cols}, {first, real}),
             kernels.add(SoftmaxSums{rows, cols}, {first, real}),
             kernels.add(TokenLoss{rows}),
             kernels.add(LogitsGrad{rows, cols}, {first}),
             kernels.add(SoftmaxSums{rows, cols, /*grad=*/true}, {first, real}),
             real});
        return all.size() - 1;
      },
      [&](size_t number, int64_t rows, int64_t cols) {
        const Numbers &n = all[number];
        Floats logits = random(rows * cols, 0, 10), max = unset(rows);
        Ints targets = spreadTargets(rows, first, n.real);
        Floats exps = logits, sums = unset(rows * 2);
        run(n.max, logits, max);
        run(n.exp, exps, max, targets, sums);
        Floats exps2 = logits, sums2 = unset(rows * 2);
        run(n.fused, exps2, targets, sums2);
        EXPECT_EQ(exps, exps2);
        EXPECT_EQ(sums, sums2);
        Floats losses = unset(rows), grads = exps;
        run(n.loss, sums, targets, losses);
        run(n.grad, grads, sums, targets);
        Floats grads2 = logits;
        run(n.fusedGrad, grads2, targets, sums2);
        EXPECT_EQ(grads, grads2);
        EXPECT_EQ(sums, sums2);
        for (int64_t i = 0; i < rows; ++i) {
          const float *row = &logits[i * cols];
          double top = *std::max_element(row, row + n.real), total = 0;
          EXPECT_EQ(max[i], float(top));
          for (int64_t j = 0; j < n.real; ++j)
            total += std::exp(row[j] - top);
          // x − max is rounded once, and with it the exponential off by that
          // times |x − max|, at most 100 here.
          expectNear(sums[2 * i], total, n.real + 110, total,
                     at(rows, cols, i));
          bool isReal = targets[i] >= 0;
          double loss =
              isReal ? std::log(total) + top - row[targets[i] - first] : 0;
          expectNear(losses[i], loss, n.real + 110, 100, at(rows, cols, i));
          for (int64_t j = 0; j < cols; ++j) {
            size_t e = i * cols + j;
            double p = j < n.real ? std::exp(row[j] - top) / total : 0;
            double hot = isReal && targets[i] - first == j ? 1 : 0;
            expectNear(grads[e], isReal ? p - hot : 0, n.real + 220,
                       p + hot + 1e-30, at(rows, cols, e));
          }
        }
      });
}

TEST_P(KernelTest, ARankWithoutRealColumnsAddsNothing) {
  size_t max = kernels.add(RowMax{2, 20}, {0});
  size_t exp = kernels.add(ExpSum{2, 20}, {40, 0});
  ASSERT_EQ(kernels.compile(), "");
  Floats logits = random(40), top = unset(2), sums = unset(4);
  Ints targets = {41, 5};
  run(max, logits, top);
  EXPECT_EQ(top[0], std::numeric_limits<float>::lowest());
  Floats global = {2.0f, 3.0f};
  run(exp, logits, global, targets, sums);
  EXPECT_EQ(sums, Floats(4, 0.0f));
  EXPECT_EQ(logits, Floats(40, 0.0f));
}

TEST_P(KernelTest, PaddingOfLogitsIsNeverLikely) {
  struct Numbers {
    size_t pad;
    int64_t real;
  };
  std::vector<Numbers> all;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        int64_t real = chooseReal(cols);
        all.push_back({kernels.add(PadLogits{rows, cols}, {real}), real});
        return all.size() - 1;
      },
      [&](size_t number, int64_t rows, int64_t cols) {
        Floats given = random(rows * cols), logits = given;
        run(all[number].pad, logits);
        for (int64_t i = 0; i < rows * cols; ++i)
          EXPECT_EQ(logits[i], i % cols < all[number].real
                                   ? given[i]
                                   : -std::numeric_limits<float>::infinity())
              << i;
      });
}

TEST_P(KernelTest, NotANumberReachesTheLoss) {
  size_t fused = kernels.add(SoftmaxSums{1, 20}, {0, 20});
  size_t loss = kernels.add(TokenLoss{1});
  ASSERT_EQ(kernels.compile(), "");
  Floats logits = random(20), sums = unset(2), losses(1, 0.0f);
  logits[6] = std::numeric_limits<float>::quiet_NaN();
  Ints targets = {1};
  run(fused, logits, targets, sums);
  run(loss, sums, targets, losses);
  EXPECT_TRUE(std::isnan(losses[0]));
}
