//===- LiveRangeCsvTest.cpp - Reading and writing CSV ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/MemoryPlanning/LiveRangeCsv.h"

#include <gtest/gtest.h>

#include <sstream>

using namespace optimus_planning;

namespace {

std::string errorOf(const std::string &text) {
  std::istringstream in(text);
  std::vector<LiveRange> ranges;
  return readLiveRanges(in, "in.csv", ranges).value_or("none");
}

TEST(LiveRangeCsv, ReadsColumnsInAnyOrder) {
  std::istringstream in("size, id,alignment,upper,lower\r\n"
                        "100, 7,128,9,-2\r\n"
                        "\n"
                        "0,8,1,4,4\n");
  std::vector<LiveRange> ranges = {{99, 0, 0, 0, 1}};
  ASSERT_EQ(readLiveRanges(in, "in.csv", ranges), std::nullopt);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].id, 7);
  EXPECT_EQ(ranges[0].lower, -2);
  EXPECT_EQ(ranges[0].upper, 9);
  EXPECT_EQ(ranges[0].size, 100);
  EXPECT_EQ(ranges[0].alignment, 128);
  EXPECT_EQ(ranges[1].id, 8);
}

TEST(LiveRangeCsv, AlignmentDefaultsToACacheLine) {
  std::istringstream in("id,lower,upper,size\n1,0,1,5");
  std::vector<LiveRange> ranges;
  ASSERT_EQ(readLiveRanges(in, "in.csv", ranges), std::nullopt);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].alignment, 64);
}

TEST(LiveRangeCsv, ErrorsNameLineAndColumn) {
  const std::string header = "id,lower,upper,size\n";
  EXPECT_EQ(errorOf(""), "in.csv:1:1: the file is empty; expected the header "
                         "id,lower,upper,size[,alignment][,gaps][,offset]");
  EXPECT_EQ(errorOf("id,lower,uper,size\n"),
            "in.csv:1:10: unknown column 'uper'; expected id, lower, upper, "
            "size and optionally alignment, gaps and offset");
  EXPECT_EQ(errorOf("id,lower,lower,size\n"),
            "in.csv:1:10: column 'lower' is given twice");
  EXPECT_EQ(errorOf("id,lower,upper\n"),
            "in.csv:1:1: the header has no column 'size'; expected "
            "id,lower,upper,size[,alignment][,gaps][,offset]");
  EXPECT_EQ(errorOf(header + "1,0,1,5\n2,0,x1,5\n"),
            "in.csv:3:5: upper 'x1' is not an integer");
  EXPECT_EQ(errorOf(header + "1,0,1,5.5\n"),
            "in.csv:2:7: size '5.5' is not an integer");
  EXPECT_EQ(errorOf(header + "1,0,,5\n"),
            "in.csv:2:5: upper '' is not an integer");
  EXPECT_EQ(errorOf(header + "1,0,1,99999999999999999999\n"),
            "in.csv:2:7: size '99999999999999999999' does not fit in 64 bits");
  EXPECT_EQ(errorOf(header + "1,0,1\n"),
            "in.csv:2:6: expected 4 cells as in the header, found 3");
  EXPECT_EQ(errorOf(header + "1,0,1,5,64\n"),
            "in.csv:2:9: expected 4 cells as in the header, found 5");
  EXPECT_EQ(errorOf(header + "1,0,1,5\n\n1,2,3,5\n"),
            "in.csv:4:1: id 1 was given on line 2 already; ids must be unique");
  EXPECT_EQ(errorOf(header + "1,3,2,5\n"),
            "in.csv:2:5: buffer 1: upper 2 is before lower 3; expected lower "
            "<= upper");
  EXPECT_EQ(errorOf(header + "1,0,1,-5\n"),
            "in.csv:2:7: buffer 1: size -5 is negative; expected a number of "
            "bytes");
  EXPECT_EQ(errorOf("id,lower,upper,size,alignment\n1,0,1,5,3\n"),
            "in.csv:2:9: buffer 1: alignment 3 is not a power of two");
}

TEST(LiveRangeCsv, ReadsGapsAndOffsets) {
  std::istringstream in("id,lower,upper,size,gaps,offset\n"
                        "1,-9,9,5,-8--7  -1-2,128\n"
                        "2,0,9,5,,\n");
  std::vector<LiveRange> ranges;
  ASSERT_EQ(readLiveRanges(in, "in.csv", ranges), std::nullopt);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].gaps, (std::vector<TimeSpan>{{-8, -7}, {-1, 2}}));
  EXPECT_EQ(ranges[0].fixedOffset, 128);
  EXPECT_TRUE(ranges[1].gaps.empty());
  EXPECT_EQ(ranges[1].fixedOffset, std::nullopt);
}

TEST(LiveRangeCsv, ErrorsInGapsAndOffsetsNameLineAndColumn) {
  const std::string header = "id,lower,upper,size,gaps,offset\n";
  const std::string expected =
      "is no list of gaps; expected LOWER-UPPER of each with blanks between "
      "them, without a window of bytes";
  for (std::string gaps : {"2", "2-", "-", "2-x", "2-3 4", "2-3@0:64",
                           "2-3;4-5", "2-99999999999999999999"})
    EXPECT_EQ(errorOf(header + "1,0,9,5," + gaps + ",\n"),
              "in.csv:2:9: gaps '" + gaps + "' " + expected);
  EXPECT_EQ(errorOf(header + "1,0,9,5,5-6 2-3,\n"),
            "in.csv:2:9: buffer 1: the gap 2-3 is out of order; expected gaps "
            "apart, from the first to the last, within 0-9");
  EXPECT_EQ(errorOf(header + "1,0,9,5,,x\n"),
            "in.csv:2:10: offset 'x' is not an integer");
  EXPECT_EQ(errorOf(header + "1,0,9,5,,32\n"),
            "in.csv:2:10: buffer 1: the fixed offset 32 is not a multiple of "
            "its alignment 64");
  EXPECT_EQ(errorOf(header + "1,0,9,5,,0\n2,0,9,5,,64\n3,8,9,5,,64\n"),
            "in.csv:4:1: buffer 2 (bytes [64, 128), times [0, 9)) and buffer 3 "
            "(bytes [64, 128), times [8, 9)) overlap; both have fixed offsets");
}

TEST(LiveRangeCsv, WritesWhatItReadsWithOffsets) {
  std::vector<LiveRange> ranges = {{3, 0, 2, 10, 64}, {4, 1, 5, 20, 128}};
  Plan result;
  result.offsets = {128, 0};
  std::ostringstream out;
  writePlan(out, ranges, result);
  EXPECT_EQ(out.str(), "id,lower,upper,size,alignment,offset\n"
                       "3,0,2,10,64,128\n"
                       "4,1,5,20,128,0\n");
  ranges[1].gaps = {{2, 3}, {4, 5}};
  out.str("");
  writePlan(out, ranges, result);
  EXPECT_EQ(out.str(), "id,lower,upper,size,alignment,gaps,offset\n"
                       "3,0,2,10,64,,128\n"
                       "4,1,5,20,128,2-3 4-5,0\n");
  // A plan is a problem in which everything is fixed.
  std::istringstream in(out.str());
  ASSERT_EQ(readLiveRanges(in, "plan.csv", ranges), std::nullopt);
  EXPECT_EQ(plan(ranges).offsets, result.offsets);
}

} // namespace
