//===- Descriptors.h - What commands are told ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_DESCRIPTORS_H
#define OPTIMUS_RUNTIME_DEVICE_DESCRIPTORS_H

#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/WeightBlocks.h"

#include <string>

namespace optrt {

/// "gemm of m 4, n 4, k 4, B transposed".
std::string describe(const optrt_gemm_desc &d);
std::string describe(const optrt_pack_desc &d);
std::string describe(const optrt_attention_desc &d);

/// Where a B in words lies.
inline optimus_support::BlockLayout layoutOf(const optrt_gemm_desc &d) {
  return {static_cast<optimus_support::WeightBlocks>(d.blocks), d.k, d.n};
}
inline optimus_support::BlockLayout layoutOf(const optrt_pack_desc &d) {
  return {static_cast<optimus_support::WeightBlocks>(d.blocks), d.rows, d.cols};
}

/// InvalidArgument where a descriptor or a pointer cannot be right.
Status check(const optrt_gemm_desc &d, const void *a, const void *b,
             const void *c, const void *bias, const void *extra);
Status check(const optrt_pack_desc &d, const float *src, const float *dst);
/// Nothing is written where there are no rows or no columns.
Status check(const optrt_copy_desc &d, const void *src, const void *dst);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_DESCRIPTORS_H
