//===- Format.h - Numbers and tables for people -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_FORMAT_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_FORMAT_H

#include "optimus-support/FormatBytes.h"

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace optimus_run {

using optimus_support::formatBytes;

/// printf into a string.
std::string format(const char *pattern, ...)
    __attribute__((format(printf, 1, 2)));

/// 1234 -> "1234", 12345678 -> "12.3 M".
std::string formatCount(int64_t count);

/// 75 s -> "1:15".
std::string formatDuration(double seconds);

/// Columns as wide as their widest cell. The first is aligned left, as are
/// those given; numbers stand right.
class Table {
public:
  explicit Table(std::vector<std::string> header,
                 std::vector<int> leftColumns = {});
  void addRow(std::vector<std::string> cells);
  void print(std::ostream &out) const;

private:
  std::vector<std::vector<std::string>> rows;
  std::vector<bool> left;
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_FORMAT_H
