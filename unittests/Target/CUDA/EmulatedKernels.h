//===- EmulatedKernels.h - Kernels for GPUs compiled and run -* -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_UNITTESTS_TARGET_CUDA_EMULATEDKERNELS_H
#define OPTIMUS_UNITTESTS_TARGET_CUDA_EMULATEDKERNELS_H

#include "EmulatedDevice.h"

#include "CompiledKernels.h"

#include "optimus/Target/CUDA/CodeGen.h"
#include "optimus/Target/CUDA/CudaSchedule.h"

/// Takes kernels of the CUDA target to an emulated device. Each launch is run
/// three times, its threads forward, backward and in random order and in grids
/// of different sizes: all must give the same bits.
class EmulatedKernels final : public CompiledKernels {
public:
  EmulatedKernels();
  /// The schedule must outlive this.
  explicit EmulatedKernels(const mlir::optimus::CudaSchedule &schedule);

  std::string compile() override;
  /// The first of the grids has `parts` blocks.
  void run(size_t number, std::vector<void *> buffers, int parts) override;

  /// The PTX of what was added.
  optimus_support::StatusOr<std::string>
  generatePtx(const std::string &architecture);
  /// How many kernels were added: equal ones count once.
  size_t getNumKernels();
  /// Compiles what was added; `change` may change its LLVM IR.
  std::string compile(const std::function<void(std::string &)> &change);
  /// Runs once; returns what went wrong, or nothing.
  std::string runOnce(size_t number, const std::vector<void *> &buffers,
                      int blocks, mlir::optimus::emulator::Order order,
                      int64_t moreIterations = 0);

private:
  std::unique_ptr<mlir::optimus::emulator::EmulatedDevice> device;
};

#endif // OPTIMUS_UNITTESTS_TARGET_CUDA_EMULATEDKERNELS_H
