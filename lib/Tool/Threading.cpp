//===- Threading.cpp - Threads of a context ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Tool/Threading.h"

#include "optimus-support/ResourceLimits.h"

#include <sys/resource.h>

using namespace mlir;

MLIRContext::Threading mlir::optimus::chooseThreading() {
  rlimit limit;
  bool isLimited =
      getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  // A container may allow one core of many.
  isLimited |= optimus_support::resourceLimits().usableCores() == 1;
  return isLimited ? MLIRContext::Threading::DISABLED
                   : MLIRContext::Threading::ENABLED;
}
