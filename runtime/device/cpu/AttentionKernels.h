//===- AttentionKernels.h - Attention of one head --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The same kernels are compiled for several instruction sets and chosen when
// the program runs, so that one binary is fast on any machine. This header is
// all that those translation units include: an inline function of a shared
// header, compiled there, could be picked by the linker for every processor.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_ATTENTIONKERNELS_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_ATTENTIONKERNELS_H

#include <stdint.h>

namespace optrt {

/// One query head of one sequence. Rows are tokens; strides are in elements.
struct AttentionHead {
  int64_t seq, headDim;
  int64_t qStride;   ///< from a token's q (dq) to the next one's
  int64_t kvStride;  ///< the same for k, v, dk and dv
  int64_t outStride; ///< the same for out and dout
  bool causal;
  int64_t keys; ///< tokens see the first ones only, from 1 to seq; from 0 in
                ///< a cache
  /// The first key that each token sees, at most its own place; null where it
  /// is the sequence's first. Only with `causal`.
  const int32_t *firsts = nullptr;
  /// Of a cache: the end of each token's keys, at most `keys`, and the room for
  /// them. It has first keys too, no gradient, and is not `causal`.
  const int32_t *ends = nullptr;
  int64_t capacity = 0;
};

/// The kernels for one instruction set. Scratch is 64-byte aligned.
struct AttentionKernels {
  const char *name;
  /// Elements of scratch that `forward` and `backward` need.
  int64_t (*forwardScratch)(const AttentionHead &);
  int64_t (*backwardScratch)(const AttentionHead &);
  void (*forward)(const AttentionHead &, const float *q, const float *k,
                  const float *v, float *out, float *lse, float *scratch);
  /// Writes dq. dk and dv are written too, or added to with `addToKv`: heads
  /// of queries that share keys and values take turns.
  void (*backward)(const AttentionHead &, const float *dout, const float *q,
                   const float *k, const float *v, const float *out,
                   const float *lse, float *dq, float *dk, float *dv,
                   bool addToKv, float *scratch);
  /// y[i] = 2^x[i] for x[i] in [-126, 127]; below that, 2^-126.
  void (*exp2)(const float *x, float *y, int64_t n);
};

/// The forward of a head of a cache with operands of bf16, by a processor's
/// tiles (AMX): products are exact in f32, as those of widened operands, and
/// are added in another order. `out` is f32. Scratch is as above.
struct TiledAttention {
  int64_t (*forwardScratch)(const AttentionHead &);
  void (*forward)(const AttentionHead &, const uint16_t *q, const uint16_t *k,
                  const uint16_t *v, float *out, float *lse, float *scratch);
};

extern const AttentionKernels attentionKernelsBaseline;
#ifdef __x86_64__
extern const AttentionKernels attentionKernelsV3;
extern const AttentionKernels attentionKernelsV4;
extern const TiledAttention tiledAttention;
#endif

/// The fastest kernels that this processor can run.
const AttentionKernels &bestAttentionKernels();

/// Null where the processor has no tiles, the system does not let them be used,
/// or oneDNN may not.
const TiledAttention *bestTiledAttention();

/// Every set of kernels, fastest first, that this processor can run: `count`
/// of them are written to `sets` (room for 3).
void supportedAttentionKernels(const AttentionKernels *sets[3], int &count);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_ATTENTIONKERNELS_H
