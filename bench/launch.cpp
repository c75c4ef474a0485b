//===- launch.cpp - What joining a job costs ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All that optimus-run does of its ranks before the first step, and nothing
// else: they meet, lay out a mesh, connect the members of its axes, and watch
// each other. Rank 0 prints how long each part took it.
//
//   optimus-bench-launch --backend mpi|tcp --mesh 8x8
//
//===----------------------------------------------------------------------===//

#include "join.h"

#include <chrono>
#include <cstdio>
#include <cstring>

using namespace optrt;
using optimus_bench::kTimeoutSeconds;

namespace {

using Clock = std::chrono::steady_clock;

int fail(const Status &status) { return optimus_bench::fail("launch", status); }

void reportEnd(const Status &status, bool speaks) {
  if (speaks)
    fail(status);
}

Status run(World &world, int64_t rows, int64_t columns, double joined) {
  Clock::time_point start = Clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  OPTRT_RETURN_IF_ERROR(
      world.layOut(optimus_support::Mesh({{"row", rows}, {"col", columns}})));
  double laidOut = seconds();
  OPTRT_RETURN_IF_ERROR(world.control->watch({kTimeoutSeconds, reportEnd}));
  if (world.control->isRoot())
    std::printf("{\"backend\": \"%s\", \"ranks\": %d, \"join_s\": %.3f, "
                "\"lay_out_s\": %.3f, \"watch_s\": %.3f}\n",
                std::string(world.collectives->name()).c_str(),
                world.control->size(), joined, laidOut, seconds() - laidOut);
  return world.control->agree(okStatus());
}

} // namespace

int main(int argc, char **argv) {
  long rows = 0, columns = 0;
  if (argc != 5 || std::strcmp(argv[1], "--backend") != 0 ||
      std::strcmp(argv[3], "--mesh") != 0 ||
      std::sscanf(argv[4], "%ldx%ld", &rows, &columns) != 2)
    return fail(invalidArgument("expected --backend mpi|tcp --mesh "
                                "ROWSxCOLUMNS, found other arguments"));
  Clock::time_point start = Clock::now();
  StatusOr<World> world = optimus_bench::join(argv[2], reportEnd);
  if (!world.ok())
    return fail(world.status());
  Status status =
      run(*world, rows, columns,
          std::chrono::duration<double>(Clock::now() - start).count());
  if (status.ok())
    return 0;
  int code = fail(status);
  world->control->exitJob(code);
}
