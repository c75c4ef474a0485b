//===- ProgramTest.h - What tests of programs write with --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_UNITTESTS_PROGRAMTEST_H
#define OPTIMUS_SUPPORT_UNITTESTS_PROGRAMTEST_H

#include "optimus-testing/ProgramWriter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace optimus_support::program {

/// Programs on a mesh, as a rule row:2,col:3.
class ProgramTest : public testing::Test {
protected:
  explicit ProgramTest(Mesh mesh = Mesh({{"row", 2}, {"col", 3}}))
      : programs(std::move(mesh)) {}

  /// Checks that check() refuses the written table.
  void refuse(const std::string &message) {
    Status status = check(programs.finish());
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_THAT(status.message(), testing::HasSubstr(message));
  }

  ProgramWriter programs;
};

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_UNITTESTS_PROGRAMTEST_H
