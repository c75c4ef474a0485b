//===- CudnnAttention.h - Attention by cuDNN --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_CUDNNATTENTION_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_CUDNNATTENTION_H

#include "CudnnGraph.h"
#include "Driver.h"

#include "optimus-runtime/Device.h"

#include <map>

namespace optrt::cuda {

/// An attention that cuDNN can run.
struct AttentionPlan {
  DnnExecutable executable;
  /// Where in the workspace the plan's own part ends and ours begin: the
  /// lengths of queries, and what a gradient keeps in f32 while it runs. The
  /// last is where all of it ends.
  int64_t queryLengths = 0, delta = 0, querySums = 0, bytes = 0;
};

/// The graph of an attention or its gradient, and the plan that a place makes
/// of it.
StatusOr<AttentionPlan> planAttention(const Cudnn &cudnn, const DnnPlace &place,
                                      const optrt_attention_desc &desc,
                                      bool isGradient);

/// Attention and its gradient on the GPU whose context is the thread's.
class CudnnAttention {
public:
  /// `architecture` is its capability's major number.
  static StatusOr<std::unique_ptr<CudnnAttention>> open(const Driver &driver,
                                                        int architecture);
  ~CudnnAttention();

  /// Makes the plan of all such attentions. Unavailable where cuDNN has none,
  /// or none within the descriptor's workspace.
  Status prepare(const optrt_attention_desc &desc, bool isGradient);

  /// Internal for one that was not prepared.
  Status run(Stream stream, const optrt_attention_desc &desc, bool isGradient,
             const AttentionOperands &operands);

private:
  using Key = std::array<int64_t, 12>;

  CudnnAttention(const Driver &driver, const Cudnn &cudnn, int architecture)
      : driver(driver), cudnn(cudnn), architecture(architecture) {}
  Status writeLengths(Stream stream, const optrt_attention_desc &desc,
                      const AttentionPlan &plan,
                      const AttentionOperands &operands) const;
  static Key keyOf(const optrt_attention_desc &desc, bool isGradient);

  const Driver &driver;
  const Cudnn &cudnn;
  const int architecture;
  DnnHandle handle = nullptr;
  std::map<Key, AttentionPlan> plans;
};

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_CUDNNATTENTION_H
