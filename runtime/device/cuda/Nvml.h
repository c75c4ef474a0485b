//===- Nvml.h - Who holds the memory of a GPU -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_NVML_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_NVML_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace optrt::cuda {

/// A process that computes on a GPU.
struct MemoryHolder {
  unsigned process;
  std::string name;             ///< without folders; empty where none is known
  std::optional<int64_t> bytes; ///< of the GPU's memory, where that is known
};

/// Those of the GPU at a PCI address, the largest first, as NVML has them:
/// libnvidia-ml.so.1, or the file in $OPTIMUS_NVML_LIBRARY.
///
/// Errors: Unavailable where there is no NVML or it does not tell.
StatusOr<std::vector<MemoryHolder>> findMemoryHolders(const char *pciAddress);

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_NVML_H
