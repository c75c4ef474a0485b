//===- CpuDevice.cpp - The kernels of a rank on a processor ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/CpuDevice.h"

#include "AttentionKernels.h"
#include "Buffer.h"
#include "Gemm.h"
#include "Team.h"

#include <algorithm>
#include <cstring>

using namespace optrt;

namespace {

/// Copies of fewer elements than this are not worth waking a thread for.
constexpr int64_t parallelCopyElements = 1 << 16;

Status checkAttention(const optrt_attention_desc &d, bool pointers) {
  if (d.batch < 0 || d.seq < 0 || d.heads < 0 || d.head_dim < 1)
    return invalidArgument(
        concat("attention expects batch, seq and heads >= 0 and head_dim >= 1; "
               "found batch ",
               d.batch, ", seq ", d.seq, ", heads ", d.heads, ", head_dim ",
               d.head_dim));
  if (!pointers)
    return invalidArgument("attention expects every operand; one is null");
  return okStatus();
}

AttentionHead headOf(const optrt_attention_desc &d) {
  int64_t hidden = d.heads * d.head_dim;
  return {d.seq, d.head_dim, 3 * hidden, hidden, d.causal != 0};
}

} // namespace

class CpuDevice::Impl {
public:
  Impl(int threads, Packing packing)
      : team(std::max(threads, 1)), gemm(team, packing == Packing::Always),
        attention(bestAttentionKernels()) {}

  /// Room for each thread's share, `elements` f32.
  Status reserve(int64_t elements) {
    return attentionScratch.reserve(elements * team.size() * sizeof(float));
  }

  Team team;
  GemmEngine gemm;
  const AttentionKernels &attention;
  Buffer attentionScratch;
};

CpuDevice::CpuDevice(int threads, Packing packing)
    : impl(std::make_unique<Impl>(threads, packing)) {}
CpuDevice::~CpuDevice() = default;

int CpuDevice::threads() const { return impl->team.size(); }

void CpuDevice::setParameterVersion(uint64_t version) {
  impl->gemm.setParameterVersion(version);
}

Status CpuDevice::gemm(const optrt_gemm_desc &desc, const float *a,
                       const float *b, float *c, const float *bias,
                       const float *extra) {
  return impl->gemm.run(desc, a, b, c, bias, extra);
}

Status CpuDevice::launch(const optrt_launch_desc &desc, optrt_kernel kernel,
                         void *const *args) {
  if (desc.extent < 0 || !kernel)
    return invalidArgument(
        concat("launch of '", desc.name ? desc.name : "?",
               "' expects a kernel and an extent >= 0; found extent ",
               desc.extent, kernel ? "" : " and no kernel"));
  int64_t tasks = std::min<int64_t>(
      impl->team.size(), desc.extent / std::max<int64_t>(desc.grain, 1));
  impl->team.split(desc.extent, tasks, [&](int64_t begin, int64_t end) {
    kernel(begin, end, args);
  });
  return okStatus();
}

Status CpuDevice::copy(const optrt_copy_desc &desc, const float *src,
                       float *dst) {
  int64_t rows = desc.rows, cols = desc.cols;
  int64_t srcLd = src ? desc.src_ld : cols, dstLd = desc.dst_ld;
  if (rows < 0 || cols < 0 || (rows > 1 && (srcLd < cols || dstLd < cols)))
    return invalidArgument(concat(
        "copy expects sizes >= 0 and leading dimensions of at least one row; "
        "found ",
        rows, " x ", cols, " with leading dimensions ", desc.src_ld, " and ",
        dstLd));
  if (rows == 0 || cols == 0)
    return okStatus();
  if (!dst)
    return invalidArgument("copy expects a destination; found null");
  if (rows == 1 || (srcLd == cols && dstLd == cols)) {
    cols *= rows;
    rows = 1;
  }
  int64_t elements = rows * cols;
  int64_t tasks =
      std::min<int64_t>(impl->team.size(), elements / parallelCopyElements);
  // Split by elements, so that one long row is shared too.
  impl->team.split(elements, tasks, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t row = begin / cols, col = begin % cols;
      int64_t count = std::min(cols - col, end - begin);
      float *to = dst + row * dstLd + col;
      if (src)
        std::memcpy(to, src + row * srcLd + col, count * sizeof(float));
      else
        std::memset(to, 0, count * sizeof(float));
      begin += count;
    }
  });
  return okStatus();
}

Status CpuDevice::attention(const optrt_attention_desc &desc, const float *qkv,
                            float *out, float *lse) {
  OPTRT_RETURN_IF_ERROR(checkAttention(desc, qkv && out && lse));
  AttentionHead head = headOf(desc);
  int64_t share = impl->attention.forwardScratch(head);
  OPTRT_RETURN_IF_ERROR(impl->reserve(share));
  float *scratch = impl->attentionScratch.as<float>();
  int64_t hidden = desc.heads * desc.head_dim;
  impl->team.each(desc.batch * desc.heads, [&](int64_t task, int thread) {
    int64_t b = task / desc.heads, n = task % desc.heads;
    const float *q = qkv + b * desc.seq * 3 * hidden + n * desc.head_dim;
    int64_t at = b * desc.seq * hidden + n * desc.head_dim;
    impl->attention.forward(head, q, q + hidden, q + 2 * hidden, out + at,
                            lse + task * desc.seq, scratch + thread * share);
  });
  return okStatus();
}

Status CpuDevice::attentionGrad(const optrt_attention_desc &desc,
                                const float *dout, const float *qkv,
                                const float *out, const float *lse,
                                float *dqkv) {
  OPTRT_RETURN_IF_ERROR(
      checkAttention(desc, dout && qkv && out && lse && dqkv));
  AttentionHead head = headOf(desc);
  int64_t share = impl->attention.backwardScratch(head);
  OPTRT_RETURN_IF_ERROR(impl->reserve(share));
  float *scratch = impl->attentionScratch.as<float>();
  int64_t hidden = desc.heads * desc.head_dim;
  impl->team.each(desc.batch * desc.heads, [&](int64_t task, int thread) {
    int64_t b = task / desc.heads, n = task % desc.heads;
    int64_t in = b * desc.seq * 3 * hidden + n * desc.head_dim;
    int64_t at = b * desc.seq * hidden + n * desc.head_dim;
    const float *q = qkv + in;
    float *dq = dqkv + in;
    impl->attention.backward(head, dout + at, q, q + hidden, q + 2 * hidden,
                             out + at, lse + task * desc.seq, dq, dq + hidden,
                             dq + 2 * hidden, scratch + thread * share);
  });
  return okStatus();
}

Status CpuDevice::reserveAttention(const optrt_attention_desc &desc) {
  OPTRT_RETURN_IF_ERROR(checkAttention(desc, true));
  AttentionHead head = headOf(desc);
  return impl->reserve(std::max(impl->attention.forwardScratch(head),
                                impl->attention.backwardScratch(head)));
}

size_t CpuDevice::scratchBytes() const {
  return impl->attentionScratch.size() + impl->gemm.scratchBytes();
}
