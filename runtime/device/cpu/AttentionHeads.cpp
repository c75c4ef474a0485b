//===- AttentionHeads.cpp - Attention of heads, of f32 or bf16 ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionHeads.h"

#include "NarrowRows.h"
#include "optimus-support/DeviceScratch.h"

using namespace optrt;
using optimus_support::kMostLanes;
using optimus_support::kWideAttentionOperands;
using optimus_support::kWideGradientOperands;

namespace {

/// Up to whole vectors.
int64_t padded(int64_t elements) {
  return (elements + kMostLanes - 1) / kMostLanes * kMostLanes;
}

/// Rows of keys that there is room for.
int64_t keyRows(const AttentionHead &head) {
  return head.ends ? head.capacity : head.seq;
}

/// A head's operands in f32, each without gaps, behind what kernels need.
class WideOperands {
public:
  WideOperands(const AttentionHead &narrow, float *scratch, int64_t ofKernels)
      : head(narrow), next(scratch + padded(ofKernels)) {
    head.qStride = head.kvStride = head.outStride = head.headDim;
  }

  float *make() { return makeRows(head.seq); }
  void widen(const uint16_t *from, int64_t stride, float *to) const {
    widenRows(from, stride, head.seq, head.headDim, to);
  }
  float *make(const uint16_t *from, int64_t stride) {
    float *made = make();
    widen(from, stride, made);
    return made;
  }
  /// Of keys or values.
  float *makeKeys(const uint16_t *from, int64_t stride) {
    float *made = makeRows(keyRows(head));
    widenRows(from, stride, head.keys, head.headDim, made);
    return made;
  }
  void narrow(const float *from, uint16_t *to, int64_t stride) const {
    narrowRows(from, head.seq, head.headDim, to, stride);
  }

  AttentionHead head;

private:
  float *makeRows(int64_t rows) {
    float *made = next;
    next += padded(rows * head.headDim);
    return made;
  }

  float *next;
};

} // namespace

int64_t optrt::attentionScratch(const AttentionKernels &kernels,
                                const AttentionHead &head, bool isGradient,
                                bool isNarrow) {
  const int64_t ofKernels = isGradient ? kernels.backwardScratch(head)
                                       : kernels.forwardScratch(head);
  if (!isNarrow)
    return ofKernels;
  const int64_t operands =
      isGradient ? kWideGradientOperands : kWideAttentionOperands;
  constexpr int64_t ofKeys = 2;
  return padded(ofKernels) +
         (operands - ofKeys) * padded(head.seq * head.headDim) +
         ofKeys * padded(keyRows(head) * head.headDim);
}

int64_t optrt::attentionScratch(const TiledAttention &tiles,
                                const AttentionHead &head) {
  return padded(tiles.forwardScratch(head)) + padded(head.seq * head.headDim);
}

void optrt::attend(const AttentionKernels &kernels, const AttentionHead &head,
                   const float *q, const float *k, const float *v, float *out,
                   float *lse, float *scratch) {
  kernels.forward(head, q, k, v, out, lse, scratch);
}

void optrt::attend(const AttentionKernels &kernels, const AttentionHead &head,
                   const uint16_t *q, const uint16_t *k, const uint16_t *v,
                   uint16_t *out, float *lse, float *scratch) {
  WideOperands wide(head, scratch, kernels.forwardScratch(head));
  const float *wideQ = wide.make(q, head.qStride);
  const float *wideK = wide.makeKeys(k, head.kvStride);
  const float *wideV = wide.makeKeys(v, head.kvStride);
  float *wideOut = wide.make();
  kernels.forward(wide.head, wideQ, wideK, wideV, wideOut, lse, scratch);
  wide.narrow(wideOut, out, head.outStride);
}

void optrt::attend(const TiledAttention &tiles, const AttentionHead &head,
                   const uint16_t *q, const uint16_t *k, const uint16_t *v,
                   uint16_t *out, float *lse, float *scratch) {
  float *wideOut = scratch + padded(tiles.forwardScratch(head));
  AttentionHead wide = head;
  wide.outStride = head.headDim;
  tiles.forward(wide, q, k, v, wideOut, lse, scratch);
  narrowRows(wideOut, head.seq, head.headDim, out, head.outStride);
}

void optrt::attendGrad(const AttentionKernels &kernels,
                       const AttentionHead &head, int64_t sharing,
                       const float *dout, const float *q, const float *k,
                       const float *v, const float *out, const float *lse,
                       float *dq, float *dk, float *dv, float *scratch) {
  for (int64_t i = 0; i < sharing; ++i) {
    const int64_t at = i * head.headDim;
    kernels.backward(head, dout + at, q + at, k, v, out + at,
                     lse + i * head.seq, dq + at, dk, dv,
                     /*addToKv=*/i > 0, scratch);
  }
}

void optrt::attendGrad(const AttentionKernels &kernels,
                       const AttentionHead &head, int64_t sharing,
                       const uint16_t *dout, const uint16_t *q,
                       const uint16_t *k, const uint16_t *v,
                       const uint16_t *out, const float *lse, uint16_t *dq,
                       uint16_t *dk, uint16_t *dv, float *scratch) {
  WideOperands wide(head, scratch, kernels.backwardScratch(head));
  const float *wideK = wide.make(k, head.kvStride);
  const float *wideV = wide.make(v, head.kvStride);
  float *wideDk = wide.make(), *wideDv = wide.make();
  float *wideDout = wide.make(), *wideQ = wide.make(), *wideOut = wide.make(),
        *wideDq = wide.make();
  for (int64_t i = 0; i < sharing; ++i) {
    const int64_t at = i * head.headDim;
    wide.widen(dout + at, head.outStride, wideDout);
    wide.widen(q + at, head.qStride, wideQ);
    wide.widen(out + at, head.outStride, wideOut);
    kernels.backward(wide.head, wideDout, wideQ, wideK, wideV, wideOut,
                     lse + i * head.seq, wideDq, wideDk, wideDv,
                     /*addToKv=*/i > 0, scratch);
    wide.narrow(wideDq, dq + at, head.qStride);
  }
  wide.narrow(wideDk, dk, head.kvStride);
  wide.narrow(wideDv, dv, head.kvStride);
}
