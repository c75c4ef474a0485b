//===- AttentionDispatch.cpp - Choosing attention's instruction set -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionKernels.h"

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
    return sets[0];
  }();
  return *best;
}
