//===- CollectiveOrderTest.cpp - Ranks that start in another order --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

#include "optimus-runtime/Rank.h"

#include <array>
#include <thread>

using namespace optrt;
using testing::HasSubstr;

namespace {

/// Two ranks that share a GPU. Each starts two collectives, by way of the host.
class CollectiveOrderTest : public FakeGpuTest {
protected:
  CollectiveOrderTest() {
    EXPECT_TRUE(world.layOut(mesh).ok());
    world.control->nameCommands([](int, CommandId command) {
      return concat(command.number == 3 ? "h.0.attn" : "h.0.mlp", " (command ",
                    command.number, ")");
    });
  }

  /// The outcome for a rank that starts these, and waits for them.
  Status run(int number, std::array<uint32_t, 2> commands) {
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> own,
                           CudaDevice::create());
    Rank rank(mesh, world, number, std::move(own));
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory buffer,
                           rank.device->allocate(64, "a test"));
    const Queue axis = rank.device->queue("axis 0");
    optrt_collective_desc desc{OPTRT_ALL_REDUCE, OPTRT_SUM, 0, 0, 1, 4, 4, 4,
                               OPTRT_F32};
    for (uint32_t command : commands) {
      char *part = buffer.data() + 4 * command;
      OPTRT_RETURN_IF_ERROR(
          rank.startCollective({command, axis}, desc, part, part));
    }
    for (uint32_t command : commands)
      OPTRT_RETURN_IF_ERROR(rank.waitForCollective({9, axis}, command));
    return rank.device->synchronize();
  }
  std::vector<Status> runBoth(std::array<uint32_t, 2> first,
                              std::array<uint32_t, 2> second) {
    std::vector<Status> outcomes(2);
    std::thread other([&] { outcomes[1] = run(1, second); });
    outcomes[0] = run(0, first);
    other.join();
    return outcomes;
  }

  const Mesh mesh{{{"row", 2}}};
  World world = createLocalWorld();
};

TEST_F(CollectiveOrderTest, OneOrderIsFine) {
  for (const Status &outcome : runBoth({3, 7}, {3, 7}))
    EXPECT_TRUE(outcome.ok()) << outcome.message();
}

TEST_F(CollectiveOrderTest, AnotherOrderIsToldWithBothCommands) {
  for (const Status &outcome : runBoth({3, 7}, {7, 3})) {
    EXPECT_EQ(outcome.code(), StatusCode::Internal);
    EXPECT_THAT(outcome.message(),
                HasSubstr("ranks disagree: rank 0 runs h.0.attn (command 3), "
                          "all_reduce from or to 0 of 1x4 of f32 where rank 1 "
                          "runs h.0.mlp (command 7), all_reduce"));
  }
}

} // namespace
