//===- ProgramLanesTest.cpp - Tables of several lanes ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramTest.h"

#include "optimus-support/ProgramPrinter.h"
#include "optimus-support/Sizes.h"

using namespace optimus_support;
using namespace optimus_support::program;
using testing::HasSubstr;

namespace {

/// A function that doubles an argument in an arena, on one rank.
class ProgramLanesTest : public ProgramTest {
protected:
  ProgramLanesTest() : ProgramTest(Mesh()) {}

  FunctionWriter step(const std::string &name = "step") {
    FunctionWriter f = programs.function(name);
    x = f.argument(ElementType::F32, 5);
    f.copy(x, f.arena(ElementType::F32, 5));
    return f;
  }
  ProgramsT finish(uint32_t lanes) {
    ProgramsT finished = programs.finish();
    finished.targets.front()->tables.front()->lanes = lanes;
    return finished;
  }
  void refuse(uint32_t lanes, const std::string &message) {
    const Status status = check(finish(lanes));
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(message));
  }

  View x;
};

TEST_F(ProgramLanesTest, LanesLieAStrideApart) {
  EXPECT_EQ(laneStride(0), 0);
  EXPECT_EQ(laneStride(20), 64);
  EXPECT_EQ(laneStride(64), 64);
  EXPECT_EQ(laneStride(65), 128);
  step();
  ProgramsT finished = finish(8);
  EXPECT_TRUE(check(finished).ok()) << check(finished).message();
  const TargetT &target = *finished.targets.front();
  const ProgramTableT &table = *target.tables.front();
  EXPECT_THAT(print(finished, target, table, *table.functions.front()),
              HasSubstr("function step: arena0 of 20 bytes (device); 8 lanes, "
                        "from one to the next arg0+64\n"));
  const std::string packed = pack(finished);
  const StatusOr<ProgramsT> read = unpack(packed);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->targets.front()->tables.front()->lanes, 8u);
}

TEST_F(ProgramLanesTest, OneLaneIsNotMentioned) {
  step();
  ProgramsT finished = finish(1);
  const TargetT &target = *finished.targets.front();
  EXPECT_THAT(print(finished, target, *target.tables.front(),
                    *target.tables.front()->functions.front()),
              HasSubstr("function step: arena0 of 20 bytes (device)\n"));
}

TEST_F(ProgramLanesTest, ThereIsALane) {
  step();
  refuse(0, "a table of 0 lanes; expected 1 to 4096");
}

TEST_F(ProgramLanesTest, LanesAreBounded) {
  step();
  refuse(kMaxLanes + 1, "a table of 4097 lanes; expected 1 to 4096");
}

TEST_F(ProgramLanesTest, AllLanesFitTheirMemory) {
  FunctionWriter f = programs.function("step");
  f.argument(ElementType::F32, kMaxBytes / 1024);
  refuse(512, "function step: 512 lanes of 17592186044416 bytes; expected at "
              "most 4503599627370496 bytes together");
}

TEST_F(ProgramLanesTest, LanesHaveOneQueue) {
  FunctionWriter f = step();
  auto copies = std::make_unique<QueueT>();
  copies->kind = QueueKind::Copies;
  f.table().queues.push_back(std::move(copies));
  refuse(2, "function step has a queue of another kind than Compute; expected "
            "none in a table of 2 lanes");
}

TEST_F(ProgramLanesTest, LanesLieInTheDevicesMemory) {
  FunctionWriter f = step();
  f.table().arguments.front()->space = MemorySpace::Host;
  f.table().commands.clear();
  refuse(2, "function step has memory outside the device's");
}

using ProgramLanesOfAMesh = ProgramTest;

TEST_F(ProgramLanesOfAMesh, LanesHaveOneRank) {
  FunctionWriter f = programs.function("step");
  f.copy(f.argument(ElementType::F32, 5), f.arena(ElementType::F32, 5));
  ProgramsT finished = programs.finish();
  finished.targets.front()->tables.front()->lanes = 2;
  EXPECT_THAT(check(finished).message(),
              HasSubstr("a table of 2 lanes on a mesh of 6 ranks; expected one "
                        "rank"));
}

} // namespace
