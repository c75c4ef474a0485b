//===- AttentionKernelsV3.cpp - Attention for x86-64-v3 (AVX2 and FMA) ===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define OPTIMUS_ATTENTION_KERNELS attentionKernelsV3
#define OPTIMUS_ATTENTION_NAME "v3"
#include "AttentionKernels.inc"
