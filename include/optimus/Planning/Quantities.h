//===- Quantities.h - Bytes and times for people ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PLANNING_QUANTITIES_H
#define OPTIMUS_PLANNING_QUANTITIES_H

#include <cstdint>
#include <string>

namespace mlir::optimus {

/// To three digits or four, in the largest unit that leaves some before the
/// point.
std::string formatBytes(int64_t bytes);
std::string formatMs(double ms);

} // namespace mlir::optimus

#endif // OPTIMUS_PLANNING_QUANTITIES_H
