//===- Quantities.cpp - Bytes and times for people --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Planning/Quantities.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir::optimus;
using llvm::formatv;

std::string mlir::optimus::formatBytes(int64_t bytes) {
  for (auto [unit, shift] : {std::pair("GiB", 30), {"MiB", 20}, {"KiB", 10}})
    if (double value = double(bytes) / double(int64_t(1) << shift); value >= 1)
      return formatv(value < 10 ? "{0:f2} {1}" : "{0:f1} {1}", value, unit);
  return formatv("{0} B", bytes);
}

std::string mlir::optimus::formatMs(double ms) {
  return ms < 10000 ? formatv("{0:f2} ms", ms).str()
                    : formatv("{0:f1} s", ms / 1000).str();
}
