//===- DynamicPlacementTest.cpp - Buffers that are allocated as they begin ===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/BoundProgram.h"

#include "RecordingDevice.h"
#include "optimus-testing/ProgramWriter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optrt;
using namespace optimus_support::program;
namespace program = optimus_support::program;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// What the kernel was given, launch by launch.
std::vector<std::pair<float *, float *>> given;

void note(int64_t, int64_t, void *const *args) {
  auto *from = static_cast<float *>(args[0]),
       *to = static_cast<float *>(args[1]);
  given.emplace_back(from, to);
  *to = *from + 1;
}

/// Says what became of buffers and commands.
class Observer final : public CommandObserver {
public:
  void begin(const BoundProgram &, Site site) override {
    seen.push_back(concat("command ", site.number));
  }
  void end(const BoundProgram &, Site) override {}
  void allocated(uint32_t buffer, const void *address,
                 CommandTimes times) override {
    EXPECT_NE(address, nullptr);
    EXPECT_LE(times.begin, times.end);
    seen.push_back(concat("malloc ", buffer));
  }
  void freed(uint32_t buffer, CommandTimes times) override {
    EXPECT_LE(times.begin, times.end);
    seen.push_back(concat("free ", buffer));
  }
  std::vector<std::string> seen;
};

/// x -> a -> b -> y, where b is written at an offset that the rank decides.
class DynamicPlacementTest : public testing::Test {
protected:
  DynamicPlacementTest() {
    EXPECT_TRUE(world.layOut(mesh).ok());
    given.clear();
    f.launch("note", {}, {read(x), write(a)});
    f.launch("note", {}, {read(a), write(mine)});
    f.launch("note", {}, {read(mine), write(x)});
  }

  StatusOr<BoundProgram> bind(int rank) {
    all = programs.finish();
    Status status = check(all);
    EXPECT_TRUE(status.ok()) << status.message();
    context = std::make_unique<Rank>(mesh, world, rank,
                                     std::make_unique<RecordingDevice>());
    void *const arguments[] = {numbers};
    return BoundProgram::bind(*all.targets.front(), kernels, "f", mesh, rank,
                              *context->device, {}, arguments,
                              Placement::Dynamic);
  }

  const Mesh mesh{{{"row", 2}}};
  ProgramWriter programs{mesh};
  FunctionWriter f = programs.function("f");
  View x = f.argument(program::ElementType::F32, 4);
  View memory = f.arena(program::ElementType::F32, 64);
  View a = f.at(memory, 0, 4), b = f.at(memory, 16, 8);
  View mine = f.at(b, {.terms = {Term(4, 0)}}, 4);
  ProgramsT all;
  const optimus_kernel noting = hostKernel("note", note);
  KernelTable kernels = {{"note", &noting}};
  World world = createLocalWorld();
  std::unique_ptr<Rank> context;
  float numbers[4] = {1};
};

TEST_F(DynamicPlacementTest, BuffersLiveFromTheirFirstCommandToTheirLast) {
  f.buffer(a, 0, 1);
  f.buffer(b, 1, 2);
  auto program = bind(1);
  ASSERT_TRUE(program.ok()) << program.status().message();
  Observer observer;
  context->observer = &observer;
  ASSERT_TRUE(program->run(*context).ok());
  EXPECT_THAT(observer.seen,
              ElementsAre("malloc 0", "command 0", "malloc 1", "command 1",
                          "free 0", "command 2", "free 1"));
  EXPECT_EQ(numbers[0], 4);
}

TEST_F(DynamicPlacementTest, AddressesAreFormedAnewInEachCall) {
  f.buffer(a, 0, 1);
  f.buffer(b, 1, 2);
  auto program = bind(1);
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (int call = 0; call != 2; ++call) {
    given.clear();
    ASSERT_TRUE(program->run(*context).ok());
    ASSERT_EQ(given.size(), 3u);
    EXPECT_EQ(given[0].first, numbers);
    EXPECT_EQ(given[0].second, given[1].first);
    EXPECT_EQ(given[1].second, given[2].first);
    // The rank's part of the second buffer, which is aligned as a whole.
    EXPECT_EQ(reinterpret_cast<uintptr_t>(given[1].second) % kBufferAlignment,
              4 * sizeof(float));
    EXPECT_EQ(numbers[0], 4 + 3 * call);
  }
}

TEST_F(DynamicPlacementTest, WhatAFailedCallLeavesIsFreed) {
  f.buffer(a, 0, 1);
  f.buffer(b, 1, 2);
  auto program = bind(0);
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto &device = static_cast<RecordingDevice &>(*context->device);
  device.failsAt = "note";
  EXPECT_FALSE(program->run(*context).ok());
  device.failsAt = "";
  Observer observer;
  context->observer = &observer;
  EXPECT_TRUE(program->run(*context).ok());
  EXPECT_EQ(numbers[0], 4);
}

TEST_F(DynamicPlacementTest, BuffersMustBeListed) {
  auto program = bind(0);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), StatusCode::Unavailable);
  EXPECT_THAT(program.status().message(), HasSubstr("command 0 (note)"));
  EXPECT_THAT(program.status().message(),
              HasSubstr("the program does not list them; use planned"));
}

} // namespace
