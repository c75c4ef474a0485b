//===- Status.h - The outcome of an operation -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_STATUS_H
#define OPTIMUS_RUNTIME_STATUS_H

#include "optimus-support/Status.h"

namespace optrt {

using optimus_support::concat;
using optimus_support::dataLoss;
using optimus_support::internal;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusCode;
using optimus_support::StatusOr;
using optimus_support::toString;
using optimus_support::unavailable;

} // namespace optrt

#endif // OPTIMUS_RUNTIME_STATUS_H
