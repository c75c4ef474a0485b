//===- gemm_attention.cpp - Rates of the processor kernels ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Prints, for the products of a GPT training step (6 layers, hidden 384,
// 6 heads, sequence 256, batch 8, vocabularies 50304 and 256), the rate of
// CpuDevice::gemm, weights having been packed, beside the best of oneDNN for
// the same m, n and k: plain sgemm, matmul on the given layouts, and matmul on operands packed ahead.
// Then the time of attention, six layers of it. The candidates take turns, and
// the best of all turns counts, so that a busy machine disturbs them alike.
//
//   optimus-bench-cpu-device [THREADS]
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/CpuDevice.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <vector>

using namespace optrt;

namespace {

struct Shape {
  const char *name;
  int64_t m, n, k;
  bool transA, transB;
  int weight; ///< whether we multiply from a packed B
  int bias, epilogue, accumulate;
};

constexpr Shape shapes[] = {
    {"qkv", 2048, 1152, 384, 0, 0, 1, 1, 0, 0},
    {"attention out", 2048, 384, 384, 0, 0, 1, 1, 1, 0},
    {"up", 2048, 1536, 384, 0, 0, 1, 1, 0, 0},
    {"down", 2048, 384, 1536, 0, 0, 1, 1, 1, 0},
    {"dX qkv", 2048, 384, 1152, 0, 1, 1, 0, 0, 0},
    {"dX attention out", 2048, 384, 384, 0, 1, 1, 0, 0, 0},
    {"dX up", 2048, 384, 1536, 0, 1, 1, 0, 0, 0},
    {"dX down", 2048, 1536, 384, 0, 1, 1, 0, 2, 0},
    {"dW qkv", 384, 1152, 2048, 1, 0, 0, 0, 0, 0},
    {"dW attention out", 384, 384, 2048, 1, 0, 0, 0, 0, 0},
    {"dW up", 384, 1536, 2048, 1, 0, 0, 0, 0, 0},
    {"dW down", 1536, 384, 2048, 1, 0, 0, 0, 0, 0},
    {"head 50304", 512, 50304, 384, 0, 1, 1, 0, 0, 0},
    {"dH 50304", 512, 384, 50304, 0, 0, 1, 0, 0, 0},
    {"dE 50304", 50304, 384, 512, 1, 0, 0, 0, 0, 1},
    {"head 256", 512, 256, 384, 0, 1, 1, 0, 0, 0},
    {"dH 256", 512, 384, 256, 0, 0, 1, 0, 0, 0},
    {"dE 256", 256, 384, 512, 1, 0, 0, 0, 0, 1},
    {"panel qkv", 1024, 576, 96, 0, 0, 0, 0, 0, 1},
    {"panel up", 1024, 768, 96, 0, 0, 0, 0, 0, 1},
    {"panel down", 1024, 192, 384, 0, 0, 0, 0, 0, 1},
    {"panel dX", 1024, 192, 576, 0, 1, 0, 0, 0, 0},
    {"panel dW", 192, 576, 1024, 1, 0, 0, 0, 0, 0},
};

std::vector<float> randomValues(size_t count) {
  std::mt19937 random(1);
  std::vector<float> values(count);
  for (float &value : values)
    value = float(random()) / 4e9f - 0.5f;
  return values;
}

/// The best time of each candidate, in seconds.
std::vector<double>
takeTurns(const std::vector<std::function<void()>> &candidates) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> best(candidates.size(), 1e9);
  double spent = 0;
  for (int turn = 0; turn < 4 || (spent < 1.5 && turn < 60); ++turn)
    for (size_t i = 0; i < candidates.size(); ++i) {
      auto start = Clock::now();
      candidates[i]();
      double time = std::chrono::duration<double>(Clock::now() - start).count();
      best[i] = std::min(best[i], time);
      spent += time;
    }
  return best;
}

void must(const Status &status) {
  if (status.ok())
    return;
  std::fprintf(stderr, "%s\n", status.toString().c_str());
  std::exit(2);
}

void benchGemm(CpuDevice &device, const Shape &s) {
  using namespace dnnl;
  using Desc = memory::desc;
  optrt_gemm_desc d = {};
  d.m = s.m, d.n = s.n, d.k = s.k;
  d.lda = s.transA ? s.m : s.k, d.ldb = s.transB ? s.k : s.n;
  d.ldc = d.ld_extra = s.n;
  d.trans_a = s.transA, d.trans_b = s.transB, d.accumulate = s.accumulate;
  d.epilogue = s.epilogue, d.has_bias = s.bias;
  auto a = randomValues(s.m * s.k), b = randomValues(s.k * s.n),
       c = randomValues(s.m * s.n), bias = randomValues(s.n);
  auto extra = randomValues(s.epilogue ? s.m * s.n : 0);
  const int64_t ldb = d.ldb;
  const float *ours = b.data();
  DeviceMemory packedB;
  if (s.weight) {
    optrt_pack_desc pack{s.k, s.n, ldb,
                         (s.k + 15) / 16 * 16 * ((s.n + 63) / 64 * 64),
                         s.transB};
    auto allocated = device.allocate(
        pack.elements * int64_t(sizeof(float)), "a packed weight");
    must(allocated.status());
    packedB = std::move(*allocated);
    auto *to = reinterpret_cast<float *>(packedB.data());
    must(device.pack(kCompute, pack, b.data(), to));
    d.packed_b = 1, d.trans_b = 0, d.ldb = pack.elements;
    ours = to;
  }

  engine engine(engine::kind::cpu, 0);
  stream stream(engine);
  auto f32 = memory::data_type::f32;
  auto strided = [&](int64_t rows, int64_t cols, bool transposed) {
    return Desc({rows, cols}, f32,
                transposed ? memory::dims{1, rows} : memory::dims{cols, 1});
  };
  Desc aDesc = strided(s.m, s.k, s.transA), bDesc = strided(s.k, s.n, s.transB),
       cDesc = strided(s.m, s.n, false);
  Desc anyA({s.m, s.k}, f32, memory::format_tag::any),
      anyB({s.k, s.n}, f32, memory::format_tag::any);
  matmul::primitive_desc plain({aDesc, bDesc, cDesc}, engine),
      packed({anyA, anyB, cDesc}, engine);
  memory aGiven(aDesc, engine, a.data()), bGiven(bDesc, engine, b.data()),
      cMemory(cDesc, engine, c.data());
  memory aPacked(packed.src_desc(), engine),
      bPacked(packed.weights_desc(), engine);
  reorder(aGiven, aPacked).execute(stream, aGiven, aPacked);
  reorder(bGiven, bPacked).execute(stream, bGiven, bPacked);
  matmul plainMatmul(plain), packedMatmul(packed);

  std::vector<double> times = takeTurns(
      {[&] {
         must(device.gemm(kCompute, d, a.data(), ours, c.data(), bias.data(),
                          extra.data()));
       },
       [&] {
         dnnl_sgemm(s.transA ? 'T' : 'N', s.transB ? 'T' : 'N', s.m, s.n, s.k,
                    1, a.data(), d.lda, b.data(), ldb, 0, c.data(), d.ldc);
       },
       [&] {
         plainMatmul.execute(stream, {{DNNL_ARG_SRC, aGiven},
                                      {DNNL_ARG_WEIGHTS, bGiven},
                                      {DNNL_ARG_DST, cMemory}});
         stream.wait();
       },
       [&] {
         packedMatmul.execute(stream, {{DNNL_ARG_SRC, aPacked},
                                       {DNNL_ARG_WEIGHTS, bPacked},
                                       {DNNL_ARG_DST, cMemory}});
         stream.wait();
       }});
  double work = 2e-9 * double(s.m) * double(s.n) * double(s.k);
  double best = *std::min_element(times.begin() + 1, times.end());
  std::printf("%-17s %6ld %6ld %6ld %c%c %8.1f %8.1f %8.1f %8.1f %6.0f%%\n",
              s.name, long(s.m), long(s.n), long(s.k), s.transA ? 'T' : 'N',
              s.transB ? 'T' : 'N', work / times[0], work / times[1],
              work / times[2], work / times[3], 100 * best / times[0]);
  std::fflush(stdout);
}

/// q, k and v lie side by side in one tensor, as a product makes them.
optrt_attention_desc sideBySide(int64_t batch, int64_t seq, int64_t heads,
                                int64_t kvHeads, int64_t headDim, bool causal) {
  int64_t ld = (heads + 2 * kvHeads) * headDim;
  return {batch, seq, heads, kvHeads, headDim, ld, ld, causal};
}

void benchAttention(CpuDevice &device, optrt_attention_desc d, int layers) {
  int64_t tokens = d.batch * d.seq, hidden = d.heads * d.head_dim;
  auto qkv = randomValues(tokens * d.q_ld),
       dout = randomValues(tokens * hidden);
  std::vector<float> out(tokens * hidden), lse(d.batch * d.heads * d.seq),
      dqkv(tokens * d.q_ld);
  const float *q = qkv.data(), *k = q + hidden,
              *v = k + d.kv_heads * d.head_dim;
  float *dq = dqkv.data(), *dk = dq + hidden,
        *dv = dk + d.kv_heads * d.head_dim;
  std::vector<double> times = takeTurns(
      {[&] {
         for (int layer = 0; layer < layers; ++layer)
           must(device.attention(kCompute, d, q, k, v, /*lengths=*/nullptr,
                                 out.data(), lse.data()));
       },
       [&] {
         for (int layer = 0; layer < layers; ++layer)
           must(device.attentionGrad(kCompute, d, dout.data(), q, k, v,
                                     /*lengths=*/nullptr, out.data(),
                                     lse.data(), dq, dk, dv));
       }});
  // What causal (or full) attention needs: two products forward, five back.
  double pairs = d.causal ? 0.5 * double(d.seq) * double(d.seq + 1)
                          : double(d.seq) * double(d.seq);
  double product = 2e-9 * pairs * double(d.batch * hidden) * layers;
  std::printf(
      "%3ld %5ld %3ld %3ld %4ld %-6s %d layers: forward %7.2f ms (%5.1f "
      "GFLOP/s), backward %7.2f ms (%5.1f GFLOP/s)\n",
      long(d.batch), long(d.seq), long(d.heads), long(d.kv_heads),
      long(d.head_dim), d.causal ? "causal" : "full", layers, 1e3 * times[0],
      2 * product / times[0], 1e3 * times[1], 5 * product / times[1]);
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::atoi(argv[1]) : omp_get_max_threads();
  omp_set_num_threads(threads);
  CpuDevice device(threads);
  std::printf("%d threads, GFLOP/s\n%-17s %6s %6s %6s    %8s %8s %8s %8s %7s\n",
              threads, "product", "m", "n", "k", "ours", "sgemm", "matmul",
              "packed", "of best");
  for (const Shape &shape : shapes)
    benchGemm(device, shape);
  std::printf(
      "\nattention: batch, sequence, heads of queries, heads of keys and "
      "values, head size\n");
  benchAttention(device, sideBySide(8, 256, 6, 6, 64, true), 6);
  benchAttention(device, sideBySide(8, 256, 6, 6, 64, false), 6);
  benchAttention(device, sideBySide(4, 1024, 6, 6, 64, true), 1);
  benchAttention(device, sideBySide(8, 128, 8, 8, 32, true), 6);
  benchAttention(device, sideBySide(2, 512, 16, 16, 64, true), 1);
  benchAttention(device, sideBySide(2, 512, 16, 4, 64, true), 1);
  benchAttention(device, sideBySide(2, 512, 6, 6, 80, true), 1);
}
