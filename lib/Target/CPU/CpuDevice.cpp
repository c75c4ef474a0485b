//===- CpuDevice.cpp - The CPU as a target ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CPU/CpuDevice.h"

#include "optimus/Target/CPU/CpuSchedule.h"
#include "optimus/Target/Target.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
class CpuDevice final : public Target {
public:
  StringRef getName() const override { return "cpu"; }

  /// A cache line, and what a vector of 512 bits lies in.
  int64_t getBufferAlignment() const override { return 64; }

  /// Programs ask for what a cache holds.
  int64_t getLossChunk(int64_t asked, int64_t) const override { return asked; }

  /// Threads and MPI's types read and write rows where they lie.
  bool movesStrided(exec::CollectiveKind) const override { return true; }

  /// oneDNN multiplies from blocked layouts.
  bool packsWeights() const override { return true; }

  const KernelSchedule &getKernelSchedule() const override { return schedule; }

private:
  CpuSchedule schedule;
};
} // namespace

void mlir::optimus::registerCPUTarget() {
  registerTarget(std::make_unique<CpuDevice>());
}
