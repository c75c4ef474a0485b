//===- EmulatedDevice.h - Runs kernels for GPUs on the host --* -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles what emulateCudaCode() makes of kernels, and runs them: every load
// and store is held against the buffers.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_UNITTESTS_TARGET_CUDA_EMULATEDDEVICE_H
#define OPTIMUS_UNITTESTS_TARGET_CUDA_EMULATEDDEVICE_H

#include "EmulatedBlock.h"
#include "EmulatedMemory.h"

#include "optimus-support/emulator_abi.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace mlir::optimus::emulator {

using namespace optrt::emulator;

/// A launch: blocks and their threads, and what the kernel is given.
struct EmulatedLaunch {
  struct Buffer {
    std::string name;
    void *begin;
    size_t bytes;
    bool isWritten;
  };
  std::string kernel;
  int32_t blocks, threads;
  int64_t iterations;
  std::vector<Buffer> buffers;
  std::vector<int64_t> scalars;
};

class EmulatedDevice {
public:
  static llvm::Expected<std::unique_ptr<EmulatedDevice>>
  create(const std::string &ir);
  ~EmulatedDevice();

  /// Returns what went wrong, or nothing.
  std::string run(const EmulatedLaunch &launch, Order order);

private:
  EmulatedDevice();

  std::unique_ptr<llvm::orc::LLJIT> jit;
  const optimus_emulated_code *code = nullptr; ///< in what was compiled
  EmulatedMemory memory;
  EmulatedBlock block{memory};
};

} // namespace mlir::optimus::emulator

#endif // OPTIMUS_UNITTESTS_TARGET_CUDA_EMULATEDDEVICE_H
