//===- AttentionEngine.cpp - Attention of many heads ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionEngine.h"

#include "Elements.h"
#include "NarrowRows.h"
#include "optimus-support/CachePages.h"
#include "optimus-support/DeviceScratch.h"
#include "optimus-support/SeenKeys.h"

#include <algorithm>
#include <type_traits>

using namespace optrt;
using optimus_support::CheckedSize;
using optimus_support::ElementType;
using optimus_support::kMaxElements;
using optimus_support::matrixExtent;

namespace {

Status checkAttention(const optrt_attention_desc &d, bool pointers) {
  if (d.batch < 0 || d.seq < 0 || d.heads < 0 || d.kv_heads < 1 ||
      d.heads % d.kv_heads != 0 || d.head_dim < 1)
    return invalidArgument(
        concat("attention expects batch, seq and heads >= 0, kv_heads that "
               "divide heads and head_dim >= 1; found batch ",
               d.batch, ", seq ", d.seq, ", heads ", d.heads, ", kv_heads ",
               d.kv_heads, ", head_dim ", d.head_dim));
  const CheckedSize tokens = CheckedSize(d.batch) * d.seq;
  const CheckedSize width = CheckedSize(d.heads) * d.head_dim;
  const CheckedSize kvWidth = CheckedSize(d.kv_heads) * d.head_dim;
  if (!width.isAtMost(d.q_ld) || !kvWidth.isAtMost(d.kv_ld))
    return invalidArgument(
        concat("attention expects leading dimensions of at least a token's "
               "heads; found q_ld ",
               d.q_ld, " and kv_ld ", d.kv_ld));
  const CheckedSize keys =
      optimus_support::attentionKeys(d.batch, d.seq, d.capacity, d.pool);
  const CheckedSize extents[] = {matrixExtent(tokens, width, d.q_ld),
                                 matrixExtent(keys, kvWidth, d.kv_ld),
                                 tokens * d.heads};
  for (const CheckedSize &extent : extents)
    if (tokens.get() != 0 && !extent.isAtMost(kMaxElements))
      return invalidArgument(concat(
          "attention of batch ", d.batch, ", seq ", d.seq, ": an operand has ",
          extent.toString(), " elements; expected at most ", kMaxElements));
  if (d.has_positions && !d.causal)
    return invalidArgument("attention with positions must be causal");
  if (d.window < 0 || (d.window != 0 && !d.causal))
    return invalidArgument(
        concat("attention expects a window of at least 1, with the causal "
               "mask, or 0 for none; found ",
               d.window));
  if (d.capacity < 0 ||
      (d.capacity != 0 && (!d.causal || !d.has_lengths || !d.has_positions)))
    return invalidArgument(
        concat("attention of caches expects a capacity of at least 1, the "
               "causal mask, lengths and positions; found capacity ",
               d.capacity));
  if (d.pool != 0 &&
      (d.pool < 0 || d.batch < 1 || d.pool % d.batch != 0 || d.seq != 1 ||
       d.capacity == 0 || d.capacity % optimus_support::kPageTokens != 0))
    return invalidArgument(
        concat("attention of pages expects as many for each sequence, a "
               "capacity of whole ones and one query; found ",
               d.pool, " pages of ", d.batch, " sequences, capacity ",
               d.capacity, " and seq ", d.seq));
  if (!pointers)
    return invalidArgument("attention expects every operand; one is null");
  return okStatus();
}

/// Whether tokens see other keys than the sequence's first ones.
bool hasFirstKeys(const optrt_attention_desc &d) {
  return d.has_positions || d.window != 0;
}

/// A head of a sequence with so many tokens besides padding. Each sees its
/// first key here; null: all see the sequence's first.
AttentionHead headOf(const optrt_attention_desc &d, int64_t length,
                     const int32_t *firsts = nullptr) {
  return {d.seq,
          d.head_dim,
          d.q_ld,
          d.kv_ld,
          d.heads * d.head_dim,
          d.causal != 0,
          std::clamp<int64_t>(length, std::min<int64_t>(d.seq, 1), d.seq),
          firsts};
}

/// The same of a cache whose first `keys` are seen by any of the first
/// `tokens`.
AttentionHead cachedHeadOf(const optrt_attention_desc &d, int64_t tokens,
                           int64_t keys, const int32_t *firsts,
                           const int32_t *ends) {
  AttentionHead head = headOf(d, d.seq, firsts);
  head.seq = tokens;
  head.causal = false;
  head.keys = keys;
  head.ends = ends;
  head.capacity = d.capacity;
  return head;
}

/// Zeros for a head's tokens from `token` on, where these see no key.
template <typename T>
void clearTokens(const optrt_attention_desc &d, int64_t token, T *out,
                 float *lse) {
  for (; token < d.seq; ++token) {
    std::fill_n(out + token * d.heads * d.head_dim, d.head_dim, T(0));
    lse[token] = 0;
  }
}

/// From a sequence's first key to the next one's.
int64_t keysOf(const optrt_attention_desc &d) {
  if (d.pool != 0)
    return d.pool / d.batch * optimus_support::kPageTokens;
  return d.capacity != 0 ? d.capacity : d.seq;
}

/// Where head `head` of sequence `batch` begins.
struct HeadOffsets {
  HeadOffsets(const optrt_attention_desc &d, int64_t batch, int64_t head)
      : q(batch * d.seq * d.q_ld + head * d.head_dim),
        kv(batch * keysOf(d) * d.kv_ld +
           head / (d.heads / d.kv_heads) * d.head_dim),
        out((batch * d.seq * d.heads + head) * d.head_dim),
        lse((batch * d.heads + head) * d.seq) {}

  int64_t q;   ///< in q and dq
  int64_t kv;  ///< in k, v, dk and dv
  int64_t out; ///< in out and dout
  int64_t lse;
};

} // namespace

Status AttentionEngine::reserve(int64_t elements) {
  return room.reserve(CheckedSize(elements) * team.size() *
                      int64_t(sizeof(float)));
}

bool AttentionEngine::hasTiles(const optrt_attention_desc &desc) const {
  // Tiles of less would be mostly empty, and hold more than widened operands.
  constexpr int64_t keys = optimus_support::kAttentionBlock,
                    channels = optimus_support::kMostLanes;
  return tiles && desc.type == OPTRT_BF16 && desc.seq > 1 &&
         desc.capacity >= keys && desc.head_dim >= channels;
}

AttentionEngine::Share
AttentionEngine::getShare(const optrt_attention_desc &desc,
                          bool isGradient) const {
  // Kernels ask whether there are ends, not for their values.
  const int32_t none = 0;
  const AttentionHead head =
      desc.capacity != 0
          ? cachedHeadOf(desc, desc.seq, desc.capacity, &none, &none)
          : headOf(desc, desc.seq);
  const int64_t heads =
      hasTiles(desc) ? attentionScratch(*tiles, head)
                     : attentionScratch(kernels, head, isGradient,
                                        /*isNarrow=*/desc.type != OPTRT_F32);
  const int64_t ranges = desc.capacity != 0 ? 2 : hasFirstKeys(desc) ? 1 : 0;
  return {heads, heads + ranges * desc.seq};
}

AttentionHead AttentionEngine::getHead(const optrt_attention_desc &desc,
                                       const AttentionOperands &x,
                                       int64_t sequence, float *room) const {
  const int64_t length = x.lengths ? x.lengths[sequence] : desc.seq;
  if (!hasFirstKeys(desc))
    return headOf(desc, length);
  static_assert(sizeof(int32_t) == sizeof(float));
  auto *firsts = reinterpret_cast<int32_t *>(room);
  if (desc.capacity != 0) {
    int32_t *ends = firsts + desc.seq;
    const int64_t filled = std::clamp<int64_t>(length, 0, desc.capacity);
    // Behind the last token of a chunk nobody sees a key.
    int64_t keys = 0, tokens = 0;
    for (int64_t token = 0; token != desc.seq; ++token) {
      const optimus_support::KeyRange seen = optimus_support::seenCachedKeys(
          x.positions[sequence * desc.seq + token], filled, desc.window);
      ends[token] = static_cast<int32_t>(seen.end);
      firsts[token] = static_cast<int32_t>(std::min(seen.first, seen.end));
      keys = std::max(keys, seen.end);
      if (firsts[token] < ends[token])
        tokens = token + 1;
    }
    return cachedHeadOf(desc, tokens, keys, firsts, ends);
  }
  for (int64_t token = 0; token != desc.seq; ++token)
    firsts[token] = static_cast<int32_t>(
        optimus_support::seenKeys(
            token,
            x.positions ? x.positions[sequence * desc.seq + token] : token,
            length, desc.causal, desc.window)
            .first);
  return headOf(desc, length, firsts);
}

Status AttentionEngine::prepare(const optrt_attention_desc &desc,
                                bool isGradient) {
  OPTRT_RETURN_IF_ERROR(checkAttention(desc, true));
  const int64_t share = getShare(desc, isGradient).total;
  const CheckedSize bound = optimus_support::attentionScratchBytes(
      {.seq = desc.seq,
       .headDim = desc.head_dim,
       .isGradient = isGradient,
       .isNarrow = desc.type != OPTRT_F32,
       .hasFirstKeys = hasFirstKeys(desc),
       .capacity = desc.capacity});
  const CheckedSize needed = CheckedSize(share) * int64_t(sizeof(float));
  if (!bound.get() || !needed.isAtMost(*bound.get()))
    return internal(concat("attention of seq ", desc.seq, " and head_dim ",
                           desc.head_dim, " takes ", needed.toString(),
                           " bytes of scratch a thread; expected at most ",
                           bound.toString()));
  return reserve(share);
}

Status AttentionEngine::prepare(const Workload &workload) {
  room.seal(false);
  for (const auto &[desc, command] : workload.attentions)
    OPTRT_RETURN_IF_ERROR(prepare(desc, /*isGradient=*/false));
  for (const auto &[desc, command] : workload.attentionGrads)
    OPTRT_RETURN_IF_ERROR(prepare(desc, /*isGradient=*/true));
  room.seal(true);
  return okStatus();
}

Status AttentionEngine::attend(const optrt_attention_desc &desc,
                               const AttentionOperands &x) {
  OPTRT_RETURN_IF_ERROR(checkAttention(desc, x.q && x.k && x.v && x.out &&
                                                 x.lse &&
                                                 (desc.pool == 0 || x.pages)));
  OPTRT_ASSIGN_OR_RETURN(ElementType type, typeOf("attention", desc.type));
  return type == ElementType::BF16 ? attendAs<uint16_t>(desc, x)
                                   : attendAs<float>(desc, x);
}

/// Where the pages of a sequence are, if it has any.
static void addPages(const optrt_attention_desc &d, const AttentionOperands &x,
                     int64_t sequence, CachedToken &token) {
  if (d.pool == 0)
    return;
  const int64_t own = d.pool / d.batch;
  token.pageKeys = optimus_support::kPageTokens;
  token.pages = x.pages + sequence * (d.capacity / token.pageKeys);
  token.leastPage = -sequence * own;
  token.endPage = d.pool - sequence * own;
}

template <typename T>
void AttentionEngine::attendToken(CachedToken token, const AttentionHead &head,
                                  const T *q, const T *k, const T *v, T *out,
                                  float *lse, float *scratch) const {
  token.first = head.firsts[0];
  token.keys = head.ends[0] - token.first;
  token.headDim = head.headDim;
  token.stride = head.kvStride;
  token.k = k;
  token.v = v;
  token.lse = lse;
  token.scratch = scratch;
  if constexpr (std::is_same_v<T, float>) {
    token.q = q;
    token.out = out;
    tokenKernels.attend(token);
  } else {
    // Behind the weights there is the room of wide keys and values.
    constexpr int64_t unit = optimus_support::kMostLanes;
    float *wide = scratch + (head.capacity + unit - 1) / unit * unit;
    widenRows(q, head.headDim, /*rows=*/1, head.headDim, wide);
    token.isNarrow = true;
    token.q = wide;
    token.out = wide + head.headDim;
    tokenKernels.attend(token);
    narrowRows(token.out, /*rows=*/1, head.headDim, out, head.headDim);
  }
}

template <typename T>
Status AttentionEngine::attendAs(const optrt_attention_desc &desc,
                                 const AttentionOperands &x) {
  const auto *q = static_cast<const T *>(x.q), *k = static_cast<const T *>(x.k),
             *v = static_cast<const T *>(x.v);
  auto *out = static_cast<T *>(x.out);
  const Share share = getShare(desc, /*isGradient=*/false);
  OPTRT_RETURN_IF_ERROR(reserve(share.total));
  float *scratch = room.as<float>();
  team.each(desc.batch * desc.heads, [&](int64_t task, int thread) {
    int64_t sequence = task / desc.heads;
    float *own = scratch + thread * share.total;
    AttentionHead head = getHead(desc, x, sequence, own + share.heads);
    HeadOffsets at(desc, sequence, task % desc.heads);
    if (head.ends && desc.seq == 1 && head.ends[0] > head.firsts[0]) {
      CachedToken token = {};
      addPages(desc, x, sequence, token);
      return attendToken(token, head, q + at.q, k + at.kv, v + at.kv,
                         out + at.out, x.lse + at.lse, own);
    }
    clearTokens(desc, head.seq, out + at.out, x.lse + at.lse);
    if constexpr (!std::is_same_v<T, float>)
      if (hasTiles(desc))
        return optrt::attend(*tiles, head, q + at.q, k + at.kv, v + at.kv,
                             out + at.out, x.lse + at.lse, own);
    optrt::attend(kernels, head, q + at.q, k + at.kv, v + at.kv, out + at.out,
                  x.lse + at.lse, own);
  });
  return okStatus();
}

Status AttentionEngine::attendGrad(const optrt_attention_desc &desc,
                                   const AttentionOperands &x) {
  OPTRT_RETURN_IF_ERROR(checkAttention(desc, x.dout && x.q && x.k && x.v &&
                                                 x.out && x.lse && x.dq &&
                                                 x.dk && x.dv));
  if (desc.capacity != 0)
    return invalidArgument("attention of caches has no gradient");
  OPTRT_ASSIGN_OR_RETURN(ElementType type, typeOf("attention_grad", desc.type));
  return type == ElementType::BF16 ? attendGradAs<uint16_t>(desc, x)
                                   : attendGradAs<float>(desc, x);
}

template <typename T>
Status AttentionEngine::attendGradAs(const optrt_attention_desc &desc,
                                     const AttentionOperands &x) {
  const auto *q = static_cast<const T *>(x.q), *k = static_cast<const T *>(x.k),
             *v = static_cast<const T *>(x.v),
             *out = static_cast<const T *>(x.out),
             *dout = static_cast<const T *>(x.dout);
  auto *dq = static_cast<T *>(x.dq), *dk = static_cast<T *>(x.dk),
       *dv = static_cast<T *>(x.dv);
  const Share share = getShare(desc, /*isGradient=*/true);
  OPTRT_RETURN_IF_ERROR(reserve(share.total));
  float *scratch = room.as<float>();
  // A task has all heads that add to one head of dk and dv, in order.
  int64_t sharing = desc.heads / desc.kv_heads;
  team.each(desc.batch * desc.kv_heads, [&](int64_t task, int thread) {
    int64_t sequence = task / desc.kv_heads;
    float *own = scratch + thread * share.total;
    AttentionHead head = getHead(desc, x, sequence, own + share.heads);
    HeadOffsets at(desc, sequence, task % desc.kv_heads * sharing);
    optrt::attendGrad(kernels, head, sharing, dout + at.out, q + at.q,
                      k + at.kv, v + at.kv, out + at.out, x.lse + at.lse,
                      dq + at.q, dk + at.kv, dv + at.kv, own);
  });
  return okStatus();
}
