//===- ShardFile.cpp - Shards out of a file of whole tensors --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardFile.h"

#include <algorithm>
#include <vector>

using namespace optrt;
using namespace optimus_support;

// In elements. A window is small enough to stay in a core's cache between the
// read and the copy. A gap takes about as long to read from memory as a call
// takes; a disk reads further than that for one run.
static constexpr int64_t kWindow = (256 << 10) / sizeof(float);
static constexpr int64_t kGap = (16 << 10) / sizeof(float);

Status optrt::readShard(const InputFile &file, size_t offset,
                        const ShardLayout &layout, const Mesh &mesh,
                        int64_t rank, int64_t first, std::span<float> piece) {
  auto read = [&](int64_t element, float *to, int64_t count) {
    return file.read(offset + size_t(element) * sizeof(float), to,
                     size_t(count) * sizeof(float));
  };
  if (layout.hasPadding(mesh))
    std::ranges::fill(piece, 0.0f);
  auto place = [&](const ShardRun &run) {
    return piece.data() + (run.localOffset - first);
  };
  std::vector<float> window;
  ShardRuns runs(layout, mesh, rank, first,
                 first + static_cast<int64_t>(piece.size()));
  while (!runs.done()) {
    ShardRuns inWindow = runs;
    const ShardRun next = runs.next();
    const int64_t begin = next.globalOffset;
    int64_t end = begin + next.count;
    for (runs.advance(); !runs.done(); runs.advance()) {
      const ShardRun &run = runs.next();
      if (run.globalOffset - end > kGap ||
          run.globalOffset + run.count - begin > kWindow)
        break;
      end = run.globalOffset + run.count;
    }
    if (end == begin + next.count) {
      OPTRT_RETURN_IF_ERROR(read(begin, place(next), next.count));
      continue;
    }
    window.resize(std::min(kWindow, layout.numElements()));
    OPTRT_RETURN_IF_ERROR(read(begin, window.data(), end - begin));
    for (ShardRun run; inWindow.takeBefore(end, run);)
      std::copy_n(window.data() + (run.globalOffset - begin), run.count,
                  place(run));
  }
  return okStatus();
}
