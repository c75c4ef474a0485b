//===- GpuScratch.h - What a GPU's device holds besides plans ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_GPUSCRATCH_H
#define OPTIMUS_SUPPORT_GPUSCRATCH_H

#include <cstdint>

namespace optimus_support {

/// The workspace of products, where a program has any: what NVIDIA recommends
/// for cuBLASLt on Hopper.
inline constexpr int64_t kGpuWorkspaceBytes = int64_t(32) << 20;

/// What all ranks of a GPU take of it besides, at most: the code of kernels and
/// libraries, and recorded steps. An estimate; runs print what they measured.
/// Our kernels have a few MiB, and libraries load the few that a
/// program uses of some hundred MiB; a node of a graph takes some KiB.
inline constexpr int64_t kGpuCodeBytes = int64_t(1) << 30;

/// The latest generation of GPUs (sm_90) whose deterministic gradient cuDNN
/// finds by itself. On later ones an engine has to be named for it.
inline constexpr int kLatestDeterministicGpu = 9;

/// An attention as cuDNN is asked for it.
struct CudnnAttentionShape {
  int64_t batch, seq, heads, kvHeads, headDim;
  bool isGradient, isDeterministic;
};

/// The most bytes taken by cuDNN 9.16 to 9.28 and by us for attention, reserved
/// by a program. Plans take next to nothing but for the gradient: where heads
/// of queries share keys, the gradients of keys and values for each of them;
/// where it is deterministic, the gradients of all scores; and otherwise, on
/// all GPUs but those of sm_90, sums of the queries' gradient in f32, up to a
/// multiple of 8 tokens. Of ours are the sums of dout times out and, where the
/// gradient is not deterministic, such sums, too.
inline int64_t cudnnWorkspaceBytes(const CudnnAttentionShape &d) {
  constexpr int64_t next = int64_t(1) << 20, tile = 128, bf16 = 2, f32 = 4;
  if (!d.isGradient)
    return next;
  const int64_t rows = d.batch * d.heads * d.seq;
  const int64_t padded = (d.seq + tile - 1) / tile * tile;
  const int64_t keys =
      d.heads == d.kvHeads ? 0 : 2 * d.batch * d.heads * padded * d.headDim;
  const int64_t scores = d.batch * d.heads * padded * padded;
  constexpr int64_t group = 8;
  const int64_t grouped =
      d.batch * d.heads * ((d.seq + group - 1) / group * group);
  return next + rows * f32 + keys * bf16 +
         (d.isDeterministic ? scores * bf16
                            : (rows + grouped) * d.headDim * f32);
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_GPUSCRATCH_H
