//===- AttentionReference.h - Attention against plain loops -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_UNITTESTS_ATTENTIONREFERENCE_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_UNITTESTS_ATTENTIONREFERENCE_H

#include "../AttentionKernels.h"
#include "AttentionCase.h"
#include "optimus-runtime/CpuDevice.h"

#include <memory>

namespace attention_test {

using namespace optrt;

inline Result runDevice(CpuDevice &device, const Case &x) {
  Result r = emptyResult(x);
  const float *in = x.inputs.data();
  float *grads = r.grads.data();
  const int32_t *lengths = x.lengths.empty() ? nullptr : x.lengths.data();
  const int32_t *positions = x.positions.empty() ? nullptr : x.positions.data();
  Status status =
      device.attention(kCompute, x.desc,
                       {in + x.begin(0), in + x.begin(1), in + x.begin(2),
                        lengths, r.out.data(), r.lse.data(),
                        /*workspace=*/nullptr, /*dout=*/nullptr, /*dq=*/nullptr,
                        /*dk=*/nullptr, /*dv=*/nullptr, positions});
  EXPECT_TRUE(status.ok()) << status.toString();
  status = device.attentionGrad(
      kCompute, x.desc,
      {in + x.begin(0), in + x.begin(1), in + x.begin(2), lengths, r.out.data(),
       r.lse.data(), /*workspace=*/nullptr, x.dout.data(), grads + x.begin(0),
       grads + x.begin(1), grads + x.begin(2), positions});
  EXPECT_TRUE(status.ok()) << status.toString();
  return r;
}

/// All heads one after the other with one instruction set's kernels.
inline Result runKernels(const AttentionKernels &kernels, const Case &x) {
  Result r = emptyResult(x);
  const optrt_attention_desc &d = x.desc;
  AttentionHead head = {d.seq,      d.head_dim,    d.q_ld, d.kv_ld,
                        x.hidden(), d.causal != 0, d.seq};
  int64_t elements =
      std::max(kernels.forwardScratch(head), kernels.backwardScratch(head));
  std::vector<float> memory(elements + 16);
  void *start = memory.data();
  size_t space = memory.size() * sizeof(float);
  float *scratch = static_cast<float *>(
      std::align(64, elements * sizeof(float), start, space));
  for (int64_t b = 0; b < d.batch; ++b)
    for (int64_t n = 0; n < d.heads; ++n) {
      head.keys = x.length(b);
      std::vector<int32_t> firsts;
      const bool isAll = x.positions.empty() && d.window == 0;
      for (int64_t i = 0; i < d.seq && !isAll; ++i)
        firsts.push_back(int32_t(x.first(b, i)));
      head.firsts = isAll ? nullptr : firsts.data();
      int64_t inQ = b * d.seq * d.q_ld + n * d.head_dim;
      int64_t inKv = b * d.seq * d.kv_ld + x.kvHead(n) * d.head_dim;
      int64_t at = b * d.seq * x.hidden() + n * d.head_dim;
      const float *q = x.inputs.data() + x.begin(0) + inQ;
      const float *k = x.inputs.data() + x.begin(1) + inKv;
      const float *v = x.inputs.data() + x.begin(2) + inKv;
      float *lse = r.lse.data() + (b * d.heads + n) * d.seq;
      kernels.forward(head, q, k, v, r.out.data() + at, lse, scratch);
      bool isShared = n > 0 && x.kvHead(n) == x.kvHead(n - 1);
      kernels.backward(head, x.dout.data() + at, q, k, v, r.out.data() + at,
                       lse, r.grads.data() + x.begin(0) + inQ,
                       r.grads.data() + x.begin(1) + inKv,
                       r.grads.data() + x.begin(2) + inKv, isShared, scratch);
    }
  return r;
}

} // namespace attention_test

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_UNITTESTS_ATTENTIONREFERENCE_H
