//===- LaunchReport.h - What launches of a GPU move -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_COMPILER_LAUNCHREPORT_H
#define OPTIMUS_LIB_COMPILER_LAUNCHREPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::optimus {

class KernelSchedule;

/// Prints for each function the number of launches in a call, and for each
/// kernel the traffic of its launches, so divided, against the least possible.
void printLaunches(ModuleOp module, const KernelSchedule &schedule,
                   llvm::raw_ostream &out);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_COMPILER_LAUNCHREPORT_H
