//===- empty_launches.cpp - The cost of a command without work ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks a table of 10,000 launches of a kernel that returns at once, on one
// rank with the processor's device, and prints the nanoseconds per launch.
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/CpuDevice.h"
#include "optimus-runtime/World.h"
#include "optimus-testing/ProgramWriter.h"
#include "program/BoundProgram.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace optrt;
using namespace optimus_support::program;
namespace program = optimus_support::program;

static void doNothing(int64_t, int64_t, void *const *) {}

template <typename T>
static T must(StatusOr<T> value) {
  if (value.ok())
    return std::move(value).value();
  std::fprintf(stderr, "%s\n", value.status().toString().c_str());
  std::exit(1);
}

int main() {
  constexpr int kCommands = 10000, kRounds = 201;
  const Mesh mesh({{"row", 1}});
  ProgramWriter programs(mesh);
  FunctionWriter f = programs.function("empty");
  View arena = f.arena(program::ElementType::F32, 1024);
  for (int i = 0; i != kCommands; ++i)
    f.launch("nothing", {}, {update(f.at(arena, i % 1024, 1))});
  ProgramsT written = programs.finish();
  ProgramsT all = must(unpack(pack(written)));

  World world = createLocalWorld();
  if (Status status = world.layOut(mesh); !status.ok())
    return 1;
  Rank rank(mesh, world, 0, std::make_unique<CpuDevice>(1));
  std::vector<float> memory(1024);
  char *const arenas[] = {reinterpret_cast<char *>(memory.data())};
  const optimus_kernel nothing = hostKernel("nothing", doNothing);
  BoundProgram launches =
      must(BoundProgram::bind(*all.targets.front(), {{"nothing", &nothing}},
                              "empty", mesh, 0, *rank.device, arenas, {}));
  std::vector<double> nanoseconds;
  for (int round = 0; round != kRounds; ++round) {
    auto start = std::chrono::steady_clock::now();
    if (!launches.run(rank).ok())
      return 1;
    nanoseconds.push_back(std::chrono::duration<double, std::nano>(
                              std::chrono::steady_clock::now() - start)
                              .count() /
                          kCommands);
  }
  std::sort(nanoseconds.begin(), nanoseconds.end());
  std::printf("ns a launch: median %.1f, least %.1f, most %.1f\n",
              nanoseconds[kRounds / 2], nanoseconds.front(),
              nanoseconds.back());
  return 0;
}
