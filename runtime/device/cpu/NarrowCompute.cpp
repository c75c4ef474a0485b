//===- NarrowCompute.cpp - bf16 on processors that multiply f32 -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NarrowCompute.h"

#include "optimus-support/BFloat16.h"

#include <algorithm>

using namespace optrt;
using optimus_support::ElementType;
using optimus_support::fromBFloat16;
using optimus_support::toBFloat16;

// Conversions are loops over integers, which wider vectors do faster; the
// program picks a version when it starts.
#if defined(__x86_64__) && defined(__gnu_linux__) &&                           \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OPTRT_VERSIONS                                                         \
  __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define OPTRT_VERSIONS
#endif

OPTRT_VERSIONS static void widenRow(const uint16_t *from, int64_t count,
                                    float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = fromBFloat16(from[i]);
}

OPTRT_VERSIONS static void narrowRow(const float *from, int64_t count,
                                     uint16_t *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = toBFloat16(from[i]);
}

OPTRT_VERSIONS static void addRow(const float *from, int64_t count, float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] += from[i];
}

OPTRT_VERSIONS static void addRow(const uint16_t *from, int64_t count,
                                  float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] += fromBFloat16(from[i]);
}

OPTRT_VERSIONS static void multiplyRow(const float *from, int64_t count,
                                       float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] *= from[i];
}

OPTRT_VERSIONS static void multiplyRow(const uint16_t *from, int64_t count,
                                       float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] *= fromBFloat16(from[i]);
}

namespace {
/// Elements that are worth a task.
constexpr int64_t kTask = 1 << 14;

int64_t tasksFor(const Team &team, int64_t rows, int64_t cols) {
  return std::min<int64_t>(
      {int64_t(team.size()), rows, std::max<int64_t>(rows * cols / kTask, 1)});
}

/// Calls `body` with the address of a row, of its type.
template <typename Body>
void withRow(NarrowMatrix matrix, int64_t row, const Body &body) {
  if (matrix.type == ElementType::BF16)
    body(static_cast<const uint16_t *>(matrix.start) + row * matrix.ld);
  else
    body(static_cast<const float *>(matrix.start) + row * matrix.ld);
}
} // namespace

StatusOr<float *> NarrowCompute::reserve(int64_t elements) {
  OPTRT_RETURN_IF_ERROR(scratch.reserve(optimus_support::CheckedSize(elements) *
                                        int64_t(sizeof(float))));
  return scratch.as<float>();
}

void NarrowCompute::widen(const uint16_t *from, int64_t fromLd, int64_t rows,
                          int64_t cols, float *to) const {
  team.split(rows, tasksFor(team, rows, cols), [&](int64_t row, int64_t end) {
    for (; row < end; ++row)
      widenRow(from + row * fromLd, cols, to + row * cols);
  });
}

void NarrowCompute::narrow(const float *from, int64_t rows, int64_t cols,
                           uint16_t *to, int64_t toLd) const {
  team.split(rows, tasksFor(team, rows, cols), [&](int64_t row, int64_t end) {
    for (; row < end; ++row)
      narrowRow(from + row * cols, cols, to + row * toLd);
  });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// What is left of a product once A and B are multiplied. A C of f32 holds that
/// already, and all that it had before.
void NarrowCompute::finish(const optrt_gemm_desc &d, float *product,
                           int64_t productLd, NarrowMatrix c,
                           NarrowMatrix bias, NarrowMatrix extra) const {
  const bool isNarrow = c.type == ElementType::BF16;
  team.split(d.m, tasksFor(team, d.m, d.n), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      float *sums = product + row * productLd;
      auto add = [&](auto *addends) { addRow(addends, d.n, sums); };
      if (isNarrow && d.accumulate)
        withRow(c, row, add);
      if (d.has_bias)
        withRow(bias, 0, add);
      if (d.epilogue == OPTRT_EPILOGUE_ADD)
        withRow(extra, row, add);
      else if (d.epilogue == OPTRT_EPILOGUE_MUL)
        withRow(extra, row,
                [&](auto *factors) { multiplyRow(factors, d.n, sums); });
      if (isNarrow)
        narrowRow(sums, d.n,
                  static_cast<uint16_t *>(const_cast<void *>(c.start)) +
                      row * c.ld);
    }
  });
}

/// The part of a matrix that begins at [row, col].
static NarrowMatrix partOf(NarrowMatrix matrix, int64_t row, int64_t col) {
  if (matrix.start)
    matrix.start =
        static_cast<const char *>(matrix.start) +
        (row * matrix.ld + col) * optimus_support::elementBytes(matrix.type);
  return matrix;
}

Status NarrowCompute::gemm(const optrt_gemm_desc &d, const uint16_t *a,
                           const uint16_t *b, NarrowMatrix c,
                           NarrowMatrix bias, NarrowMatrix extra,
                           const Gemm &multiply) {
  const bool isNarrow = c.type == ElementType::BF16;
  const bool finishes =
      isNarrow || d.has_bias || d.epilogue != OPTRT_EPILOGUE_NONE;
  const int64_t mostRows = std::min(d.m, kRows), mostCols = std::min(d.n, kCols),
                mostDepth = std::min(d.k, kDepth);
  OPTRT_ASSIGN_OR_RETURN(
      float *wideA, reserve(mostRows * mostDepth + mostDepth * mostCols +
                            (isNarrow ? mostRows * mostCols : 0)));
  float *wideB = wideA + mostRows * mostDepth;
  float *wideC = wideB + mostDepth * mostCols;
  for (int64_t col = 0; col < d.n; col += kCols)
    for (int64_t row = 0; row < d.m; row += kRows) {
      optrt_gemm_desc whole = d;
      whole.m = std::min(kRows, d.m - row);
      whole.n = std::min(kCols, d.n - col);
      const NarrowMatrix partOfC = partOf(c, row, col);
      float *product = isNarrow ? wideC
                                : const_cast<float *>(static_cast<const float *>(
                                      partOfC.start));
      const int64_t productLd = isNarrow ? whole.n : c.ld;
      // A product of depth 0 is zero, and so one block.
      for (int64_t depth = 0; depth == 0 || depth < d.k; depth += kDepth) {
        optrt_gemm_desc block = {};
        block.m = whole.m;
        block.n = whole.n;
        block.k = std::min(kDepth, d.k - depth);
        block.lda = d.trans_a ? block.m : block.k;
        block.ldb = d.trans_b ? block.k : block.n;
        block.ldc = productLd;
        block.trans_a = d.trans_a;
        block.trans_b = d.trans_b;
        block.accumulate = depth > 0 || (!isNarrow && d.accumulate);
        if (d.trans_a)
          widen(a + depth * d.lda + row, d.lda, block.k, block.m, wideA);
        else
          widen(a + row * d.lda + depth, d.lda, block.m, block.k, wideA);
        if (d.trans_b)
          widen(b + col * d.ldb + depth, d.ldb, block.n, block.k, wideB);
        else
          widen(b + depth * d.ldb + col, d.ldb, block.k, block.n, wideB);
        OPTRT_RETURN_IF_ERROR(multiply(block, wideA, wideB, product));
      }
      if (finishes)
        finish(whole, product, productLd, partOfC, partOf(bias, 0, col),
               partOf(extra, row, col));
    }
  return okStatus();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// One sequence of attention, dense.
struct Sequence {
  explicit Sequence(const optrt_attention_desc &d)
      : desc(d), queries(d.heads * d.head_dim), keys(d.kv_heads * d.head_dim) {
    desc.batch = 1;
    desc.q_ld = queries;
    desc.kv_ld = keys;
  }
  int64_t queryElements() const { return desc.seq * queries; }
  int64_t keyElements() const { return desc.seq * keys; }

  optrt_attention_desc desc;
  int64_t queries, keys; ///< elements of a token
};
} // namespace

Status NarrowCompute::attention(const optrt_attention_desc &d,
                                const uint16_t *q, const uint16_t *k,
                                const uint16_t *v, const int32_t *lengths,
                                uint16_t *out, float *lse,
                                const Attention &attend) {
  const Sequence one(d);
  OPTRT_ASSIGN_OR_RETURN(
      float *wideQ, reserve(2 * one.queryElements() + 2 * one.keyElements()));
  float *wideK = wideQ + one.queryElements();
  float *wideV = wideK + one.keyElements();
  float *wideOut = wideV + one.keyElements();
  for (int64_t i = 0; i < d.batch; ++i) {
    widen(q + i * d.seq * d.q_ld, d.q_ld, d.seq, one.queries, wideQ);
    widen(k + i * d.seq * d.kv_ld, d.kv_ld, d.seq, one.keys, wideK);
    widen(v + i * d.seq * d.kv_ld, d.kv_ld, d.seq, one.keys, wideV);
    OPTRT_RETURN_IF_ERROR(attend(one.desc, wideQ, wideK, wideV,
                                 lengths ? lengths + i : nullptr, wideOut,
                                 lse + i * d.heads * d.seq));
    narrow(wideOut, d.seq, one.queries, out + i * one.queryElements(),
           one.queries);
  }
  return okStatus();
}

Status NarrowCompute::attentionGrad(
    const optrt_attention_desc &d, const uint16_t *dout, const uint16_t *q,
    const uint16_t *k, const uint16_t *v, const int32_t *lengths,
    const uint16_t *out, const float *lse, uint16_t *dq, uint16_t *dk,
    uint16_t *dv, const AttentionGrad &attend) {
  const Sequence one(d);
  const int64_t queries = one.queryElements(), keys = one.keyElements();
  OPTRT_ASSIGN_OR_RETURN(float *wideQ, reserve(4 * queries + 4 * keys));
  float *wideOut = wideQ + queries, *wideDout = wideOut + queries,
        *wideDq = wideDout + queries, *wideK = wideDq + queries,
        *wideV = wideK + keys, *wideDk = wideV + keys, *wideDv = wideDk + keys;
  for (int64_t i = 0; i < d.batch; ++i) {
    const int64_t ofQ = i * d.seq * d.q_ld, ofK = i * d.seq * d.kv_ld;
    widen(q + ofQ, d.q_ld, d.seq, one.queries, wideQ);
    widen(k + ofK, d.kv_ld, d.seq, one.keys, wideK);
    widen(v + ofK, d.kv_ld, d.seq, one.keys, wideV);
    widen(out + i * queries, one.queries, d.seq, one.queries, wideOut);
    widen(dout + i * queries, one.queries, d.seq, one.queries, wideDout);
    OPTRT_RETURN_IF_ERROR(attend(one.desc, wideDout, wideQ, wideK, wideV,
                                 lengths ? lengths + i : nullptr, wideOut,
                                 lse + i * d.heads * d.seq, wideDq, wideDk,
                                 wideDv));
    narrow(wideDq, d.seq, one.queries, dq + ofQ, d.q_ld);
    narrow(wideDk, d.seq, one.keys, dk + ofK, d.kv_ld);
    narrow(wideDv, d.seq, one.keys, dv + ofK, d.kv_ld);
  }
  return okStatus();
}
