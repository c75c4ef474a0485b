//===- Peak.h - What is alive when most bytes are ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PLANNING_PEAK_H
#define OPTIMUS_PLANNING_PEAK_H

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace mlir::optimus {

/// The buffers of a placed function that are alive when most bytes are, the
/// largest first, and the command under way then; null without commands.
struct Peak {
  llvm::SmallVector<exec::ArenaSlotOp> slots;
  Operation *command = nullptr;
};
Peak findPeak(func::FuncOp function);

/// The values in a slot and their line of source: "h.0.mlp.gelu:1
/// (gpt2.py:157)", or, of any layer, "h.*.mlp.gelu:1 (gpt2.py:157)".
enum class Layers { One, Any };
std::string describeSlot(exec::ArenaSlotOp slot, Layers layers = Layers::One);

} // namespace mlir::optimus

#endif // OPTIMUS_PLANNING_PEAK_H
