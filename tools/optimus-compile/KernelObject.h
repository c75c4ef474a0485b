//===- KernelObject.h - Kernels compiled beside the rest --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_COMPILE_KERNELOBJECT_H
#define OPTIMUS_TOOLS_OPTIMUS_COMPILE_KERNELOBJECT_H

#include "optimus/Target/CPU/CodeGen.h"

#include "mlir/Support/Timing.h"

#include <future>

namespace mlir::optimus {

/// The machine code of a program's kernels, made on a thread of its own: the
/// kernels are known once a program is lowered to commands, and its later use
/// does not change them.
class KernelObject {
public:
  /// Begins with the kernels of `module`, which the caller may change at once.
  /// What it takes is counted below `timing`, by the thread. All outlive this.
  KernelObject(ModuleOp module, const CpuTarget &target,
               const LibraryWriter &writer, TimingScope &timing);

  /// Returns the path of the object file, once it is there.
  optimus_support::StatusOr<std::string> wait() { return object.get(); }

private:
  std::future<optimus_support::StatusOr<std::string>> object;
};

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_COMPILE_KERNELOBJECT_H
