//===- AttentionTilesTest.cpp - Attention by tiles of bf16 ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chunks of tokens that see a cache, in bf16, where a processor has tiles.
//
//===----------------------------------------------------------------------===//

#include "AttentionReference.h"
#include "MaxThreads.h"
#include "optimus-support/BFloat16.h"

#include <cstring>
#include <numeric>

using namespace attention_test;
using optimus_support::fromBFloat16;
using optimus_support::toBFloat16;

namespace {

class AttentionTiles : public testing::Test {
protected:
  void SetUp() override {
    if (!tiles)
      GTEST_SKIP() << "this processor, its system or DNNL_MAX_CPU_ISA has no "
                      "tiles of bf16 (AMX)";
  }

  const TiledAttention *tiles = bestTiledAttention();
};

/// Inputs of a case as bf16; the case has the same numbers from now on.
std::vector<uint16_t> narrowInputs(Case &x) {
  std::vector<uint16_t> narrow;
  for (float &value : x.inputs) {
    narrow.push_back(toBFloat16(value));
    value = fromBFloat16(narrow.back());
  }
  return narrow;
}

/// Replaces out and lse by those of tiles, whose keys are a cache's.
void attendByTiles(const TiledAttention &tiles, const Case &x,
                   const std::vector<uint16_t> &inputs, Result &r) {
  const optrt_attention_desc &d = x.desc;
  for (int64_t n = 0; n < d.heads; ++n) {
    std::vector<int32_t> firsts, ends;
    for (int64_t i = 0; i < d.seq; ++i) {
      firsts.push_back(int32_t(std::max<int64_t>(x.first(0, i), 0)));
      ends.push_back(int32_t(x.end(0, i)));
    }
    const AttentionHead head = {.seq = d.seq,
                                .headDim = d.head_dim,
                                .qStride = d.q_ld,
                                .kvStride = d.kv_ld,
                                .outStride = x.hidden(),
                                .causal = false,
                                .keys = d.seq,
                                .firsts = firsts.data(),
                                .ends = ends.data(),
                                .capacity = d.seq + 7};
    const auto elements = size_t(tiles.forwardScratch(head));
    std::vector<float> memory(elements + 16, NAN);
    void *start = memory.data();
    size_t space = memory.size() * sizeof(float);
    auto *scratch = static_cast<float *>(
        std::align(64, elements * sizeof(float), start, space));
    const uint16_t *in = inputs.data();
    const int64_t kv = x.kvHead(n) * d.head_dim;
    tiles.forward(head, in + x.begin(0) + n * d.head_dim, in + x.begin(1) + kv,
                  in + x.begin(2) + kv, r.out.data() + n * d.head_dim,
                  r.lse.data() + n * d.seq, scratch);
  }
}

/// Within the bounds of f32: no product and no weight is rounded to bf16, which
/// would be off by 2^-9.
TEST_F(AttentionTiles, AreAsExactAsF32) {
  CpuDevice device(maxThreads);
  for (int64_t seq : {2, 16, 64, 100, 150})
    for (int64_t dim : {16, 20, 33, 64, 80})
      for (int64_t window : {0, 30}) {
        Case x = makeCase(1, seq, 4, dim, true, 2);
        x.desc.window = window;
        const std::vector<uint16_t> narrow = narrowInputs(x);
        Result r = runDevice(device, x), byTiles = r;
        attendByTiles(*tiles, x, narrow, byTiles);
        ASSERT_NO_FATAL_FAILURE(expectAll(x, byTiles))
            << "seq " << seq << " dim " << dim << " window " << window;
        if (seq > 2) {
          EXPECT_NE(byTiles.out, r.out) << "additions in another order";
        }
      }
}

/// Attention of slots with caches of `capacity` keys, which have those of `x`
/// as far as they are filled, and then infinities. Each has the queries at its
/// positions.
std::vector<uint16_t>
attendChunks(CpuDevice &device, const Case &x,
             const std::vector<uint16_t> &inputs, int64_t capacity,
             const std::vector<int32_t> &filled,
             const std::vector<std::vector<int32_t>> &positions) {
  constexpr uint16_t infinite = 0x7F80;
  optrt_attention_desc d = x.desc;
  d.type = OPTRT_BF16;
  d.batch = int64_t(positions.size());
  d.seq = int64_t(positions.front().size());
  d.q_ld = x.hidden();
  d.kv_ld = x.kvHidden();
  d.has_lengths = d.has_positions = 1;
  d.capacity = capacity;
  auto row = [&](int part, int64_t t) {
    return inputs.begin() + x.begin(part) +
           t * (part ? x.desc.kv_ld : x.desc.q_ld);
  };
  std::vector<uint16_t> q, caches[2];
  std::vector<int32_t> places;
  for (size_t slot = 0; slot < positions.size(); ++slot) {
    for (int32_t position : positions[slot]) {
      places.push_back(position);
      const auto from = row(0, std::max(position, 0));
      q.insert(q.end(), from, from + d.q_ld);
    }
    for (int part : {1, 2})
      for (int64_t t = 0; t < capacity; ++t) {
        std::vector<uint16_t> &cache = caches[part - 1];
        if (t < filled[slot])
          cache.insert(cache.end(), row(part, t), row(part, t) + d.kv_ld);
        else
          cache.insert(cache.end(), size_t(d.kv_ld), infinite);
      }
  }
  std::vector<uint16_t> out(q.size(), infinite);
  std::vector<float> lse(places.size() * size_t(d.heads));
  Workload workload;
  workload.attentions = {{d, ""}};
  EXPECT_TRUE(device.prepare(workload).ok());
  const Status status = device.attention(kCompute, d,
                                         {.q = q.data(),
                                          .k = caches[0].data(),
                                          .v = caches[1].data(),
                                          .lengths = filled.data(),
                                          .out = out.data(),
                                          .lse = lse.data(),
                                          .workspace = nullptr,
                                          .positions = places.data()});
  EXPECT_TRUE(status.ok()) << status.toString();
  return out;
}

/// The positions from `begin` on, and then padding.
std::vector<int32_t> positionsFrom(int32_t begin, size_t count, size_t size) {
  std::vector<int32_t> positions(size, -1);
  std::iota(positions.begin(), positions.begin() + int64_t(count), begin);
  return positions;
}

/// A token's bits are its own: in chunks of any size, at any place, beside
/// other slots and padding, in caches of any capacity, of any number of
/// threads.
TEST_F(AttentionTiles, NoBitDependsOnTheChunk) {
  struct Chunk {
    std::vector<int32_t> filled;
    std::vector<std::vector<int32_t>> positions;
    int64_t capacity;
  };
  const Chunk chunks[] = {
      {{64, 150}, {positionsFrom(0, 64, 64), positionsFrom(86, 64, 64)}, 150},
      {{71, 150}, {positionsFrom(10, 61, 86), positionsFrom(64, 86, 86)}, 151},
      {{150, 33}, {positionsFrom(0, 150, 150), positionsFrom(31, 2, 150)}, 300},
      {{150, 0, 20}, {{149, 70}, {-1, -1}, {-1, 19}}, 150}};
  for (int64_t window : {0, 30})
    for (int64_t dim : {20, 64}) {
      Case x = makeCase(1, 150, 4, dim, true, 2);
      x.desc.window = window;
      const std::vector<uint16_t> inputs = narrowInputs(x);
      CpuDevice one(1);
      const std::vector<uint16_t> whole = attendChunks(
          one, x, inputs, 150, {150}, {positionsFrom(0, 150, 150)});
      const int64_t width = x.hidden();
      for (const auto &[filled, positions, capacity] : chunks)
        for (int threads = 1; threads <= maxThreads; ++threads) {
          CpuDevice device(threads);
          const std::vector<uint16_t> out =
              attendChunks(device, x, inputs, capacity, filled, positions);
          auto found = out.begin();
          for (const std::vector<int32_t> &slot : positions)
            for (int32_t position : slot) {
              const std::vector<uint16_t> expected =
                  position < 0 ? std::vector<uint16_t>(size_t(width), 0)
                               : std::vector<uint16_t>(
                                     whole.begin() + position * width,
                                     whole.begin() + (position + 1) * width);
              ASSERT_TRUE(std::equal(expected.begin(), expected.end(), found))
                  << "position " << position << " window " << window;
              found += width;
            }
        }
    }
}

/// Rooms of caches of other sizes are within what compilers report: prepare()
/// refuses more.
TEST_F(AttentionTiles, ScratchIsWithinItsBound) {
  for (int64_t seq : {2, 63, 64, 1000})
    for (int64_t capacity : {64, 65, 1000})
      for (int64_t dim : {16, 17, 33, 64, 100}) {
        optrt_attention_desc d = makeCase(1, seq, 1, dim, true).desc;
        d.type = OPTRT_BF16;
        d.has_lengths = d.has_positions = 1;
        d.capacity = capacity;
        CpuDevice device(1);
        Workload workload;
        workload.attentions = {{d, ""}};
        const Status status = device.prepare(workload);
        EXPECT_TRUE(status.ok()) << status.toString();
      }
}

TEST_F(AttentionTiles, NotANumberShows) {
  Case x = makeCase(1, 100, 1, 32, true);
  x.inputs[size_t(x.begin(0) + 66 * x.desc.q_ld)] = NAN;
  const std::vector<uint16_t> inputs = narrowInputs(x);
  CpuDevice device(1);
  const std::vector<uint16_t> out =
      attendChunks(device, x, inputs, 100, {100}, {positionsFrom(0, 100, 100)});
  for (int64_t c = 0; c < 32; ++c) {
    EXPECT_TRUE(std::isnan(fromBFloat16(out[size_t(66 * 32 + c)])));
    EXPECT_TRUE(std::isfinite(fromBFloat16(out[size_t(65 * 32 + c)])));
  }
}

} // namespace
