//===- AttentionKeysTest.cpp - Which keys queries see ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention of padded sequences, documents, windows and caches, against plain
// loops and against itself.
//
//===----------------------------------------------------------------------===//

#include "AttentionReference.h"
#include "MaxThreads.h"
#include "optimus-support/CachePages.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

using namespace attention_test;

namespace {

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

/// A chunk with fewer tokens than it has place for computes these alone, to the
/// same bits, and has zeros behind.
TEST(Attention, TokensBehindTheLastAreLeftOut) {
  Case x = makeCase(1, 150, 4, 20, true, 2);
  std::vector<int32_t> all(86);
  std::iota(all.begin(), all.end(), 40);
  for (int threads = 1; threads <= maxThreads; ++threads) {
    CpuDevice device(threads);
    const Result r = attendCached(device, x, {150}, {all});
    for (const size_t count : {0, 1, 30, 65}) {
      std::vector<int32_t> some(86, -1);
      std::copy_n(all.begin(), count, some.begin());
      const Result s = attendCached(device, x, {150}, {some});
      const auto end = s.out.begin() + int64_t(count) * x.hidden();
      EXPECT_TRUE(std::equal(s.out.begin(), end, r.out.begin())) << count;
      EXPECT_TRUE(std::all_of(end, s.out.end(), [](float f) { return f == 0; }))
          << count;
    }
  }
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

} // namespace
