//===- GpuCosts.h - What commands of a GPU take -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_GPUCOSTS_H
#define OPTIMUS_RUNTIME_MEASURE_GPUCOSTS_H

#include "measure/ComputeCosts.h"
#include "optimus-support/ElementType.h"

namespace optrt {

/// The types of factors whose products are timed.
inline constexpr optimus_support::ElementType kGpuTypes[] = {
    optimus_support::ElementType::F32, optimus_support::ElementType::BF16};

struct GpuCosts {
  /// Attention is cuDNN's, and of bf16 alone: ours belongs to models.
  ProductCosts types[std::size(kGpuTypes)];
  /// Why cuDNN's attention was not timed; empty where it was.
  std::string noAttention;
  std::vector<StreamPoint> streams;
  double gemmAlpha = 0, commandAlpha = 0;
};

/// Products, cuDNN's attention, copies, and a command of a recording, in
/// seconds by the device.
///
/// Errors: the device's.
StatusOr<GpuCosts> measureGpuCosts(Device &device, const ComputeGrid &grid);

/// The entry of section "gemm" of a machine profile.
nlohmann::ordered_json machineEntries(const GpuCosts &costs);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_GPUCOSTS_H
