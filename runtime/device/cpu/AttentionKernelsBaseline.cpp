//===- AttentionKernelsBaseline.cpp - Attention for any processor ===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define OPTIMUS_ATTENTION_KERNELS attentionKernelsBaseline
#define OPTIMUS_ATTENTION_NAME "baseline"
#include "AttentionKernels.inc"
