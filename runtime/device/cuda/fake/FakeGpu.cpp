//===- FakeGpu.cpp - A GPU that the host pretends to have -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "HostAccess.h"

#include "optimus-runtime/Device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace optrt::cuda::fake {

static int64_t numberFrom(const char *variable, int64_t otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::strtoll(text, nullptr, 10) : otherwise;
}

Gpu::Gpu()
    : totalBytes(numberFrom("OPTIMUS_FAKE_GPU_BYTES", int64_t(1) << 30)),
      random(uint64_t(numberFrom("OPTIMUS_FAKE_GPU_SEED", 0))) {
  readFault();
  tellOfHostAccesses();
}

void Gpu::readFault() {
  const char *text = std::getenv("OPTIMUS_FAKE_GPU_FAULT");
  char *end = nullptr;
  fault = text ? Result(std::strtol(text, &end, 10)) : kSuccess;
  faultyTurn = fault == kSuccess ? 0 : std::strtoll(end + 1, nullptr, 10);
  turns = 0;
}

Gpu &Gpu::get() {
  // Devices may outlive whatever a process ends in order.
  static Gpu *gpu = new Gpu();
  return *gpu;
}

void Gpu::reset(uint64_t seed) {
  races.reset();
  numStreams = 0;
  for (Stream stream : streams) {
    stream->tasks.clear();
    stream->capture = nullptr;
    stream->clock = {};
    stream->lane = races.addLane();
  }
  for (auto [address, bytes] : allocated)
    memory.release(reinterpret_cast<void *>(address));
  for (auto [address, bytes] : pinned)
    std::free(address);
  allocated.clear();
  pinned.clear();
  counts = {};
  failed = kSuccess;
  problem.clear();
  latest.clear();
  readFault();
  random.seed(seed);
}

Result Gpu::fail(Result result, std::string what) {
  if (failed == kSuccess) {
    failed = result;
    problem = std::move(what);
  }
  return failed;
}

Result Gpu::refuse(Result result, std::string what) {
  problem = std::move(what);
  return result;
}

Result Gpu::checkCapture(const char *what) {
  for (Stream stream : streams)
    if (stream->capture &&
        stream->capture->thread == std::this_thread::get_id()) {
      stream->capture->isInvalid = true;
      return refuse(kCaptureUnsupported,
                    concat(what, " while a stream is captured"));
    }
  return kSuccess;
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

Result Gpu::capture(Stream stream, Task task) {
  GraphOpaque &graph = stream->capture->graph;
  std::vector<size_t> after(stream->frontier.begin(), stream->frontier.end());
  graph.nodes.push_back(
      {concat(task.name, " on stream ", stream->number, " of a graph"),
       std::move(task.work), std::move(after)});
  stream->frontier = {graph.nodes.size() - 1};
  return kSuccess;
}

Result Gpu::put(Stream stream, Task task) {
  if (failed != kSuccess)
    return failed;
  if (!streams.count(stream))
    return refuse(kInvalidHandle, "a stream that was not created");
  if (stream->capture)
    return capture(stream, std::move(task));
  if (task.kind == Task::Work && !task.name.empty()) {
    task.operation = std::make_shared<Operation>(
        races.next(concat(task.name, " on stream ", stream->number),
                   stream->lane, stream->clock));
    stream->clock = task.operation->clock;
    latest = task.operation->name;
  }
  stream->tasks.push_back(std::move(task));
  // Now and then something happens meanwhile, on whatever stream.
  if (random() % 4 == 0)
    takeTurn();
  return kSuccess;
}

bool Gpu::takeTurn() {
  std::vector<Stream> ready;
  for (Stream stream : streams)
    if (!stream->tasks.empty() && (stream->tasks.front().kind != Task::Await ||
                                   stream->tasks.front().marker->isReached))
      ready.push_back(stream);
  if (ready.empty())
    return false;
  Stream stream = ready[random() % ready.size()];
  Task task = std::move(stream->tasks.front());
  stream->tasks.pop_front();
  if (task.kind == Task::Reach) {
    task.marker->isReached = true;
    task.marker->time = steadyNanoseconds() + passed;
  } else if (task.kind == Task::Work && failed == kSuccess) {
    task.operation ? perform(task.operation, task.work) : task.work();
  }
  return true;
}

Result Gpu::perform(const OperationRef &operation,
                    const std::function<Result()> &work) {
  accesses.clear();
  if (++turns == faultyTurn)
    return fail(fault, operation->name + ", on purpose");
  if (Result result = work(); result != kSuccess)
    return result;
  std::string race = races.check(operation, accesses);
  return race.empty() ? kSuccess : fail(kLaunchFailed, std::move(race));
}

Result Gpu::drain(Stream stream) {
  if (!streams.count(stream))
    return refuse(kInvalidHandle, "a stream that was not created");
  while (!stream->tasks.empty())
    if (!takeTurn())
      return fail(kLaunchFailed, "streams wait for each other");
  races.wait(stream->clock);
  if (std::all_of(streams.begin(), streams.end(), [&](Stream other) {
        return races.hasWaitedFor(other->clock);
      }))
    races.forgetAccesses();
  return failed;
}

Result runGraph(const GraphOpaque &graph,
                const std::vector<OperationRef> &operations, Gpu &gpu) {
  std::vector<bool> isDone(graph.nodes.size());
  for (size_t left = graph.nodes.size(); left != 0; --left) {
    std::vector<size_t> ready;
    for (size_t i = 0; i != graph.nodes.size(); ++i)
      if (!isDone[i] &&
          std::all_of(graph.nodes[i].after.begin(), graph.nodes[i].after.end(),
                      [&](size_t before) { return isDone[before]; }))
        ready.push_back(i);
    const size_t next = ready[gpu.draw() % ready.size()];
    isDone[next] = true;
    if (const auto &work = graph.nodes[next].work)
      if (Result result = gpu.perform(operations[next], work);
          result != kSuccess)
        return result;
  }
  return kSuccess;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void *Gpu::resolve(Address address, const char *what) {
  StatusOr<void *> found =
      memory.find(reinterpret_cast<void *>(address), /*bytes=*/1);
  if (found.ok())
    return *found;
  fail(kIllegalAddress, concat(what, " ", found.status().message()));
  return nullptr;
}

void *Gpu::touch(const Rows &rows, const char *what) {
  const int64_t extent = rows.count == 0 || rows.bytes == 0
                             ? 0
                             : (rows.count - 1) * rows.pitch + rows.bytes;
  auto *place = const_cast<char *>(static_cast<const char *>(rows.address));
  if (memory.isHidden(place)) {
    StatusOr<void *> found = memory.find(place, extent);
    if (!found.ok()) {
      fail(kIllegalAddress, concat(what, " ", found.status().message()));
      return nullptr;
    }
    place = static_cast<char *>(*found);
  }
  for (int64_t row = 0; row != rows.count; ++row)
    accesses.add(place + row * rows.pitch, size_t(rows.bytes), rows.isWrite);
  return place;
}

} // namespace optrt::cuda::fake

using optrt::cuda::fake::Gpu;

optrt::cuda::Result
optimus_fake_gpu_put(optrt::cuda::Stream stream, std::string name,
                     std::function<optrt::cuda::Result()> work) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  return gpu.put(stream, std::move(name), std::move(work));
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

void optimus_fake_gpu_multiplied(uint32_t algorithm) {
  Gpu &gpu = Gpu::get();
  ++gpu.counts.products[algorithm];
  const char *times = std::getenv("OPTIMUS_FAKE_GPU_PRODUCT_MS");
  for (uint32_t i = 0; times && i != algorithm; ++i)
    if ((times = std::strchr(times, ',')))
      ++times;
  if (times)
    gpu.passed += std::strtoll(times, nullptr, 10) * 1'000'000;
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
                      << ", \"products\": [" << counts.products[0] << ", "
                      << counts.products[1] << ", " << counts.products[2]
                      << ", " << counts.products[3] << "]}\n";
}

optrt::cuda::fake::Counts optimus_fake_gpu_counts() {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  return gpu.counts;
}
