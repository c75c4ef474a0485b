//===- FormatBytes.cpp - Sizes of memory for people -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/FormatBytes.h"

#include <cstdio>

std::string optimus_support::formatBytes(int64_t bytes) {
  if (bytes < 10000)
    return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes);
  const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  int unit = -1;
  do {
    value /= 1024;
    ++unit;
  } while (value >= 1000 && unit < 3);
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g %s", value, units[unit]);
  return text;
}
