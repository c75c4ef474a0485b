//===- FakeGpuCalls.cpp - What others ask of a fake GPU -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

using optrt::cuda::fake::Gpu;

optrt::cuda::Result
optimus_fake_gpu_put(optrt::cuda::Stream stream, std::string name,
                     std::function<optrt::cuda::Result()> work,
                     std::function<bool()> isReady) {
  using optrt::cuda::Task;
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  return gpu.put(
      stream,
      {Task::Run, {std::move(name), std::move(work), std::move(isReady)}});
}

void *optimus_fake_gpu_touch(const optrt::cuda::fake::Rows &rows,
                             const char *what) {
  Gpu &gpu = Gpu::get();
  // Runs in a turn, whose thread holds the lock.
  if (gpu.memory.isHidden(rows.address))
    return gpu.touch(rows, what);
  gpu.fail(optrt::cuda::kIllegalAddress,
           optrt::concat(what, rows.address ? " is not the device's memory"
                                            : " is null"));
  return nullptr;
}

std::shared_ptr<const void>
optimus_fake_gpu_capture(optrt::cuda::Stream stream) {
  std::lock_guard lock(Gpu::get().mutex);
  return Gpu::get().streams.count(stream) ? stream->capture : nullptr;
}

void optimus_fake_gpu_hold(int gpu, int64_t bytes) {
  std::lock_guard lock(Gpu::get().mutex);
  Gpu::get().usedBytes[gpu] += bytes;
}

void optimus_fake_gpu_pass_time() {
  {
    std::lock_guard lock(Gpu::get().mutex);
    Gpu::get().passTime();
  }
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

bool optimus_fake_gpu_is_idle(int gpu) {
  std::lock_guard lock(Gpu::get().mutex);
  const auto &streams = Gpu::get().streams;
  return std::all_of(streams.begin(), streams.end(),
                     [&](optrt::cuda::Stream stream) {
                       return stream->gpu != gpu || stream->tasks.empty();
                     });
}

void optimus_fake_gpu_multiplied(uint32_t algorithm, int times) {
  Gpu &gpu = Gpu::get();
  ++gpu.counts.products[algorithm];
  const char *each = std::getenv("OPTIMUS_FAKE_GPU_PRODUCT_MS");
  for (uint32_t i = 0; each && i != algorithm; ++i)
    if ((each = std::strchr(each, ',')))
      ++each;
  if (each)
    gpu.passed += times * std::strtoll(each, nullptr, 10) * 1'000'000;
}

optrt::cuda::Result optimus_fake_gpu_load(const std::string &name) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  const std::pair code(optimus_fake_gpu_current(), name);
  if (gpu.loaded.count(code))
    return optrt::cuda::kSuccess;
  const optrt::cuda::Result result = gpu.load(name);
  if (result == optrt::cuda::kSuccess)
    gpu.loaded.insert(code);
  return result;
}

optrt::cuda::Result optimus_fake_gpu_fail(std::string what) {
  return Gpu::get().fail(optrt::cuda::kLaunchFailed, std::move(what));
}

void optimus_fake_gpu_reset(uint64_t seed) {
  std::lock_guard lock(Gpu::get().mutex);
  Gpu::get().reset(seed);
}

/// Tests that run a program look into this file when it has ended.
__attribute__((destructor)) static void writeCounts() {
  const char *path = std::getenv("OPTIMUS_FAKE_GPU_COUNTS");
  if (!path)
    return;
  const optrt::cuda::fake::Counts counts = optimus_fake_gpu_counts();
  std::ofstream(path) << "{\"allocations\": " << counts.allocations
                      << ", \"ever_allocated\": " << counts.everAllocated
                      << ", \"most_bytes\": " << counts.mostBytes
                      << ", \"ever_pinned\": " << counts.everPinned
                      << ", \"most_pinned_bytes\": " << counts.mostPinnedBytes
                      << ", \"launches\": " << counts.launches
                      << ", \"graph_launches\": " << counts.graphLaunches
                      << ", \"copied_out\": " << counts.copiedOut
                      << ", \"products\": [" << counts.products[0] << ", "
                      << counts.products[1] << ", " << counts.products[2]
                      << ", " << counts.products[3] << "]}\n";
}

optrt::cuda::fake::Counts optimus_fake_gpu_counts() {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  return gpu.counts;
}
