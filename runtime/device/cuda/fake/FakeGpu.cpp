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
#include <sstream>

namespace optrt::cuda::fake {

static int64_t numberFrom(const char *variable, int64_t otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::strtoll(text, nullptr, 10) : otherwise;
}

/// As the driver does: the machine's GPUs listed in CUDA_VISIBLE_DEVICES, up to
/// the first invalid one.
static std::vector<int> visibleGpus() {
  const int64_t count = numberFrom("OPTIMUS_FAKE_GPU_COUNT", 1);
  std::vector<int> visible;
  const char *chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!chosen) {
    for (int gpu = 0; gpu != count; ++gpu)
      visible.push_back(gpu);
    return visible;
  }
  std::istringstream list(chosen);
  for (std::string one; std::getline(list, one, ',');) {
    char *end = nullptr;
    const int64_t gpu = std::strtoll(one.c_str(), &end, 10);
    if (end == one.c_str() || *end || gpu < 0 || gpu >= count)
      break;
    visible.push_back(int(gpu));
  }
  return visible;
}

Gpu::Gpu()
    : visible(visibleGpus()),
      totalBytes(numberFrom("OPTIMUS_FAKE_GPU_BYTES", int64_t(1) << 30)),
      codeBytes(numberFrom("OPTIMUS_FAKE_GPU_CODE_BYTES", 0)),
      nodeBytes(numberFrom("OPTIMUS_FAKE_GPU_NODE_BYTES", 0)),
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
  for (auto [address, allocation] : allocated)
    memory.release(reinterpret_cast<void *>(address));
  for (auto [address, bytes] : pinned)
    std::free(address);
  allocated.clear();
  usedBytes.clear();
  loaded.clear();
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

Result Gpu::load(const std::string &name) {
  const int place = optimus_fake_gpu_current();
  for (Stream stream : streams)
    for (const Task &task : stream->tasks) {
      if (stream->gpu != place)
        break;
      std::vector<const Work *> all{&task.work};
      if (task.kind == Task::Graph)
        for (const GraphOpaque::Node &node : task.graph->exec->graph.nodes)
          all.push_back(&node.work);
      for (const Work *work : all)
        if (!isReady(*work))
          return fail(kLaunchFailed,
                      concat(name, " is loaded at its first use, behind ",
                             work->name, " on stream ", stream->number,
                             ", which waits for other ranks: load it before"));
    }
  return take(codeBytes);
}

Result Gpu::take(int64_t bytes) {
  int64_t &used = usedBytes[optimus_fake_gpu_current()];
  if (bytes > totalBytes - used)
    return refuse(kOutOfMemory, "out of memory");
  used += bytes;
  return kSuccess;
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

Result Gpu::capture(Stream stream, Work work) {
  GraphOpaque &graph = stream->capture->graph;
  std::vector<size_t> after(stream->frontier.begin(), stream->frontier.end());
  work.name = concat(work.name, " on stream ", stream->number, " of a graph");
  graph.nodes.push_back({std::move(work), std::move(after)});
  stream->frontier = {graph.nodes.size() - 1};
  return kSuccess;
}

Result Gpu::put(Stream stream, Task task) {
  if (failed != kSuccess)
    return failed;
  if (!streams.count(stream))
    return refuse(kInvalidHandle, "a stream that was not created");
  task.work.gpu = stream->gpu;
  if (stream->capture)
    return capture(stream, std::move(task.work));
  if (task.kind == Task::Run) {
    task.operation = std::make_shared<Operation>(
        races.next(concat(task.work.name, " on stream ", stream->number),
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

bool Gpu::isReady(const Work &work) {
  // What has failed is only taken off its stream.
  if (failed != kSuccess || !work.isReady || work.isReady())
    return true;
  waitsForRanks = true;
  return false;
}

bool Gpu::canGoOn(Stream stream) {
  if (stream->tasks.empty())
    return false;
  const Task &task = stream->tasks.front();
  switch (task.kind) {
  case Task::Run:
    return isReady(task.work);
  case Task::Graph:
    return task.graph->next.empty() ||
           std::any_of(task.graph->next.begin(), task.graph->next.end(),
                       [&](size_t node) {
                         return isReady(
                             task.graph->exec->graph.nodes[node].work);
                       });
  case Task::Reach:
    return true;
  case Task::Await:
    return task.marker->isReached;
  }
  return false;
}

int64_t Gpu::now() const { return steadyNanoseconds() + passed; }

bool Gpu::takeTurn() {
  waitsForRanks = false;
  std::vector<Stream> ready;
  for (Stream stream : streams)
    if (canGoOn(stream))
      ready.push_back(stream);
  if (ready.empty())
    return false;
  Stream stream = ready[random() % ready.size()];
  Task &task = stream->tasks.front();
  if (task.kind == Task::Graph && failed == kSuccess && !runNode(*task.graph))
    return true;
  if (task.kind == Task::Reach) {
    task.marker->isReached = true;
    task.marker->time = now();
  } else if (task.kind == Task::Run && failed == kSuccess) {
    perform(task.operation, task.work);
  }
  stream->tasks.pop_front();
  return true;
}

bool Gpu::runNode(GraphRun &run) {
  const std::vector<GraphOpaque::Node> &nodes = run.exec->graph.nodes;
  std::vector<size_t> ready;
  for (size_t i = 0; i != run.next.size(); ++i)
    if (isReady(nodes[run.next[i]].work))
      ready.push_back(i);
  if (ready.empty())
    return run.next.empty();
  const size_t place = ready[random() % ready.size()], node = run.next[place];
  run.next[place] = run.next.back();
  run.next.pop_back();
  perform(run.operations[node], nodes[node].work);
  for (size_t follower : run.exec->followers[node])
    if (--run.numBefore[follower] == 0)
      run.next.push_back(follower);
  return run.next.empty();
}

Result Gpu::perform(const OperationRef &operation, const Work &work) {
  if (!work.run)
    return kSuccess;
  accesses.clear();
  if (++turns == faultyTurn)
    return fail(fault, operation->name + ", on purpose");
  working = work.gpu;
  if (Result result = work.run(); result != kSuccess)
    return result;
  std::string race = races.check(operation, accesses);
  return race.empty() ? kSuccess : fail(kLaunchFailed, std::move(race));
}

Result Gpu::drain(Stream stream) {
  if (!streams.count(stream))
    return refuse(kInvalidHandle, "a stream that was not created");
  while (!stream->tasks.empty()) {
    if (takeTurn())
      continue;
    if (!waitsForRanks)
      return fail(kLaunchFailed, "streams wait for each other");
    mutex.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    mutex.lock();
  }
  races.wait(stream->clock);
  if (std::all_of(streams.begin(), streams.end(), [&](Stream other) {
        return races.hasWaitedFor(other->clock);
      }))
    races.forgetAccesses();
  return failed;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Result Gpu::checkPlace(const void *address, const char *what) {
  auto found = allocated.lower_bound(reinterpret_cast<Address>(address));
  if (found == allocated.end() || found->second.gpu == working)
    return kSuccess;
  return fail(kIllegalAddress,
              concat(what, " of GPU ", working, " touches memory of GPU ",
                     found->second.gpu));
}

void *Gpu::resolve(Address address, const char *what) {
  if (checkPlace(reinterpret_cast<const void *>(address), what) != kSuccess)
    return nullptr;
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
    if (checkPlace(place, what) != kSuccess)
      return nullptr;
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
