//===- NarrowCompute.h - bf16 on processors that multiply f32 ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products and attention whose operands are bf16, by those in f32: operands are
// widened block by block into memory of bounded size, results narrowed from it.
// That is exact but for the one rounding of what is stored, and slower than f32.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_NARROWCOMPUTE_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_NARROWCOMPUTE_H

#include "Buffer.h"
#include "Team.h"

#include "optimus-support/ElementType.h"
#include "optimus-support/model_abi.h"

#include <functional>

namespace optrt {

/// A matrix in memory, of f32 or bf16.
struct NarrowMatrix {
  const void *start = nullptr;
  int64_t ld = 0;
  optimus_support::ElementType type = optimus_support::ElementType::F32;
};

class NarrowCompute {
public:
  using Gemm = std::function<Status(const optrt_gemm_desc &, const float *a,
                                    const float *b, float *c)>;
  using Attention = std::function<Status(
      const optrt_attention_desc &, const float *q, const float *k,
      const float *v, const int32_t *lengths, float *out, float *lse)>;
  using AttentionGrad = std::function<Status(
      const optrt_attention_desc &, const float *dout, const float *q,
      const float *k, const float *v, const int32_t *lengths, const float *out,
      const float *lse, float *dq, float *dk, float *dv)>;

  explicit NarrowCompute(const Team &team) : team(team) {}

  /// The rows, columns and depth of the blocks that products are made of.
  static constexpr int64_t kRows = 1024, kCols = 2048, kDepth = 2048;
  /// What products take at most, in bytes.
  static constexpr int64_t kProductScratch =
      sizeof(float) * (kRows * kDepth + kDepth * kCols + kRows * kCols);

  /// `multiply` in f32 where A and B are bf16. C is bf16 or f32, bias and extra
  /// are of type f32 or bf16.
  Status gemm(const optrt_gemm_desc &desc, const uint16_t *a,
              const uint16_t *b, NarrowMatrix c, NarrowMatrix bias,
              NarrowMatrix extra, const Gemm &multiply);

  /// `attend` in f32, a sequence at a time, where all but lengths and lse is
  /// bf16.
  Status attention(const optrt_attention_desc &desc, const uint16_t *q,
                   const uint16_t *k, const uint16_t *v,
                   const int32_t *lengths, uint16_t *out, float *lse,
                   const Attention &attend);
  Status attentionGrad(const optrt_attention_desc &desc, const uint16_t *dout,
                       const uint16_t *q, const uint16_t *k, const uint16_t *v,
                       const int32_t *lengths, const uint16_t *out,
                       const float *lse, uint16_t *dq, uint16_t *dk,
                       uint16_t *dv, const AttentionGrad &attend);

  size_t scratchBytes() const { return scratch.size(); }

private:
  /// Room for so many numbers, from the start of the scratch memory on.
  StatusOr<float *> reserve(int64_t elements);
  void widen(const uint16_t *from, int64_t fromLd, int64_t rows, int64_t cols,
             float *to) const;
  void narrow(const float *from, int64_t rows, int64_t cols, uint16_t *to,
              int64_t toLd) const;
  void finish(const optrt_gemm_desc &desc, float *product,
              int64_t productLd, NarrowMatrix c, NarrowMatrix bias,
              NarrowMatrix extra) const;

  const Team &team;
  Buffer scratch;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_NARROWCOMPUTE_H
