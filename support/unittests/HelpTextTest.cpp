//===- HelpTextTest.cpp - Lines of --help ---------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/HelpText.h"

#include <gtest/gtest.h>

using optimus_support::describeFlag;

TEST(HelpText, FlagsStandBesideWhatTheyDo) {
  EXPECT_EQ(describeFlag("--report", "Print times"),
            "  --report                  Print times\n");
  EXPECT_EQ(describeFlag("-o", ""), "  -o                        \n");
}

TEST(HelpText, LongFlagsStandAlone) {
  EXPECT_EQ(describeFlag("--offload-bandwidth RATES", "Bytes a second"),
            "  --offload-bandwidth RATES\n" + std::string(28, ' ') +
                "Bytes a second\n");
}

TEST(HelpText, LinesEndAtColumn80) {
  const std::string word(25, 'x');
  const std::string two = word + " " + word;
  EXPECT_EQ(describeFlag("--a", two + " " + word),
            "  --a" + std::string(23, ' ') + two + "\n" + std::string(28, ' ') +
                word + "\n");
  // No word is broken.
  EXPECT_EQ(describeFlag("--a", std::string(100, 'y')),
            "  --a" + std::string(23, ' ') + std::string(100, 'y') + "\n");
}
