//===- AttentionEngine.h - Attention of many heads ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_ATTENTIONENGINE_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_ATTENTIONENGINE_H

#include "AttentionHeads.h"
#include "Buffer.h"
#include "FewRowsKernels.h"
#include "Team.h"
#include "optimus-runtime/Device.h"

namespace optrt {

/// Shares the heads of all sequences out to a team. Operands are of f32 or
/// bf16, as their descriptor says.
class AttentionEngine {
public:
  explicit AttentionEngine(Team &team)
      : team(team), kernels(bestAttentionKernels()),
        tokenKernels(bestFewRowsKernels()), tiles(bestTiledAttention()) {}

  /// Makes room for what a program will do; later calls may not ask for more.
  Status prepare(const Workload &workload);

  /// As Device::attention() and Device::attentionGrad().
  Status attend(const optrt_attention_desc &desc, const AttentionOperands &x);
  Status attendGrad(const optrt_attention_desc &desc,
                    const AttentionOperands &x);

  size_t scratchBytes() const { return room.size(); }

private:
  /// Whether tiles compute it: of a chunk of tokens that sees a cache.
  bool hasTiles(const optrt_attention_desc &desc) const;
  /// Elements of a thread: what kernels need, and all.
  struct Share {
    int64_t heads, total;
  };
  Share getShare(const optrt_attention_desc &desc, bool isGradient) const;
  /// A head of a sequence; where its tokens have positions or a window, `room`
  /// is for the first key of each.
  AttentionHead getHead(const optrt_attention_desc &desc,
                        const AttentionOperands &x, int64_t sequence,
                        float *room) const;
  Status prepare(const optrt_attention_desc &desc, bool isGradient);
  /// Room for each thread's share, `elements` f32.
  Status reserve(int64_t elements);
  /// Of f32 or bf16.
  template <typename T>
  Status attendAs(const optrt_attention_desc &desc, const AttentionOperands &x);
  template <typename T>
  Status attendGradAs(const optrt_attention_desc &desc,
                      const AttentionOperands &x);

  /// Of a head whose only token sees keys of a cache; `token` knows its pages.
  template <typename T>
  void attendToken(CachedToken token, const AttentionHead &head, const T *q,
                   const T *k, const T *v, T *out, float *lse,
                   float *scratch) const;

  Team &team;
  const AttentionKernels &kernels;
  const FewRowsKernels &tokenKernels; ///< of a token a sequence
  const TiledAttention *tiles;        ///< null where there are none
  Buffer room;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_ATTENTIONENGINE_H
