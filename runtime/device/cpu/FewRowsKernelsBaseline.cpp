//===- FewRowsKernelsBaseline.cpp - Products of few rows for any processor ===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define OPTIMUS_FEW_ROWS_KERNELS fewRowsKernelsBaseline
#include "FewRowsKernels.inc"
