//===- ProgramOrder.h - Order between accesses to the same memory -*- C++ -*-=//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PROGRAMORDER_H
#define OPTIMUS_SUPPORT_PROGRAMORDER_H

#include "optimus-support/Program.h"

namespace optimus_support::program {

/// Checks that queues, edges and waits order any two commands on the same
/// memory, one of them writing, and the completeness of waits and groups. All
/// commands have been checked. `looks` receives how many pieces of memory were
/// visited and how many earlier accesses were compared: where most of the time
/// goes.
Status checkOrder(const TargetT &target, const ProgramTableT &table,
                  const FunctionT &function, const Mesh &mesh, Checks checks,
                  int64_t *looks = nullptr);

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_PROGRAMORDER_H
