//===- AttentionHeads.h - Attention of heads, of f32 or bf16 ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a task of attention does. Operands of bf16 are widened head by head,
// results narrowed from f32: exact but for the one rounding of what is stored.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_ATTENTIONHEADS_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_ATTENTIONHEADS_H

#include "AttentionKernels.h"

namespace optrt {

/// Elements of f32 that a task needs as scratch.
int64_t attentionScratch(const AttentionKernels &kernels,
                         const AttentionHead &head, bool isGradient,
                         bool isNarrow);

/// The same by tiles, where keys are those of a cache.
int64_t attentionScratch(const TiledAttention &tiles,
                         const AttentionHead &head);

/// What a head of queries attends to.
void attend(const AttentionKernels &kernels, const AttentionHead &head,
            const float *q, const float *k, const float *v, float *out,
            float *lse, float *scratch);
void attend(const AttentionKernels &kernels, const AttentionHead &head,
            const uint16_t *q, const uint16_t *k, const uint16_t *v,
            uint16_t *out, float *lse, float *scratch);

void attend(const TiledAttention &tiles, const AttentionHead &head,
            const uint16_t *q, const uint16_t *k, const uint16_t *v,
            uint16_t *out, float *lse, float *scratch);

/// The gradient of so many heads of queries, next to each other, that share one
/// of keys and values. dk and dv are their sums, in order.
void attendGrad(const AttentionKernels &kernels, const AttentionHead &head,
                int64_t sharing, const float *dout, const float *q,
                const float *k, const float *v, const float *out,
                const float *lse, float *dq, float *dk, float *dv,
                float *scratch);
void attendGrad(const AttentionKernels &kernels, const AttentionHead &head,
                int64_t sharing, const uint16_t *dout, const uint16_t *q,
                const uint16_t *k, const uint16_t *v, const uint16_t *out,
                const float *lse, uint16_t *dq, uint16_t *dk, uint16_t *dv,
                float *scratch);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_ATTENTIONHEADS_H
