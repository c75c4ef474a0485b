//===- GpuChoice.h - Which GPU each rank computes on ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROGRAM_GPUCHOICE_H
#define OPTIMUS_RUNTIME_PROGRAM_GPUCHOICE_H

#include "optimus-runtime/ControlPlane.h"

#include <span>
#include <string>
#include <vector>

namespace optrt {

/// The number of a GPU for each rank of this process, of those that it sees
/// (Device::gpus()): a rank's place among the ranks that see the same GPUs. So
/// the ranks of a host share its GPUs out, and a rank with a GPU of its own
/// takes it. Collective; the outcome is the same in every process.
///
/// Errors: InvalidArgument where there are more such ranks than GPUs.
StatusOr<std::vector<int>> chooseGpus(ControlPlane &control,
                                      std::span<const std::string> visible);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROGRAM_GPUCHOICE_H
