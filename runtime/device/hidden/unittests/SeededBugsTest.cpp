//===- SeededBugsTest.cpp - Mistakes in tables are found ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A valid table, bent as schedulers and planners of memory go wrong. The check
// refuses each one; for those without a crash, the device with hidden memory
// shows the damage.
//
//===----------------------------------------------------------------------===//

#include "device/hidden/HiddenDevice.h"

#include "optimus-runtime/CpuDevice.h"
#include "optimus-runtime/World.h"
#include "optimus-testing/ProgramWriter.h"
#include "program/BoundProgram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

using namespace optrt;
using namespace optimus_support::program;
namespace program = optimus_support::program;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

namespace {

void addOne(int64_t begin, int64_t end, void *const *args) {
  for (int64_t i = begin; i != end; ++i)
    static_cast<float *>(args[1])[i] = static_cast<float *>(args[0])[i] + 1;
}

/// On one rank:
///
///   0 compute: y = x + 1
///   1 row after 0: z = all_reduce y
///   2 compute: w = x + 1      behind the collective
///   3 compute: wait for 1
///   4 compute: x = z
class SeededBugs : public testing::Test {
protected:
  SeededBugs() {
    addOneTo(x, y);
    collective = f.collective(CollectiveKind::AllReduce, {0}, y, z);
    addOneTo(x, w);
    f.wait(collective);
    f.copy(z, x);
  }

  void addOneTo(View from, View to) {
    f.launch("add_one", {.extent = 16}, {read(from), write(to)});
  }
  OperandT &operand(uint32_t command, size_t number) {
    return *f.command(command).operands[number];
  }

  ProgramsT &finish() {
    all = programs.finish();
    return all;
  }
  void refuse(const char *message) {
    Status status = check(finish());
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(message));
  }

  /// The last element of x after a run from 0, on devices with many seeds. The
  /// table is not checked.
  std::set<float> runWithManySeeds() {
    std::set<float> results;
    for (uint64_t seed = 0; seed != 60; ++seed)
      results.insert(run(seed));
    return results;
  }
  float run(uint64_t seed) {
    World world = createLocalWorld();
    EXPECT_TRUE(world.layOut(mesh).ok());
    auto kernels = std::make_unique<CpuDevice>(1);
    EXPECT_TRUE(kernels->start().ok());
    Rank rank(mesh, world, 0,
              std::make_unique<HiddenDevice>(std::move(kernels), seed));
    Device &device = *rank.device;
    auto argument = device.allocate(64, "x"), arena = device.allocate(256, "arena");
    char *const arenas[] = {arena->data()};
    void *const arguments[] = {argument->data()};
    const optimus_kernel kernel = hostKernel("add_one", addOne);
    auto bound =
        BoundProgram::bind(*all.targets.front(), {{"add_one", &kernel}}, "f",
                           mesh, 0, device, arenas, arguments);
    EXPECT_TRUE(bound.ok()) << bound.status().message();
    EXPECT_TRUE(bound->run(rank).ok());
    float result = 0;
    EXPECT_TRUE(
        device.read(kCompute, &result, argument->data() + 60, 4).ok());
    Status status = device.synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }

  const Mesh mesh{{{"row", 1}}};
  ProgramWriter programs{mesh};
  FunctionWriter f = programs.function("f");
  View x = f.argument(program::ElementType::F32, 16);
  View arena = f.arena(program::ElementType::F32, 64);
  View y = f.at(arena, 0, 16), z = f.at(arena, 16, 16), w = f.at(arena, 32, 16);
  uint32_t collective;
  ProgramsT all;
};

TEST_F(SeededBugs, WithoutOneItIsRight) {
  Status status = check(finish());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(runWithManySeeds(), ElementsAre(1));
}

TEST_F(SeededBugs, MissingEdge) {
  f.command(collective).after.clear();
  refuse("command 1 (all_reduce) reads what command 0 (add_one) writes, and "
         "nothing orders the two");
  EXPECT_THAT(runWithManySeeds(), SizeIs(2));
}

TEST_F(SeededBugs, WrongQueue) {
  f.table().queues.push_back(std::make_unique<QueueT>());
  f.table().queues.back()->kind = QueueKind::Copies;
  f.command(4).queue = 2;
  refuse("command 4 (copy) reads what command 1 (all_reduce) writes, and "
         "nothing orders the two");
  EXPECT_THAT(runWithManySeeds(), SizeIs(testing::Gt(1u)));
}

TEST_F(SeededBugs, QueueOfAnotherKind) {
  f.command(collective).queue = f.command(0).queue;
  refuse("command 1 (collective): is not on the queue of its mesh axes");
}

/// The command behind the collective has the memory that it reads.
TEST_F(SeededBugs, WriteBeforeRead) {
  operand(2, 1).address = y.address;
  // So that it makes a difference.
  operand(2, 0).address = y.address;
  refuse("command 2 (add_one) writes what command 1 (all_reduce) reads, and "
         "nothing orders the two");
  EXPECT_THAT(runWithManySeeds(), SizeIs(2));
}

/// The planner of memory takes z for free before the last command reads it.
TEST_F(SeededBugs, EarlyFree) {
  operand(2, 1).address = z.address;
  refuse("command 2 (add_one) writes what command 1 (all_reduce) writes, and "
         "nothing orders the two");
}

TEST_F(SeededBugs, WrongRegion) {
  operand(collective, 0).row_bytes = 32;
  refuse("command 1 (collective): operand src: expected 1 rows of 64 bytes, 0 "
         "apart, that are read; found 1 of 32");
}

TEST_F(SeededBugs, RegionOfALaunch) {
  operand(2, 0).row_bytes = 32;
  // What the launches before were written for.
  programs.kernel("add_one", {{program::Access::Read, {perIteration()}},
                              {program::Access::Write, {perIteration()}}},
                  {});
  refuse("command 2 (launch): buffer 0 of add_one: has 1 rows of 32 bytes; the "
         "kernel needs one of 64");
}

TEST_F(SeededBugs, RegionOutside) {
  operand(collective, 1).address = f.at(arena, 56, 8).address;
  refuse("operand 1: touches bytes [224, 288) of a base of 256");
}

} // namespace
