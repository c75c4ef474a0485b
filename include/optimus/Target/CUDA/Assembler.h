//===- Assembler.h - From PTX to a GPU's machine code -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CUDA_ASSEMBLER_H
#define OPTIMUS_TARGET_CUDA_ASSEMBLER_H

#include "optimus-support/ScratchFolder.h"
#include "optimus-support/Status.h"

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mlir::optimus {

/// What a kernel takes of a multiprocessor.
struct CudaKernelUse {
  std::string name;
  int64_t registers = 0;   ///< of a thread
  int64_t sharedBytes = 0; ///< of a block
  /// What registers had no room for, of a thread: loads and stores together.
  int64_t spillBytes = 0;
};

/// The machine code of a module of PTX.
struct CudaBinary {
  std::string cubin;
  /// In the order of names.
  std::vector<CudaKernelUse> kernels;
};

/// Reads what `ptxas -v` says.
optimus_support::StatusOr<std::vector<CudaKernelUse>>
readAssemblerLog(std::string_view log);

/// NVIDIA's ptxas, a program of its own.
class CudaAssembler {
public:
  /// Looks for ptxas in PATH, then in /usr/local/cuda/bin. `tool` begins the
  /// name of the folder for temporary files.
  static optimus_support::StatusOr<CudaAssembler>
  create(const std::string &tool);

  /// Begins to assemble, in a process that a thread waits for. The assembler
  /// outlives what is returned.
  std::future<optimus_support::StatusOr<CudaBinary>>
  start(const std::string &ptx, const std::string &architecture);

private:
  struct Files {
    std::string source, object, log;
  };
  optimus_support::StatusOr<CudaBinary>
  assemble(const std::string &ptx, const std::string &architecture,
           const Files &files) const;

  std::string program;
  std::unique_ptr<optimus_support::ScratchFolder> scratch;
};

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CUDA_ASSEMBLER_H
