//===- TableCheck.h - A look at tables beside other work --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_EXECTOLLVM_TABLECHECK_H
#define OPTIMUS_CONVERSION_EXECTOLLVM_TABLECHECK_H

#include "optimus-support/Status.h"

#include <future>

namespace mlir::optimus {

/// Whether a runtime would take the tables of a library. The pass that writes
/// them begins to look; a library is in its place after that alone.
struct TableCheck {
  std::future<optimus_support::Status> status;
  /// Whether commands are verified there, too, and not where they are placed.
  bool verifiesCommands = false;
};

} // namespace mlir::optimus

#endif // OPTIMUS_CONVERSION_EXECTOLLVM_TABLECHECK_H
