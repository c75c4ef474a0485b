//===- ResourcesTest.cpp - Threads and memory that run out ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"

using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// Sanitizers need more addresses than any limit leaves them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

class Resources : public ProgramTest {
protected:
  std::string train(const std::string &name) const {
    return "train " + toy(name) + data() + " --steps 2 --threads-per-rank 1 ";
  }
};

TEST_F(Resources, TooFewThreadsForTheRanksAreSaidAndDoNotHang) {
  Outcome outcome = runProgram(train("toy64"), "ulimit -v 400000; timeout 60");
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out,
              ContainsRegex("error: cannot start thread [0-9]+ of the 64 that "
                            "are ranks: .*ulimit -v 400000"));
}

TEST_F(Resources, TooFewThreadsOfARankAreSaid) {
  Outcome outcome = runProgram("train " + toy("toy1") + data() +
                                   " --steps 2 --threads-per-rank 200",
                               "ulimit -v 800000; timeout 60");
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, ContainsRegex("cannot start thread [0-9]+ of the "
                                         "200 of a rank"));
}

// From where not even the device's library can be opened to where all fits.
TEST_F(Resources, HoweverLittleMemoryThereIsTheEndIsInOrder) {
  int failed = 0, done = 0;
  for (int kibibytes = 30'000; kibibytes < 250'000;
       kibibytes += kibibytes < 150'000 ? 10'000 : 50'000) {
    Outcome outcome =
        runProgram(train("toy3"),
                   "ulimit -v " + std::to_string(kibibytes) + "; timeout 60");
    EXPECT_THAT(outcome.code, AnyOf(0, 1))
        << kibibytes << " KiB: " << outcome.out;
    (outcome.code ? failed : done) += 1;
    EXPECT_EQ(outcome.code != 0,
              outcome.out.find("optimus-run: error: ") != std::string::npos)
        << kibibytes << " KiB: " << outcome.out;
    EXPECT_THAT(outcome.out, Not(HasSubstr("libgcc_s"))) << kibibytes;
    EXPECT_THAT(outcome.out, Not(HasSubstr("internal error"))) << kibibytes;
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(done, 0);
}

TEST_F(Resources, AnAllocationThatFailsSaysItsSize) {
  Outcome outcome = runProgram("bench --comm --ranks 2 --min-bytes 4294967296 "
                               "--max-bytes 4294967296",
                               "ulimit -v 1000000; timeout 60");
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(
      outcome.out,
      ContainsRegex("out of memory: cannot allocate 42949[0-9]+ bytes"));
}

} // namespace

#endif
