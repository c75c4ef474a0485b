//===- AttentionTest.cpp - Attention against plain loops -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionReference.h"
#include "MaxThreads.h"
#include "optimus-support/CachePages.h"
#include "optimus-support/DeviceScratch.h"

#include <cstring>
#include <numeric>
#include <random>

using namespace attention_test;

namespace {

/// Each instruction set that the processor has, on sequences and head sizes
/// with and without remainders.
TEST(Attention, EveryInstructionSet) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (int set = 0; set < count; ++set)
    for (int64_t seq : {1, 3, 16, 63, 64, 65, 100, 130, 200})
      for (int64_t dim : {1, 8, 12, 20, 33, 64, 80, 128})
        for (bool causal : {false, true}) {
          Case x = makeCase(1, seq, 2, dim, causal);
          ASSERT_NO_FATAL_FAILURE(expectAll(x, runKernels(*sets[set], x)))
              << sets[set]->name << " seq " << seq << " dim " << dim
              << " causal " << causal;
        }
}

/// Heads of queries that share keys and values, in one tensor and in three.
TEST(Attention, SharedKeysAndValues) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (bool sideBySide : {true, false})
    for (int64_t kvHeads : {1, 2, 3, 6})
      for (bool causal : {false, true}) {
        Case x = makeCase(2, 70, 6, 20, causal, kvHeads, sideBySide);
        for (int set = 0; set < count; ++set)
          ASSERT_NO_FATAL_FAILURE(expectAll(x, runKernels(*sets[set], x)))
              << sets[set]->name << " kv heads " << kvHeads;
        for (int threads = 1; threads <= maxThreads; ++threads) {
          CpuDevice device(threads);
          ASSERT_NO_FATAL_FAILURE(expectAll(x, runDevice(device, x)))
              << "kv heads " << kvHeads << " threads " << threads;
        }
      }
}

/// Keys end where the padding of a sequence begins, within a block, at its end
/// or after the first one.
TEST(Attention, PaddedKeysAreNotSeen) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (int64_t kvHeads : {2, 4})
    for (bool causal : {false, true}) {
      Case x = makeCase(7, 150, 4, 20, causal, kvHeads);
      x.lengths = {1, 17, 64, 65, 128, 149, 150};
      for (int set = 0; set < count; ++set)
        ASSERT_NO_FATAL_FAILURE(expectAll(x, runKernels(*sets[set], x)))
            << sets[set]->name << " causal " << causal;
      for (int threads = 1; threads <= maxThreads; ++threads) {
        CpuDevice device(threads);
        Result r = runDevice(device, x);
        ASSERT_NO_FATAL_FAILURE(expectAll(x, r)) << threads << " threads";
        // Not even as zeros times something: no bit depends on them.
        Case other = x;
        for (int64_t b = 0; b < x.desc.batch; ++b)
          for (int64_t t = x.length(b); t < x.desc.seq; ++t)
            for (int part : {1, 2})
              std::fill_n(other.inputs.begin() + x.begin(part) +
                              (b * x.desc.seq + t) * x.desc.kv_ld,
                          x.kvHidden(), 1e30f);
        Result s = runDevice(device, other);
        EXPECT_EQ(r.out, s.out);
        EXPECT_EQ(r.grads, s.grads);
      }
    }
}

/// Positions of documents of these lengths, one after the other.
std::vector<int32_t> documents(std::vector<int32_t> lengths) {
  std::vector<int32_t> positions;
  for (int32_t length : lengths)
    for (int32_t i = 0; i < length; ++i)
      positions.push_back(i);
  return positions;
}

Case withPositions(Case x, const std::vector<std::vector<int32_t>> &sequences) {
  x.desc.has_positions = 1;
  for (const std::vector<int32_t> &lengths : sequences)
    for (int32_t position : documents(lengths))
      x.positions.push_back(position);
  return x;
}

/// Documents that begin within a block, with one, and after several; one token
/// long, and longer than a block.
TEST(Attention, DocumentsAreApart) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (bool isPadded : {false, true})
    for (int64_t kvHeads : {2, 4}) {
      Case x = withPositions(
          makeCase(4, 150, 4, 20, true, kvHeads),
          {{150}, {1, 1, 62, 64, 22}, {10, 100, 40}, {140, 1, 1, 1, 7}});
      // Documents that are padding see nothing.
      if (isPadded)
        x.lengths = {150, 64, 110, 1};
      for (int set = 0; set < count; ++set)
        ASSERT_NO_FATAL_FAILURE(expectAll(x, runKernels(*sets[set], x)))
            << sets[set]->name;
      for (int threads = 1; threads <= maxThreads; ++threads) {
        CpuDevice device(threads);
        Result r = runDevice(device, x);
        ASSERT_NO_FATAL_FAILURE(expectAll(x, r)) << threads << " threads";
      }
    }
}

/// A document's bits are those that it has alone.
TEST(Attention, NoBitDependsOnOtherDocuments) {
  Case x = withPositions(makeCase(1, 150, 2, 20, true), {{70, 80}});
  CpuDevice device(1);
  Result r = runDevice(device, x);
  Case other = x;
  for (int part : {0, 1, 2})
    for (int64_t t = 0; t < 70; ++t)
      std::fill_n(other.inputs.begin() + x.begin(part) + t * x.desc.kv_ld,
                  x.hidden(), 1e30f);
  Result s = runDevice(device, other);
  const int64_t width = x.hidden();
  EXPECT_TRUE(std::equal(r.out.begin() + 70 * width, r.out.end(),
                         s.out.begin() + 70 * width));
  EXPECT_TRUE(std::equal(r.grads.begin() + 70 * x.desc.q_ld, r.grads.end(),
                         s.grads.begin() + 70 * x.desc.q_ld));
}

/// A window that is one document is one without positions.
TEST(Attention, OneDocumentIsNone) {
  Case x = makeCase(2, 150, 2, 20, true);
  CpuDevice device(1);
  Result expected = runDevice(device, x);
  Result r = runDevice(device, withPositions(x, {{150}, {150}}));
  EXPECT_EQ(r.out, expected.out);
  EXPECT_EQ(r.lse, expected.lse);
  EXPECT_EQ(r.grads, expected.grads);
}

/// Where scores are so large that lse is too coarse.
TEST(Attention, DocumentsWithLargeScoresAreApart) {
  Case x = withPositions(makeCase(1, 150, 1, 8, true), {{70, 80}}), y = x;
  for (float &value : x.inputs)
    value *= 100;
  CpuDevice device(1);
  Result r = runDevice(device, x);
  // Each document alone.
  for (auto [begin, length] : {std::pair<int64_t, int64_t>(0, 70), {70, 80}}) {
    Case alone = makeCase(1, length, 1, 8, true);
    std::copy_n(x.inputs.begin() + begin * x.desc.q_ld, alone.inputs.size(),
                alone.inputs.begin());
    std::copy_n(x.dout.begin() + begin * x.hidden(), alone.dout.size(),
                alone.dout.begin());
    Result s = runDevice(device, alone);
    for (size_t i = 0; i < s.grads.size(); ++i) {
      const float found = r.grads[begin * x.desc.q_ld + i];
      ASSERT_NEAR(found, s.grads[i], 1e-4 * (1 + std::abs(s.grads[i]))) << i;
    }
  }
}

Case withWindow(Case x, int64_t window) {
  x.desc.window = window;
  return x;
}

/// Windows end within a block, with one, and after several. Sequences are one
/// document, several, or end with padding.
TEST(Attention, WindowsEnd) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (int64_t window : {1, 5, 64, 65, 100, 199})
    for (int kind : {0, 1, 2}) {
      Case x = withWindow(makeCase(2, 200, 4, 20, true, 2), window);
      if (kind != 0)
        x = withPositions(x, {{200}, {70, 1, 129}});
      // Rows of padding see the last keys that there are, and then none.
      if (kind == 2)
        x.lengths = {150, 64};
      for (int set = 0; set < count; ++set)
        ASSERT_NO_FATAL_FAILURE(expectAll(x, runKernels(*sets[set], x)))
            << sets[set]->name << " window " << window << " kind " << kind;
      for (int threads = 1; threads <= maxThreads; ++threads) {
        CpuDevice device(threads);
        Result r = runDevice(device, x);
        ASSERT_NO_FATAL_FAILURE(expectAll(x, r))
            << threads << " threads, window " << window << " kind " << kind;
      }
    }
}

TEST(Attention, AWindowOfAllTokensIsNone) {
  Case x = makeCase(2, 150, 2, 20, true);
  CpuDevice device(1);
  Result expected = runDevice(device, x);
  for (int64_t window : {150, 1000}) {
    Result r = runDevice(device, withWindow(x, window));
    EXPECT_EQ(r.out, expected.out);
    EXPECT_EQ(r.lse, expected.lse);
    EXPECT_EQ(r.grads, expected.grads);
  }
}

/// What lies before a window does not matter.
TEST(Attention, NoBitDependsOnWhatIsBeforeAWindow) {
  Case x = withWindow(makeCase(1, 150, 2, 20, true), 30), other = x;
  for (int part : {1, 2})
    for (int64_t t = 0; t < 70; ++t)
      std::fill_n(other.inputs.begin() + x.begin(part) + t * x.desc.kv_ld,
                  x.hidden(), 1e30f);
  CpuDevice device(1);
  Result r = runDevice(device, x), s = runDevice(device, other);
  // Tokens from 70 + 30 - 1 on.
  EXPECT_TRUE(std::equal(r.out.begin() + 99 * x.hidden(), r.out.end(),
                         s.out.begin() + 99 * x.hidden()));
  EXPECT_FALSE(std::equal(r.out.begin() + 98 * x.hidden(), r.out.end(),
                          s.out.begin() + 98 * x.hidden()));
}

/// Attention of caches of 150 keys: those of `x`, one sequence, in each slot,
/// of which `filled` count; what lies behind is infinite. Each slot has the
/// queries at its positions.
Result attendCached(CpuDevice &device, const Case &x,
                    const std::vector<int32_t> &filled,
                    const std::vector<std::vector<int32_t>> &positions) {
  const auto slots = int64_t(positions.size()),
             queries = int64_t(positions.front().size()),
             width = x.desc.kv_heads * x.desc.head_dim;
  optrt_attention_desc desc = x.desc;
  desc.batch = slots;
  desc.seq = queries;
  desc.q_ld = x.hidden();
  desc.kv_ld = width;
  desc.has_lengths = desc.has_positions = 1;
  desc.capacity = x.desc.seq;
  std::vector<float> q, keys[2];
  std::vector<int32_t> places;
  for (int64_t slot = 0; slot < slots; ++slot) {
    for (int32_t position : positions[size_t(slot)]) {
      places.push_back(position);
      auto row =
          x.inputs.begin() + x.begin(0) + std::max(position, 0) * x.desc.q_ld;
      q.insert(q.end(), row, row + x.hidden());
    }
    for (int part : {1, 2})
      for (int64_t t = 0; t < x.desc.seq; ++t) {
        auto row = x.inputs.begin() + x.begin(part) + t * x.desc.kv_ld;
        std::vector<float> key(row, row + width);
        if (t >= filled[size_t(slot)])
          key.assign(key.size(), std::numeric_limits<float>::infinity());
        keys[part - 1].insert(keys[part - 1].end(), key.begin(), key.end());
      }
  }
  Result r = {std::vector<float>(q.size(), NAN),
              std::vector<float>(size_t(slots * queries * x.desc.heads), NAN),
              {}};
  Status status = device.attention(
      kCompute, desc,
      {q.data(), keys[0].data(), keys[1].data(), filled.data(), r.out.data(),
       r.lse.data(), /*workspace=*/nullptr, /*dout=*/nullptr, /*dq=*/nullptr,
       /*dk=*/nullptr, /*dv=*/nullptr, places.data()});
  EXPECT_TRUE(status.ok()) << status.toString();
  return r;
}

/// Queries of a cache have what they have in a whole sequence, wherever they
/// begin; those of empty slots have zeros. One query a slot is computed apart.
TEST(Attention, CachesAreSequences) {
  struct Slots {
    std::vector<int32_t> filled;
    std::vector<std::vector<int32_t>> positions;
  };
  // Chunks of prompts: two begin with a block of keys, one within, with
  // padding.
  Slots chunks = {{150, 86, 80}, std::vector(3, std::vector<int32_t>(86, -1))};
  std::iota(chunks.positions[0].begin(), chunks.positions[0].end(), 64);
  std::iota(chunks.positions[1].begin(), chunks.positions[1].end(), 0);
  std::iota(chunks.positions[2].begin(), chunks.positions[2].begin() + 70, 10);
  const Slots all[] = {
      {{150, 0, 71}, {{63, 64, 149}, {-1, -1, -1}, {5, 0, 70}}},
      {{150, 0, 71, 33, 1}, {{149}, {-1}, {70}, {32}, {0}}},
      chunks};
  for (int64_t window : {0, 30})
    for (int64_t headDim : {20, 64})
      for (int threads = 1; threads <= maxThreads; ++threads) {
        Case x = withWindow(makeCase(1, 150, 4, headDim, true, 2), window);
        CpuDevice device(threads);
        Result whole = runDevice(device, x);
        for (const auto &[filled, positions] : all) {
          Result r = attendCached(device, x, filled, positions);
          const size_t queries = positions[0].size();
          for (size_t slot = 0; slot < positions.size(); ++slot)
            for (size_t i = 0; i < queries; ++i) {
              const int32_t position = positions[slot][i];
              for (int64_t c = 0; c < x.hidden(); ++c) {
                const float found =
                    r.out[(slot * queries + i) * size_t(x.hidden()) +
                          size_t(c)];
                const float expected =
                    position < 0 ? 0 : whole.out[position * x.hidden() + c];
                // Twice the bound on out: values are below 1.5, scores below
                // 50.
                ASSERT_NEAR(found, expected, 2 * 1.5 * (2 * 150 + 500) * u)
                    << slot << " " << position << " " << c;
              }
              for (int64_t n = 0; n < 4; ++n)
                ASSERT_NEAR(r.lse[(slot * 4 + size_t(n)) * queries + i],
                            position < 0 ? 0 : whole.lse[n * 150 + position],
                            2 * (150 + 500) * u);
            }
        }
      }
}

/// In pages keys are those of their positions, to the bit; an entry beyond the
/// pool is its nearest page. Of f32 and bf16, which are the same words here.
TEST(Attention, PagesAreCaches) {
  constexpr int64_t kPage = optimus_support::kPageTokens, slots = 2;
  std::minstd_rand random(5);
  std::uniform_real_distribution<float> values(-1, 1);
  auto draw = [&](size_t count) {
    std::vector<uint16_t> words(2 * count);
    for (size_t i = 0; i != count; ++i) {
      const float value = values(random);
      std::memcpy(&words[2 * i], &value, sizeof value);
      // Either half is a number of bf16.
      words[2 * i] = words[2 * i + 1];
    }
    return words;
  };
  for (int32_t type : {OPTRT_F32, OPTRT_BF16})
    for (int64_t window : {0, 30})
      for (int64_t headDim : {20, 64}) {
        optrt_attention_desc desc = {};
        desc.batch = slots;
        desc.seq = 1;
        desc.heads = 4;
        desc.kv_heads = 2;
        desc.head_dim = headDim;
        desc.q_ld = 4 * headDim;
        desc.kv_ld = 2 * headDim;
        desc.causal = desc.has_lengths = desc.has_positions = 1;
        desc.type = type;
        desc.window = window;
        desc.capacity = 2 * kPage;
        const size_t size =
            size_t(kPage * desc.kv_ld * (type == OPTRT_F32 ? 2 : 1));
        const std::vector<uint16_t> q = draw(size_t(slots * desc.q_ld));
        const std::vector<uint16_t> pools[] = {draw(2 * size), draw(2 * size)};
        std::vector<uint16_t> caches[2];
        for (int part : {0, 1})
          for (size_t page : {3, 0, 1, 3})
            caches[part].insert(caches[part].end(),
                                pools[part].begin() + page * size,
                                pools[part].begin() + (page + 1) * size);
        const int32_t positions[] = {100, 70}, lengths[] = {101, 71},
                      pages[] = {3, 0, -1, 99};
        std::vector<uint16_t> out[2];
        std::vector<float> lse[2];
        for (int i : {0, 1}) {
          out[i].assign(q.size(), 1);
          lse[i].assign(size_t(slots * desc.heads), NAN);
          desc.pool = i == 0 ? 0 : 4;
          const std::vector<uint16_t> *keys = i == 0 ? caches : pools;
          CpuDevice device(2);
          const Status status = device.attention(kCompute, desc,
                                                 {.q = q.data(),
                                                  .k = keys[0].data(),
                                                  .v = keys[1].data(),
                                                  .lengths = lengths,
                                                  .out = out[i].data(),
                                                  .lse = lse[i].data(),
                                                  .workspace = nullptr,
                                                  .positions = positions,
                                                  .pages = pages});
          ASSERT_TRUE(status.ok()) << status.toString();
        }
        EXPECT_EQ(out[1], out[0]) << type << " " << window << " " << headDim;
        EXPECT_EQ(lse[1], lse[0]);
      }
}

/// Neither other slots nor other queries matter to a query.
TEST(Attention, NoBitDependsOnOtherSlots) {
  Case x = makeCase(1, 150, 2, 20, true);
  CpuDevice device(1);
  Result r = attendCached(device, x, {150, 20}, {{100}, {19}});
  Result s = attendCached(device, x, {101, 0}, {{100}, {-1}});
  EXPECT_TRUE(
      std::equal(r.out.begin(), r.out.begin() + x.hidden(), s.out.begin()));
  EXPECT_EQ(std::vector<float>(r.lse.begin(), r.lse.begin() + 2),
            std::vector<float>(s.lse.begin(), s.lse.begin() + 2));
}

TEST(Attention, PositionsAreClamped) {
  Case x = withPositions(makeCase(1, 6, 2, 8, true), {{3, 3}}), y = x;
  x.positions = {-1, 5, 7, -9, 1, 2};
  y.positions = {0, 1, 2, 0, 1, 2};
  CpuDevice device(1);
  EXPECT_EQ(runDevice(device, x).out, runDevice(device, y).out);
}

TEST(Attention, LengthsAreClamped) {
  Case x = makeCase(3, 20, 2, 8, false), y = x;
  x.lengths = {0, -5, 21};
  y.lengths = {1, 1, 20};
  CpuDevice device(1);
  EXPECT_EQ(runDevice(device, x).out, runDevice(device, y).out);
}

/// Rows whose distance is a multiple of a page are copied before use.
TEST(Attention, RowsAPageApart) {
  Case x = makeCase(1, 96, 16, 64, true);
  CpuDevice device(1);
  expectAll(x, runDevice(device, x));
}

TEST(Attention, DeviceCoversEveryHeadOnAnyThreads) {
  for (bool causal : {false, true}) {
    Case x = makeCase(3, 77, 3, 24, causal);
    CpuDevice one(1);
    Result expected = runDevice(one, x);
    ASSERT_NO_FATAL_FAILURE(expectAll(x, expected));
    for (int threads = 2; threads <= maxThreads; ++threads) {
      CpuDevice device(threads);
      Result r = runDevice(device, x);
      EXPECT_EQ(r.out, expected.out) << threads << " threads";
      EXPECT_EQ(r.lse, expected.lse) << threads << " threads";
      EXPECT_EQ(r.grads, expected.grads) << threads << " threads";
    }
  }
}

/// Scores near 1000 overflow exp; the running maximum keeps them finite.
TEST(Attention, LargeScoresStayFinite) {
  Case x = makeCase(1, 130, 1, 16, true);
  for (int64_t t = 0; t < x.desc.seq; ++t)
    for (int64_t c = 0; c < 32; ++c)
      x.inputs[t * 48 + c] *= 16.f;
  CpuDevice device(1);
  Result r = runDevice(device, x);
  expectAll(x, r);
  for (float value : r.grads)
    ASSERT_TRUE(std::isfinite(value));
}

/// Keys of two kinds, k and -k, and queries along k or against it: a query sees
/// the keys of its kind alike, whatever rounding does to its scores, which
/// reach 10^8. The bounds are those of expectHead() without an error of scores,
/// since differences of equal scores are exact:
///   eP = (s + 16) u, eO = (2 s + 16) u, eT = 2 eP + eO + (2 d + 8) u
void expectFarScores(const Case &x, const Result &r) {
  const int64_t seq = x.desc.seq, dim = x.desc.head_dim;
  const double scale = 1 / std::sqrt(double(dim));
  auto in = [&](int part, int64_t t, int64_t c) {
    return x.begin(part) + t * (part ? x.desc.kv_ld : x.desc.q_ld) + c;
  };
  std::vector<double> dq(seq * dim), dk(seq * dim), dv(seq * dim), column(seq);
  double maxQ = 0, maxK = 0, reach = 0;
  for (int64_t i = 0; i < seq; ++i) {
    auto isSeen = [&](int64_t j) {
      return (x.inputs[in(0, i, 0)] > 0) == (x.inputs[in(1, j, 0)] > 0);
    };
    double count = 0;
    for (int64_t j = 0; j < x.end(0, i); ++j)
      count += isSeen(j);
    // Where none is of its kind, the others are alike, too.
    const bool hasNone = count == 0;
    if (hasNone)
      count = double(x.end(0, i));
    std::vector<double> probs(seq), dp(seq);
    double dot = 0;
    for (int64_t j = 0; j < x.end(0, i); ++j) {
      probs[j] = hasNone || isSeen(j) ? 1 / count : 0;
      double through = 0;
      for (int64_t c = 0; c < dim; ++c) {
        const double term = double(x.dout[i * dim + c]) * x.inputs[in(2, j, c)];
        dp[j] += term;
        through += std::abs(term);
        maxQ = std::max(maxQ, std::abs(double(x.inputs[in(0, i, c)])));
        maxK = std::max(maxK, std::abs(double(x.inputs[in(1, j, c)])));
      }
      reach = std::max(reach, through);
      dot += probs[j] * dp[j];
      column[j] += probs[j];
    }
    for (int64_t j = 0; j < x.end(0, i); ++j)
      for (int64_t c = 0; c < dim; ++c) {
        const double t = probs[j] * (dp[j] - dot) * scale;
        dq[i * dim + c] += t * x.inputs[in(1, j, c)];
        dk[j * dim + c] += t * x.inputs[in(0, i, c)];
        dv[j * dim + c] += probs[j] * x.dout[i * dim + c];
      }
  }
  const double columnSum = *std::ranges::max_element(column);
  const double eP = (seq + 16) * u, eO = (2 * seq + 16) * u;
  const double outer =
      (2 * eP + eO + (2 * dim + 8) * u + (2 * seq + 1) * u) * reach * scale;
  for (int64_t t = 0; t < seq; ++t)
    for (int64_t c = 0; c < dim; ++c) {
      ASSERT_NEAR(r.grads[in(0, t, c)], dq[t * dim + c], outer * maxK) << t;
      ASSERT_NEAR(r.grads[in(1, t, c)], dk[t * dim + c],
                  outer * maxQ * columnSum)
          << t;
      ASSERT_NEAR(r.grads[in(2, t, c)], dv[t * dim + c],
                  (eP + (seq + 1) * u) * 1.5 * columnSum)
          << t;
    }
}

TEST(Attention, FarScoresHaveTheGradientOfTheirSoftmax) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (bool causal : {false, true})
    for (int64_t seq : {1, 40, 64, 150})
      for (int64_t dim : {16, 20}) {
        Case x = makeCase(1, seq, 1, dim, causal);
        const auto size = float(5000. / std::sqrt(std::sqrt(dim / 16.)));
        for (int64_t t = 0; t < seq; ++t)
          for (int64_t c = 0; c < dim; ++c) {
            x.inputs[t * 3 * dim + c] =
                (size + 7.f * float(t)) * (t % 3 ? 1.f : -1.f);
            x.inputs[t * 3 * dim + dim + c] = t % 5 < 2 ? size : -size;
          }
        for (int set = 0; set < count; ++set)
          ASSERT_NO_FATAL_FAILURE(expectFarScores(x, runKernels(*sets[set], x)))
              << sets[set]->name << " seq " << seq << " causal " << causal;
        CpuDevice device(maxThreads);
        ASSERT_NO_FATAL_FAILURE(expectFarScores(x, runDevice(device, x)));
      }
}

/// Scores of all sizes: each row of P sums to 1, so the sum of dV equals the
/// sum of dout, within the rounding of s^2 terms of at most |dout|.
TEST(Attention, ProbabilitiesSumToOneAtEveryScale) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (double size : {1., 1e2, 1e4, 1e6, 1e8, 1e12})
    for (bool causal : {false, true}) {
      Case x = makeCase(1, 150, 1, 16, causal);
      for (int64_t t = 0; t < x.desc.seq; ++t)
        for (int64_t c = 0; c < 32; ++c)
          x.inputs[t * 48 + c] *= float(std::sqrt(size));
      for (int set = 0; set < count; ++set) {
        Result r = runKernels(*sets[set], x);
        for (int64_t c = 0; c < 16; ++c) {
          double found = 0, expected = 0, magnitude = 0;
          for (int64_t t = 0; t < x.desc.seq; ++t) {
            found += r.grads[t * 48 + 32 + c];
            expected += x.dout[t * 16 + c];
            magnitude += std::abs(x.dout[t * 16 + c]);
          }
          // Of P, where lse is in f32: 2^-10, or what the scores' size
          // explains.
          const double ofLse = std::min(0x1p-10, 8 * u * (size * 9 + 8));
          ASSERT_NEAR(found, expected, (ofLse + 3 * x.desc.seq * u) * magnitude)
              << sets[set]->name << " size " << size << " channel " << c;
        }
      }
    }
}

TEST(Attention, NotANumberShows) {
  Case x = makeCase(1, 70, 1, 8, true);
  x.inputs[66 * 24] = std::numeric_limits<float>::quiet_NaN();
  CpuDevice device(1);
  Result r = runDevice(device, x);
  EXPECT_TRUE(std::isnan(r.out[66 * 8]));
  EXPECT_TRUE(std::isfinite(r.out[65 * 8]));
}

TEST(Attention, PreparedScratchIsEnoughAndWithinItsBound) {
  Case x = makeCase(2, 90, 2, 40, true);
  CpuDevice device(maxThreads);
  EXPECT_EQ(device.scratchBytes(), 0u);
  Workload workload;
  workload.attentions = workload.attentionGrads = {{x.desc, ""}};
  ASSERT_TRUE(device.prepare(workload).ok());
  size_t reserved = device.scratchBytes();
  EXPECT_GT(reserved, 0u);
  int64_t bound = 0;
  for (bool isGradient : {false, true})
    bound = std::max(bound, *optimus_support::attentionScratchBytes(
                                 {x.desc.seq, x.desc.head_dim, isGradient,
                                  /*isNarrow=*/false, /*hasFirstKeys=*/false})
                                 .get());
  EXPECT_LE(int64_t(reserved), maxThreads * bound);
  runDevice(device, x);
  EXPECT_EQ(device.scratchBytes(), reserved);
}

/// Nothing grows while programs run.
TEST(Attention, MoreThanWasPreparedIsRefused) {
  Case x = makeCase(2, 90, 2, 40, true);
  CpuDevice device(1);
  Workload workload;
  workload.attentions = {{x.desc, ""}};
  workload.attentions[0].desc.seq = 10;
  ASSERT_TRUE(device.prepare(workload).ok());
  float *p = x.inputs.data();
  Status status =
      device.attention(kCompute, x.desc, {p, p, p, nullptr, p, p, nullptr});
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_NE(status.message().find("bytes of scratch memory"),
            std::string::npos)
      << status.message();
}

/// The bound is for every set of kernels.
TEST(Attention, ScratchIsWithinItsBound) {
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (int i = 0; i != count; ++i)
    for (int64_t seq : {1, 63, 64, 65, 1000})
      for (int64_t headDim : {1, 7, 64, 80}) {
        AttentionHead head{seq, headDim, headDim, headDim, headDim, true, seq};
        for (bool isGradient : {false, true}) {
          const int64_t bound =
              *optimus_support::attentionScratchBytes({seq, headDim, isGradient,
                                                       /*isNarrow=*/false,
                                                       /*hasFirstKeys=*/false})
                   .get();
          const int64_t bytes = 4 * (isGradient ? sets[i]->backwardScratch(head)
                                                : sets[i]->forwardScratch(head));
          EXPECT_LE(bytes, bound) << sets[i]->name << " " << seq << " " << headDim;
          // Whole vectors of any kernels: nothing is said in vain.
          if (headDim % optimus_support::kMostLanes == 0) {
            EXPECT_EQ(bytes, bound) << sets[i]->name << " " << seq;
          }
        }
      }
}

TEST(Attention, WrongDescriptorsAreRefused) {
  CpuDevice device(1);
  float x[64] = {};
  auto run = [&](optrt_attention_desc d, float *out) {
    return device.attention(kCompute, d, {x, x, x, nullptr, out, x, nullptr});
  };
  optrt_attention_desc good = {1, 2, 2, 1, 4, 16, 16, 1, OPTRT_F32, 0, 0, 0, 0};
  EXPECT_TRUE(run(good, x + 32).ok());
  auto refuses = [&](auto change) {
    optrt_attention_desc bad = good;
    change(bad);
    EXPECT_EQ(run(bad, x + 32).code(), StatusCode::InvalidArgument);
  };
  refuses([](auto &d) { d.head_dim = 0; });
  refuses([](auto &d) { d.batch = -1; });
  refuses([](auto &d) { d.kv_heads = 0; });
  refuses([](auto &d) { d.heads = 3, d.kv_heads = 2; });
  refuses([](auto &d) { d.q_ld = 7; });
  refuses([](auto &d) { d.kv_ld = 3; });
  refuses([](auto &d) { d.window = -1; });
  // No lengths and positions.
  refuses([](auto &d) { d.capacity = 2; });
  // No cache of whole pages, as many for each sequence.
  refuses([](auto &d) { d.pool = 2; });
  refuses([](auto &d) { d.causal = 0, d.window = 1; });
  // Products that do not fit 64 bits, or are more than any memory.
  constexpr int64_t kMany = int64_t(1) << 40;
  refuses([](auto &d) { d.batch = d.seq = kMany; });
  refuses([](auto &d) { d.heads = d.head_dim = kMany; });
  refuses([](auto &d) { d.q_ld = INT64_MAX; });
  refuses([](auto &d) { d.kv_ld = int64_t(1) << 50; });
  EXPECT_EQ(run(good, nullptr).code(), StatusCode::InvalidArgument);
  good.batch = 0;
  EXPECT_TRUE(run(good, x + 32).ok());
}

/// The polynomial's last steps round twice with FMA and four times without,
/// and the smallest results have half the spacing: 2 units of last place.
TEST(Attention, Exp2IsWithinTwoUnitsOfLastPlace) {
  std::vector<float> x, y;
  for (uint32_t bits = 0x20000000; bits < 0x42fe0000; bits += 997) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    x.push_back(value);
    if (value <= 126.f)
      x.push_back(-value);
  }
  x.push_back(0.f);
  y.resize(x.size());
  const AttentionKernels *sets[3];
  int count;
  supportedAttentionKernels(sets, count);
  for (int set = 0; set < count; ++set) {
    sets[set]->exp2(x.data(), y.data(), int64_t(x.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double exact = std::exp2(double(x[i]));
      double unit = std::ldexp(1., std::ilogb(exact) - 23);
      worst = std::max(worst, std::abs(y[i] - exact) / unit);
    }
    EXPECT_LE(worst, 2.) << sets[set]->name;
    RecordProperty(sets[set]->name, std::to_string(worst));
    float special[3] = {-std::numeric_limits<float>::infinity(), -1000.f,
                        std::numeric_limits<float>::quiet_NaN()};
    float result[3];
    sets[set]->exp2(special, result, 3);
    EXPECT_EQ(result[0], 0x1p-126f);
    EXPECT_EQ(result[1], 0x1p-126f);
    EXPECT_TRUE(std::isnan(result[2]));
  }
}

} // namespace
