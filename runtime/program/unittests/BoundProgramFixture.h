//===- BoundProgramFixture.h - A function on one rank -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROGRAM_UNITTESTS_BOUNDPROGRAMFIXTURE_H
#define OPTIMUS_RUNTIME_PROGRAM_UNITTESTS_BOUNDPROGRAMFIXTURE_H

#include "program/BoundProgram.h"

#include "RecordingDevice.h"
#include "optimus-testing/ProgramWriter.h"

#include <gtest/gtest.h>

namespace optrt {

namespace program = optimus_support::program;

/// What the kernels were given by the latest run.
inline std::vector<std::vector<void *>> given;

/// A kernel with that many buffers and scalars.
template <int count>
void note(int64_t, int64_t, void *const *args) {
  given.emplace_back(args, args + count);
}

/// One function "f" on a mesh row:2,col:3, with an arena of 64 floats.
class BoundProgramTest : public testing::Test {
protected:
  BoundProgramTest() {
    EXPECT_TRUE(world.layOut(mesh).ok());
    given.clear();
  }

  /// The function on a rank. Nothing more can be written.
  StatusOr<BoundProgram> bind(int rank) {
    if (!isFinished) {
      all = programs.finish();
      isFinished = true;
      Status status = program::check(all);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    auto owned = std::make_unique<RecordingDevice>();
    device = owned.get();
    context = std::make_unique<Rank>(mesh, world, rank, std::move(owned));
    char *const arenas[] = {reinterpret_cast<char *>(arena)};
    void *const arguments[] = {numbers};
    return BoundProgram::bind(*all.targets.front(), kernels, "f", mesh, rank,
                              *device, arenas, arguments, Placement::Planned,
                              isQueued);
  }
  Status run(int rank) {
    auto program = bind(rank);
    EXPECT_TRUE(program.ok()) << program.status().message();
    return program.ok() ? program->run(*context) : program.status();
  }

  const Mesh mesh{{{"row", 2}, {"col", 3}}};
  program::ProgramWriter programs{mesh};
  program::FunctionWriter f = programs.function("f");
  program::View memory = f.arena(program::ElementType::F32, 64);
  program::View ints = f.argument(program::ElementType::I32, 8);
  bool isFinished = false;
  /// Whether collectives are put on queues.
  bool isQueued = false;
  program::ProgramsT all;

  const optimus_kernel one = hostKernel("one", note<1>),
                       two = hostKernel("two", note<2>),
                       three = hostKernel("three", note<3>),
                       none = hostKernel("none", nullptr);
  KernelTable kernels = {
      {"one", &one}, {"two", &two}, {"three", &three}, {"none", &none}};
  World world = createLocalWorld();
  RecordingDevice *device = nullptr;
  std::unique_ptr<Rank> context;
  float arena[64] = {};
  int32_t numbers[8] = {};
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROGRAM_UNITTESTS_BOUNDPROGRAMFIXTURE_H
