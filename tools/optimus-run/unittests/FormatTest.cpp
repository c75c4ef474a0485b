//===- FormatTest.cpp - Numbers and tables for people ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Format.h"

#include <gtest/gtest.h>
#include <sstream>

using namespace optimus_run;

namespace {

TEST(Format, CountsHaveDecimalUnits) {
  EXPECT_EQ(formatCount(65536), "65536");
  EXPECT_EQ(formatCount(124000000), "124 M");
}

TEST(Format, Durations) {
  EXPECT_EQ(formatDuration(5), "0:05");
  EXPECT_EQ(formatDuration(75.2), "1:15");
  EXPECT_EQ(formatDuration(3725), "1:02:05");
}

TEST(Format, TablesAlignNumbersRight) {
  Table table({"name", "n"});
  table.addRow({"a", "100"});
  table.addRow({"long", "7"});
  std::ostringstream out;
  table.print(out);
  EXPECT_EQ(out.str(), "  name    n\n  a     100\n  long    7\n");
}

} // namespace
