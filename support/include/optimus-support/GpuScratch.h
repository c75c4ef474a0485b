//===- GpuScratch.h - What a GPU's device holds besides plans ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_GPUSCRATCH_H
#define OPTIMUS_SUPPORT_GPUSCRATCH_H

#include <cstdint>

namespace optimus_support {

/// The workspace of products, where a program has any: what NVIDIA recommends
/// for cuBLASLt on Hopper.
inline constexpr int64_t kGpuWorkspaceBytes = int64_t(32) << 20;

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_GPUSCRATCH_H
