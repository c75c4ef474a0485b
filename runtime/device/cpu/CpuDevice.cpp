//===- CpuDevice.cpp - The kernels of a rank on a processor ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/CpuDevice.h"

#include "AttentionHeads.h"
#include "Buffer.h"
#include "Gemm.h"
#include "NarrowProducts.h"
#include "Paging.h"
#include "Team.h"
#include "device/Descriptors.h"
#include "optimus-support/DeviceScratch.h"
#include "optimus-support/Pages.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

using namespace optrt;
using optimus_support::CheckedSize;
using optimus_support::ElementType;
using optimus_support::kMaxElements;
using optimus_support::matrixExtent;

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
  const CheckedSize tokens = CheckedSize(d.batch) * d.seq;
  const CheckedSize width = CheckedSize(d.heads) * d.head_dim;
  const CheckedSize kvWidth = CheckedSize(d.kv_heads) * d.head_dim;
  if (!width.isAtMost(d.q_ld) || !kvWidth.isAtMost(d.kv_ld))
    return invalidArgument(
        concat("attention expects leading dimensions of at least a token's "
               "heads; found q_ld ",
               d.q_ld, " and kv_ld ", d.kv_ld));
  const CheckedSize extents[] = {matrixExtent(tokens, width, d.q_ld),
                                 matrixExtent(tokens, kvWidth, d.kv_ld),
                                 tokens * d.heads};
  for (const CheckedSize &extent : extents)
    if (tokens.get() != 0 && !extent.isAtMost(kMaxElements))
      return invalidArgument(concat(
          "attention of batch ", d.batch, ", seq ", d.seq, ": an operand has ",
          extent.toString(), " elements; expected at most ", kMaxElements));
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
  explicit Impl(int threads)
      : team(std::max(threads, 1)), gemm(team),
        attention(bestAttentionKernels()) {}

  /// Room for each thread's share, `elements` f32.
  Status reserve(int64_t elements) {
    return room.reserve(CheckedSize(elements) * team.size() *
                        int64_t(sizeof(float)));
  }

  /// Whether a product is one for oneDNN, or made of blocks.
  StatusOr<bool> isWhole(const optrt_gemm_desc &desc) {
    if (desc.factor_type == OPTRT_F32)
      return true;
    return GemmEngine::takesNarrow() ? gemm.isWhole(desc) : false;
  }

  /// Of f32 or bf16.
  template <typename T>
  Status attend(const optrt_attention_desc &desc, const T *q, const T *k,
                const T *v, const int32_t *lengths, T *out, float *lse);
  template <typename T>
  Status attendGrad(const optrt_attention_desc &desc, const T *dout, const T *q,
                    const T *k, const T *v, const int32_t *lengths,
                    const T *out, const float *lse, T *dq, T *dk, T *dv);

  Team team;
  GemmEngine gemm;
  NarrowProducts narrow{team, !GemmEngine::takesNarrow()};
  const AttentionKernels &attention;
  Buffer room; ///< attention's
  Paging paging;
};

CpuDevice::CpuDevice(int threads) : impl(std::make_unique<Impl>(threads)) {}
CpuDevice::~CpuDevice() = default;

Status CpuDevice::start() {
  OPTRT_RETURN_IF_ERROR(impl->team.start());
  return impl->gemm.start();
}

int CpuDevice::threads() const { return impl->team.size(); }

Queue CpuDevice::queue(std::string_view name) {
  return impl->paging.queue(name);
}

Event CpuDevice::record(Queue queue) { return impl->paging.record(queue); }

Status CpuDevice::await(Queue queue, Event event) {
  return impl->paging.await(queue, event);
}

Status CpuDevice::synchronize() { return impl->paging.synchronize(); }

Status CpuDevice::call(Queue queue, std::function<Status()> work) {
  if (queue.number == kCompute.number)
    return work();
  impl->paging.put(queue, std::move(work));
  return okStatus();
}

StatusOr<DeviceMemory> CpuDevice::allocate(int64_t bytes, const char *purpose) {
  OPTRT_RETURN_IF_ERROR(checkSize(bytes, purpose));
  // Pages, so that files are read and written where buffers lie.
  constexpr int64_t hugePage = 2 << 20, page = optimus_support::kPageBytes;
  constexpr int64_t alignment = 64;
  const int64_t unit = bytes >= hugePage ? hugePage
                       : bytes >= page   ? page
                                         : alignment;
  const int64_t rounded = (bytes + unit - 1) / unit * unit;
  if (rounded == 0)
    return DeviceMemory();
  void *start = std::aligned_alloc(unit, rounded);
  if (!start)
    return unavailable(concat("cannot allocate ", bytes, " bytes for ", purpose,
                              ": use a mesh with more ranks or a smaller "
                              "batch"))
        .withAdvice(plannedMemory());
  if (unit == hugePage)
    madvise(start, rounded, MADV_HUGEPAGE);
  std::memset(start, 0, rounded);
  return DeviceMemory(*this, start, rounded);
}

StatusOr<DeviceMemory> CpuDevice::allocateInFile(int64_t bytes,
                                                 const char *purpose,
                                                 const std::string &folder) {
  OPTRT_RETURN_IF_ERROR(checkSize(bytes, purpose));
  if (bytes == 0)
    return DeviceMemory();
  OPTRT_ASSIGN_OR_RETURN(char *start,
                         impl->paging.allocate(bytes, purpose, folder));
  return DeviceMemory(*this, start, bytes);
}

Transfers CpuDevice::takeTransfers() { return impl->paging.takeTransfers(); }

void *CpuDevice::hostAddress(void *address) {
  return impl->paging.find(address) ? nullptr : address;
}

void CpuDevice::release(void *start) {
  if (!impl->paging.release(start))
    std::free(start);
}

Status CpuDevice::clear(Queue, void *to, int64_t bytes) {
  return impl->paging.clear(to, bytes);
}

Status CpuDevice::write(Queue, void *to, const void *from, int64_t bytes) {
  return impl->paging.copy(from, to, bytes);
}

Status CpuDevice::read(Queue, void *to, const void *from, int64_t bytes) {
  return impl->paging.copy(from, to, bytes);
}

Status CpuDevice::prepare(const Workload &workload) {
  Workload products;
  products.packs = workload.packs;
  impl->narrow.seal(false);
  for (const optrt_gemm_desc &desc : workload.products) {
    OPTRT_ASSIGN_OR_RETURN(const bool isWhole, impl->isWhole(desc));
    if (isWhole) {
      products.products.push_back(desc);
      continue;
    }
    OPTRT_RETURN_IF_ERROR(impl->narrow.prepare(desc));
    for (const optrt_gemm_desc &part : impl->narrow.productsOf(desc))
      products.products.push_back(part);
  }
  impl->narrow.seal(true);
  OPTRT_RETURN_IF_ERROR(impl->gemm.prepare(products));
  impl->room.seal(false);
  auto reserve = [&](const optrt_attention_desc &desc,
                     bool isGradient) -> Status {
    OPTRT_RETURN_IF_ERROR(checkAttention(desc, true));
    const bool isNarrow = desc.type != OPTRT_F32;
    const int64_t share = attentionScratch(
        impl->attention, headOf(desc, desc.seq), isGradient, isNarrow);
    const CheckedSize bound = optimus_support::attentionScratchBytes(
        desc.seq, desc.head_dim, isGradient, isNarrow);
    const CheckedSize needed = CheckedSize(share) * int64_t(sizeof(float));
    if (!bound.get() || !needed.isAtMost(*bound.get()))
      return internal(concat("attention of seq ", desc.seq, " and head_dim ",
                             desc.head_dim, " takes ", needed.toString(),
                             " bytes of scratch a thread; expected at most ",
                             bound.toString()));
    return impl->reserve(share);
  };
  for (const optrt_attention_desc &desc : workload.attentions)
    OPTRT_RETURN_IF_ERROR(reserve(desc, false));
  for (const optrt_attention_desc &desc : workload.attentionGrads)
    OPTRT_RETURN_IF_ERROR(reserve(desc, true));
  impl->room.seal(true);
  return okStatus();
}

Status CpuDevice::pack(Queue, const optrt_pack_desc &desc, const float *src,
                       float *dst) {
  return impl->gemm.pack(desc, src, dst);
}

static const float *asF32(const void *address) {
  return static_cast<const float *>(address);
}
static float *asF32(void *address) { return static_cast<float *>(address); }
static const uint16_t *asBF16(const void *address) {
  return static_cast<const uint16_t *>(address);
}
static uint16_t *asBF16(void *address) {
  return static_cast<uint16_t *>(address);
}

/// A type that descriptors name and that this device computes with.
static StatusOr<ElementType> typeOf(const char *what, int32_t type) {
  if (type == int32_t(ElementType::F32) || type == int32_t(ElementType::BF16))
    return ElementType(type);
  return invalidArgument(concat(
      what, " expects elements of f32 or bf16; found ",
      type >= 0 && type < int32_t(std::size(optimus_support::kElementTypeNames))
          ? std::string(toString(ElementType(type)))
          : concat("type ", type)));
}

Status CpuDevice::gemm(Queue, const optrt_gemm_desc &desc, const void *a,
                       const void *b, void *c, const void *bias,
                       const void *extra) {
  OPTRT_ASSIGN_OR_RETURN(ElementType factors, typeOf("gemm", desc.factor_type));
  OPTRT_ASSIGN_OR_RETURN(ElementType result, typeOf("gemm", desc.result_type));
  OPTRT_ASSIGN_OR_RETURN(ElementType ofBias, typeOf("gemm", desc.bias_type));
  OPTRT_ASSIGN_OR_RETURN(ElementType ofExtra, typeOf("gemm", desc.extra_type));
  if (factors == ElementType::F32) {
    if (result != factors || ofBias != factors || ofExtra != factors)
      return invalidArgument("gemm of f32 expects all operands to be f32");
    return impl->gemm.run(desc, asF32(a), asF32(b), asF32(c), asF32(bias),
                          asF32(extra));
  }
  OPTRT_RETURN_IF_ERROR(check(desc, a, b, c, bias, extra));
  if (desc.packed_b)
    return invalidArgument("gemm of bf16 expects a B that is not packed");
  OPTRT_ASSIGN_OR_RETURN(const bool isWhole, impl->isWhole(desc));
  if (isWhole)
    return impl->gemm.run(desc, a, b, c, bias, extra);
  return impl->narrow.gemm(
      desc, asBF16(a), asBF16(b), {c, desc.ldc, result}, {bias, desc.n, ofBias},
      {extra, desc.ld_extra, ofExtra},
      [this](const optrt_gemm_desc &block, const void *factorA,
             const void *factorB, float *product) {
        return impl->gemm.run(block, factorA, factorB, product, nullptr,
                              nullptr);
      });
}

Status CpuDevice::launch(Queue, const optrt_launch_desc &desc,
                         const optimus_kernel &kernel, void *const *args) {
  if (desc.extent < 0 || !kernel.run)
    return invalidArgument(
        concat("launch of '", desc.name ? desc.name : "?",
               "' expects a processor's kernel and an extent >= 0; found "
               "extent ",
               desc.extent, kernel.run ? "" : " and no code for processors"));
  int64_t tasks = std::min<int64_t>(
      impl->team.size(), desc.extent / std::max<int64_t>(desc.grain, 1));
  impl->team.split(desc.extent, tasks, [&](int64_t begin, int64_t end) {
    kernel.run(begin, end, args);
  });
  return okStatus();
}

Status CpuDevice::copy(Queue queue, const optrt_copy_desc &desc,
                       const void *src, void *dst) {
  OPTRT_RETURN_IF_ERROR(check(desc, src, dst));
  int64_t rows = desc.rows, cols = desc.cols;
  if (rows == 0 || cols == 0)
    return okStatus();
  int64_t srcLd = src ? desc.src_ld : cols, dstLd = desc.dst_ld;
  if (queue.number != kCompute.number)
    return call(queue, [this, desc, src, dst] {
      return impl->paging.copy(desc, src, dst);
    });
  if (src && (impl->paging.find(src) || impl->paging.find(dst)))
    return impl->paging.copy(desc, src, dst);
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
                            const void *q, const void *k, const void *v,
                            const int32_t *lengths, void *out, float *lse) {
  OPTRT_RETURN_IF_ERROR(checkAttention(desc, q && k && v && out && lse));
  OPTRT_ASSIGN_OR_RETURN(ElementType type, typeOf("attention", desc.type));
  if (type == ElementType::BF16)
    return impl->attend(desc, asBF16(q), asBF16(k), asBF16(v), lengths,
                        asBF16(out), lse);
  return impl->attend(desc, asF32(q), asF32(k), asF32(v), lengths, asF32(out),
                      lse);
}

template <typename T>
Status CpuDevice::Impl::attend(const optrt_attention_desc &desc, const T *q,
                               const T *k, const T *v, const int32_t *lengths,
                               T *out, float *lse) {
  const int64_t share =
      attentionScratch(attention, headOf(desc, desc.seq),
                       /*isGradient=*/false, desc.type != OPTRT_F32);
  OPTRT_RETURN_IF_ERROR(reserve(share));
  float *scratch = room.as<float>();
  team.each(desc.batch * desc.heads, [&](int64_t task, int thread) {
    int64_t sequence = task / desc.heads;
    AttentionHead head = headOf(desc, lengths ? lengths[sequence] : desc.seq);
    HeadOffsets at(desc, sequence, task % desc.heads);
    optrt::attend(attention, head, q + at.q, k + at.kv, v + at.kv, out + at.out,
                  lse + at.lse, scratch + thread * share);
  });
  return okStatus();
}

Status CpuDevice::attentionGrad(Queue, const optrt_attention_desc &desc,
                                const void *dout, const void *q, const void *k,
                                const void *v, const int32_t *lengths,
                                const void *out, const float *lse, void *dq,
                                void *dk, void *dv) {
  OPTRT_RETURN_IF_ERROR(checkAttention(desc, dout && q && k && v && out &&
                                                 lse && dq && dk && dv));
  OPTRT_ASSIGN_OR_RETURN(ElementType type, typeOf("attention_grad", desc.type));
  if (type == ElementType::BF16)
    return impl->attendGrad(desc, asBF16(dout), asBF16(q), asBF16(k), asBF16(v),
                            lengths, asBF16(out), lse, asBF16(dq), asBF16(dk),
                            asBF16(dv));
  return impl->attendGrad(desc, asF32(dout), asF32(q), asF32(k), asF32(v),
                          lengths, asF32(out), lse, asF32(dq), asF32(dk),
                          asF32(dv));
}

template <typename T>
Status CpuDevice::Impl::attendGrad(const optrt_attention_desc &desc,
                                   const T *dout, const T *q, const T *k,
                                   const T *v, const int32_t *lengths,
                                   const T *out, const float *lse, T *dq, T *dk,
                                   T *dv) {
  const int64_t share =
      attentionScratch(attention, headOf(desc, desc.seq),
                       /*isGradient=*/true, desc.type != OPTRT_F32);
  OPTRT_RETURN_IF_ERROR(reserve(share));
  float *scratch = room.as<float>();
  // A task has all heads that add to one head of dk and dv, in order.
  int64_t sharing = desc.heads / desc.kv_heads;
  team.each(desc.batch * desc.kv_heads, [&](int64_t task, int thread) {
    int64_t sequence = task / desc.kv_heads;
    AttentionHead head = headOf(desc, lengths ? lengths[sequence] : desc.seq);
    HeadOffsets at(desc, sequence, task % desc.kv_heads * sharing);
    optrt::attendGrad(attention, head, sharing, dout + at.out, q + at.q,
                      k + at.kv, v + at.kv, out + at.out, lse + at.lse,
                      dq + at.q, dk + at.kv, dv + at.kv,
                      scratch + thread * share);
  });
  return okStatus();
}

std::string CpuDevice::slowPrecision(int32_t type) const {
  if (type == OPTRT_F32 || GemmEngine::takesNarrow())
    return "";
  return concat("this processor has no instructions for products of ",
                toString(ElementType(type)), ", which are widened to f32");
}

size_t CpuDevice::scratchBytes() const {
  return impl->room.size() + impl->gemm.scratchBytes() +
         impl->narrow.scratchBytes();
}
