//===- KernelDispatch.cpp - Choosing kernels' instruction set -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionKernels.h"
#include "FewRowsKernels.h"

#include <oneapi/dnnl/dnnl.hpp>

#ifdef __x86_64__
/// Whether oneDNN uses these instructions: where DNNL_MAX_CPU_ISA forbids it
/// some, so that unlike processors compute alike, attention does without, too.
static bool allows(dnnl::cpu_isa instructions) {
  const auto wanted = static_cast<unsigned>(instructions);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) ==
         wanted;
}
#endif

void optrt::supportedAttentionKernels(const AttentionKernels *sets[3],
                                      int &count) {
  count = 0;
#ifdef __x86_64__
  if (__builtin_cpu_supports("x86-64-v4"))
    sets[count++] = &attentionKernelsV4;
  if (__builtin_cpu_supports("x86-64-v3"))
    sets[count++] = &attentionKernelsV3;
#endif
  sets[count++] = &attentionKernelsBaseline;
}

const optrt::AttentionKernels &optrt::bestAttentionKernels() {
  static const AttentionKernels *const best = [] {
    const AttentionKernels *sets[3];
    int count;
    supportedAttentionKernels(sets, count);
#ifdef __x86_64__
    for (int i = 0; i != count; ++i)
      if (sets[i] == &attentionKernelsBaseline ||
          allows(sets[i] == &attentionKernelsV4 ? dnnl::cpu_isa::avx512_core
                                                : dnnl::cpu_isa::avx2))
        return sets[i];
#endif
    return sets[0];
  }();
  return *best;
}

/// oneDNN asks the system for tiles before it says that it has them.
const optrt::TiledAttention *optrt::bestTiledAttention() {
#ifdef __x86_64__
  static const bool has = allows(dnnl::cpu_isa::avx512_core_amx);
  if (has)
    return &tiledAttention;
#endif
  return nullptr;
}

/// Of the instruction set that attention has.
const optrt::FewRowsKernels &optrt::bestFewRowsKernels() {
#ifdef __x86_64__
  const AttentionKernels *chosen = &bestAttentionKernels();
  if (chosen == &attentionKernelsV4)
    return fewRowsKernelsV4;
  if (chosen == &attentionKernelsV3)
    return fewRowsKernelsV3;
#endif
  return fewRowsKernelsBaseline;
}
