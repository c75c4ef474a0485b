//===- FewRows.h - Products of a token for each slot ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products of at most 16 rows in functions that generate text. B is read once,
// by all threads, from where it lies, and a row's sums do not depend on the
// others, nor on their number.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_FEWROWS_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_FEWROWS_H

#include "Buffer.h"
#include "FewRowsKernels.h"
#include "NarrowRows.h"
#include "Team.h"

#include "optimus-runtime/CommandDescriptors.h"

namespace optrt {

class FewRows {
public:
  /// Panels of columns, one behind the other: `cols` columns, at most
  /// kFewRowsCols, of all rows, which follow each other.
  struct Panels {
    int64_t cols = 0;   ///< of one; 0: B lies row by row, or in blocks
    int64_t stride = 0; ///< elements from one to the next
  };

  /// In `scratch` an A of bf16 becomes f32.
  FewRows(const Team &team, Buffer &scratch)
      : team(team), kernels(bestFewRowsKernels()), scratch(scratch) {}

  /// Whether it is such a product.
  static bool takes(const optrt_gemm_desc &desc) {
    return desc.few_rows && desc.m <= kFewRows && !desc.trans_a;
  }

  /// Makes room for such a product, which multiply() needs.
  Status prepare(const optrt_gemm_desc &desc);
  /// Computes C, which is f32 or bf16, as are bias and extra. The descriptor
  /// and the pointers have been checked; a packed B is in `panels`.
  Status multiply(const optrt_gemm_desc &desc, const void *a, const void *b,
                  Panels panels, NarrowMatrix c, NarrowMatrix bias,
                  NarrowMatrix extra);

private:
  const Team &team;
  const FewRowsKernels &kernels;
  Buffer &scratch;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_FEWROWS_H
