//===- Threading.h - Threads of a context -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOL_THREADING_H
#define OPTIMUS_TOOL_THREADING_H

#include "mlir/IR/MLIRContext.h"

namespace mlir::optimus {

/// For a context: without threads of its own where memory is limited, since the
/// stack of each takes a piece of it, or where there is one core.
MLIRContext::Threading chooseThreading();

} // namespace mlir::optimus

#endif // OPTIMUS_TOOL_THREADING_H
