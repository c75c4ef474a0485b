//===- Work.h - What an operation computes ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_WORK_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_WORK_H

#include "optimus/Prices/Work.h"

namespace mlir::optimus {

using optimus_prices::Work;

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_WORK_H
