//===- Gemm.h - Matrix products through oneDNN -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_GEMM_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_GEMM_H

#include "Buffer.h"
#include "FewRows.h"
#include "Team.h"
#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-runtime/Device.h"

#include <memory>
#include <optional>

namespace optrt {

/// Makes, keeps and runs the products of one device.
class GemmEngine {
public:
  /// The team must outlive the engine.
  explicit GemmEngine(const Team &team);
  ~GemmEngine();

  /// Lets oneDNN generate the code of its products, which all engines share.
  /// Unavailable when there is not the memory for it.
  Status start();
  Status prepare(const Workload &workload);
  Status pack(const optrt_pack_desc &desc, const float *src, float *dst);
  /// Elements are as the descriptor says: all of f32, or factors of bf16 where
  /// takesNarrow() and isWhole().
  Status run(const optrt_gemm_desc &desc, const void *a, const void *b, void *c,
             const void *bias, const void *extra);

  /// Whether the processor multiplies bf16, as far as oneDNN may use that
  /// (ONEDNN_MAX_CPU_ISA).
  static bool takesNarrow();
  /// Whether oneDNN does all of a product of bf16 factors at full speed and
  /// rounds what it stores once. A product in f32 without bias and epilogue is.
  StatusOr<bool> isWhole(const optrt_gemm_desc &desc);

  /// The panels of a packed B, or none where it is laid out otherwise.
  StatusOr<std::optional<FewRows::Panels>>
  panelsOf(const optrt_gemm_desc &desc);

  size_t scratchBytes() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_GEMM_H
