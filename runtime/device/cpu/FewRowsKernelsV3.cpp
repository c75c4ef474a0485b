//===- FewRowsKernelsV3.cpp - Products of few rows for x86-64-v3 ===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define OPTIMUS_FEW_ROWS_KERNELS fewRowsKernelsV3
#include "FewRowsKernels.inc"
