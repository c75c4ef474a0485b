//===- ToyKernels.h - The kernels of the model written by hand ----*- C -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODEL_UNITTESTS_TOY_TOYKERNELS_H
#define OPTIMUS_RUNTIME_MODEL_UNITTESTS_TOY_TOYKERNELS_H

#include "optimus-support/model_abi.h"

extern const optimus_kernel toyKernels[];
extern const uint32_t toyNumKernels;

#endif // OPTIMUS_RUNTIME_MODEL_UNITTESTS_TOY_TOYKERNELS_H
