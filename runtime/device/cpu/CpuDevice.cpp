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
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

using namespace optrt;

namespace {

/// Copies of fewer elements than this are not worth waking a thread for.
constexpr int64_t parallelCopyBytes = 4 << 16;

Status checkAttention(const optrt_attention_desc &d, bool pointers) {
  if (d.batch < 0 || d.seq < 0 || d.heads < 0 || d.kv_heads < 1 ||
      d.heads % d.kv_heads != 0 || d.head_dim < 1)
    return invalidArgument(
        concat("attention expects batch, seq and heads >= 0, kv_heads that "
               "divide heads and head_dim >= 1; found batch ",
               d.batch, ", seq ", d.seq, ", heads ", d.heads, ", kv_heads ",
               d.kv_heads, ", head_dim ", d.head_dim));
  if (d.q_ld < d.heads * d.head_dim || d.kv_ld < d.kv_heads * d.head_dim)
    return invalidArgument(
        concat("attention expects leading dimensions of at least a token's "
               "heads; found q_ld ",
               d.q_ld, " and kv_ld ", d.kv_ld));
  if (!pointers)
    return invalidArgument("attention expects every operand; one is null");
  return okStatus();
}

/// A head of a sequence with this many tokens that are not padding.
AttentionHead headOf(const optrt_attention_desc &d, int64_t length) {
  return {d.seq,
          d.head_dim,
          d.q_ld,
          d.kv_ld,
          d.heads * d.head_dim,
          d.causal != 0,
          std::clamp<int64_t>(length, std::min<int64_t>(d.seq, 1), d.seq)};
}

/// Where head `head` of sequence `batch` begins.
struct HeadOffsets {
  HeadOffsets(const optrt_attention_desc &d, int64_t batch, int64_t head)
      : q(batch * d.seq * d.q_ld + head * d.head_dim),
        kv(batch * d.seq * d.kv_ld +
           head / (d.heads / d.kv_heads) * d.head_dim),
        out((batch * d.seq * d.heads + head) * d.head_dim),
        lse((batch * d.heads + head) * d.seq) {}

  int64_t q;   ///< in q and dq
  int64_t kv;  ///< in k, v, dk and dv
  int64_t out; ///< in out and dout
  int64_t lse;
};

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

Status CpuDevice::start() {
  OPTRT_RETURN_IF_ERROR(impl->team.start());
  return impl->gemm.start();
}

int CpuDevice::threads() const { return impl->team.size(); }

void CpuDevice::setParameterVersion(uint64_t version) {
  impl->gemm.setParameterVersion(version);
}

StatusOr<DeviceMemory> CpuDevice::allocate(int64_t bytes, const char *purpose) {
  constexpr int64_t hugePage = 2 << 20, alignment = 64;
  const int64_t unit = bytes >= hugePage ? hugePage : alignment;
  const int64_t rounded = (bytes + unit - 1) / unit * unit;
  if (rounded == 0)
    return DeviceMemory();
  void *start = std::aligned_alloc(unit, rounded);
  if (!start)
    return unavailable(concat("cannot allocate ", bytes, " bytes for ", purpose,
                              ": use a mesh with more ranks or a smaller "
                              "batch"));
  if (unit == hugePage)
    madvise(start, rounded, MADV_HUGEPAGE);
  std::memset(start, 0, rounded);
  return DeviceMemory(*this, start, rounded);
}

void CpuDevice::release(void *start) { std::free(start); }

Status CpuDevice::clear(Queue, void *to, int64_t bytes) {
  std::memset(to, 0, bytes);
  return okStatus();
}

Status CpuDevice::write(Queue, void *to, const void *from, int64_t bytes) {
  std::memcpy(to, from, bytes);
  return okStatus();
}

Status CpuDevice::read(Queue, void *to, const void *from, int64_t bytes) {
  std::memcpy(to, from, bytes);
  return okStatus();
}

Status CpuDevice::gemm(Queue, const optrt_gemm_desc &desc, const float *a,
                       const float *b, float *c, const float *bias,
                       const float *extra) {
  return impl->gemm.run(desc, a, b, c, bias, extra);
}

Status CpuDevice::launch(Queue, const optrt_launch_desc &desc,
                         optrt_kernel kernel, void *const *args) {
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

Status CpuDevice::copy(Queue, const optrt_copy_desc &desc, const void *src,
                       void *dst) {
  int64_t rows = desc.rows, cols = desc.cols;
  int64_t srcLd = src ? desc.src_ld : cols, dstLd = desc.dst_ld;
  if (rows < 0 || cols < 0 || desc.element_bytes < 1 ||
      (rows > 1 && (srcLd < cols || dstLd < cols)))
    return invalidArgument(concat(
        "copy expects sizes >= 0, elements of bytes and leading dimensions of "
        "at least one row; found ",
        rows, " x ", cols, " of ", desc.element_bytes,
        " bytes with leading dimensions ", desc.src_ld, " and ", dstLd));
  if (rows == 0 || cols == 0)
    return okStatus();
  if (!dst)
    return invalidArgument("copy expects a destination; found null");
  if (rows == 1 || (srcLd == cols && dstLd == cols)) {
    cols *= rows;
    rows = 1;
  }
  // From here on in bytes: elements of all types are alike.
  const auto *from = static_cast<const std::byte *>(src);
  auto *into = static_cast<std::byte *>(dst);
  cols *= desc.element_bytes;
  srcLd *= desc.element_bytes;
  dstLd *= desc.element_bytes;
  int64_t bytes = rows * cols;
  int64_t tasks =
      std::min<int64_t>(impl->team.size(), bytes / parallelCopyBytes);
  // Split by bytes, so that one long row is shared too.
  impl->team.split(bytes, tasks, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t row = begin / cols, col = begin % cols;
      int64_t count = std::min(cols - col, end - begin);
      std::byte *to = into + row * dstLd + col;
      if (src)
        std::memcpy(to, from + row * srcLd + col, count);
      else
        std::memset(to, 0, count);
      begin += count;
    }
  });
  return okStatus();
}

Status CpuDevice::attention(Queue, const optrt_attention_desc &desc,
                            const float *q, const float *k, const float *v,
                            const int32_t *lengths, float *out, float *lse) {
  OPTRT_RETURN_IF_ERROR(checkAttention(desc, q && k && v && out && lse));
  int64_t share = impl->attention.forwardScratch(headOf(desc, desc.seq));
  OPTRT_RETURN_IF_ERROR(impl->reserve(share));
  float *scratch = impl->attentionScratch.as<float>();
  impl->team.each(desc.batch * desc.heads, [&](int64_t task, int thread) {
    int64_t sequence = task / desc.heads;
    AttentionHead head =
        headOf(desc, lengths ? lengths[sequence] : desc.seq);
    HeadOffsets at(desc, sequence, task % desc.heads);
    impl->attention.forward(head, q + at.q, k + at.kv, v + at.kv, out + at.out,
                            lse + at.lse, scratch + thread * share);
  });
  return okStatus();
}

Status CpuDevice::attentionGrad(Queue, const optrt_attention_desc &desc,
                                const float *dout, const float *q,
                                const float *k, const float *v,
                                const int32_t *lengths, const float *out,
                                const float *lse, float *dq, float *dk,
                                float *dv) {
  OPTRT_RETURN_IF_ERROR(checkAttention(desc, dout && q && k && v && out &&
                                                 lse && dq && dk && dv));
  int64_t share = impl->attention.backwardScratch(headOf(desc, desc.seq));
  OPTRT_RETURN_IF_ERROR(impl->reserve(share));
  float *scratch = impl->attentionScratch.as<float>();
  // A task has all heads that add to one head of dk and dv, in order.
  int64_t sharing = desc.heads / desc.kv_heads;
  impl->team.each(desc.batch * desc.kv_heads, [&](int64_t task, int thread) {
    int64_t sequence = task / desc.kv_heads;
    AttentionHead head =
        headOf(desc, lengths ? lengths[sequence] : desc.seq);
    int64_t first = task % desc.kv_heads * sharing;
    for (int64_t i = 0; i < sharing; ++i) {
      HeadOffsets at(desc, sequence, first + i);
      impl->attention.backward(head, dout + at.out, q + at.q, k + at.kv,
                               v + at.kv, out + at.out, lse + at.lse, dq + at.q,
                               dk + at.kv, dv + at.kv,
                               /*addToKv=*/i > 0, scratch + thread * share);
    }
  });
  return okStatus();
}

Status CpuDevice::reserveAttention(const optrt_attention_desc &desc) {
  OPTRT_RETURN_IF_ERROR(checkAttention(desc, true));
  AttentionHead head = headOf(desc, desc.seq);
  return impl->reserve(std::max(impl->attention.forwardScratch(head),
                                impl->attention.backwardScratch(head)));
}

size_t CpuDevice::scratchBytes() const {
  return impl->attentionScratch.size() + impl->gemm.scratchBytes();
}
