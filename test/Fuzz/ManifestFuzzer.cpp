//===- ManifestFuzzer.cpp - Manifests of model libraries ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Manifest.h"
#include "optimus-support/Shard.h"

#include <cstdlib>
#include <string_view>

using namespace optrt;

/// Of a manifest that is accepted, every rank's shards must make sense.
static void walk(const Manifest &manifest, const ShardLayout &layout) {
  int64_t most = layout.numLocalElements();
  for (int64_t rank = 0; rank < std::min<int64_t>(manifest.mesh.numRanks(), 8);
       ++rank) {
    optimus_support::ShardRuns runs(layout, manifest.mesh, rank);
    for (int i = 0; i != 1000 && !runs.done(); ++i, runs.advance()) {
      const optimus_support::ShardRun &run = runs.next();
      if (run.localOffset < 0 || run.count < 1 ||
          run.localOffset + run.count > most || run.globalOffset < 0 ||
          run.globalOffset + run.count > layout.numElements())
        std::abort();
    }
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StatusOr<Manifest> manifest = parseManifest(
      std::string_view(reinterpret_cast<const char *>(data), size));
  if (!manifest.ok())
    return 0;
  for (const Buffer &buffer : manifest->buffers)
    walk(*manifest, buffer.layout);
  for (const Function &function : manifest->functions)
    manifest->effectsOf(function);
  return 0;
}
