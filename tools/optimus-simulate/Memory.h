//===- Memory.h - What a rank holds -----------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_MEMORY_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_MEMORY_H

#include "optimus/Simulation/Simulator.h"

#include "optimus-runtime/ModelLibrary.h"

#include <string>
#include <utility>
#include <vector>

namespace optimus_simulate {

/// Bytes by category, as `optimus-compile --report` names them: parameters,
/// state, gradients, inputs, arena, scratch. What lies outside the device's
/// memory, "pinned" and "file", stands behind them where there is any.
class RankMemory {
public:
  /// What a rank holds to make these calls, one after the other: each argument
  /// once, the largest arena and the most scratch of a device with one thread.
  RankMemory(const optrt::ModelLibrary &library,
             const optimus_simulation::CallList &calls, int64_t rank);

  const std::vector<std::pair<std::string, int64_t>> &getParts() const {
    return parts;
  }
  /// In the device's memory.
  int64_t getTotal() const;

private:
  std::vector<std::pair<std::string, int64_t>> parts;
};

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_MEMORY_H
