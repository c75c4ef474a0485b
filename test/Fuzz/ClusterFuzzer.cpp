//===- ClusterFuzzer.cpp - Descriptions of clusters ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Simulation/Cluster.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  const auto cluster = optimus_simulation::parseCluster(text, "input");
  // One that is read can be asked where ranks lie.
  if (cluster.ok())
    (void)optimus_simulation::placeRanks(
        *cluster, optimus_support::Mesh({{"row", 4}, {"col", 4}}))
        .ok();
  return 0;
}
