//===- AttentionKernelsV4.cpp - Attention for x86-64-v4 (AVX-512) ===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define OPTIMUS_ATTENTION_KERNELS attentionKernelsV4
#define OPTIMUS_ATTENTION_NAME "v4"
#include "AttentionKernels.inc"
