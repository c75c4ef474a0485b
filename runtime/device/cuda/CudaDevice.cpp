//===- CudaDevice.cpp - A rank's device on an NVIDIA GPU ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"

#include "device/Descriptors.h"

#include <algorithm>
#include <utility>

namespace optrt::cuda {

//===----------------------------------------------------------------------===//
// The GPU
//===----------------------------------------------------------------------===//

StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::create(int gpu) {
  OPTRT_ASSIGN_OR_RETURN(const Driver *driver, Driver::open());
  std::unique_ptr<CudaDevice> device(new CudaDevice(*driver));
  OPTRT_RETURN_IF_ERROR(device->start(gpu));
  return device;
}

Status CudaDevice::start(int ordinal) {
  int count = 0;
  OPTRT_CUDA(driver, deviceGetCount, &count);
  if (count == 0)
    return unavailable("CUDA's driver shows no GPU");
  if (ordinal >= count)
    return unavailable(concat("CUDA's driver shows ", count,
                              " GPUs; expected one of number ", ordinal));
  OPTRT_CUDA(driver, deviceGet, &number, ordinal);
  share();
  OPTRT_RETURN_IF_ERROR(describeGpu());
  OPTRT_CUDA(driver, contextRetain, &context, number);
  OPTRT_RETURN_IF_ERROR(enter());
  OPTRT_RETURN_IF_ERROR(noteFree());
  kernels =
      std::make_unique<Kernels>(driver, gpu, [this](const std::string &what) {
        return outOfMemory(what);
      });
  queue("compute");
  return std::exchange(firstFailure, okStatus());
}

Status CudaDevice::describeGpu() {
  char name[256] = "";
  OPTRT_CUDA(driver, deviceGetName, name, sizeof(name), number);
  gpu.name = name;
  auto get = [&](Attribute attribute) -> StatusOr<int> {
    int value = 0;
    OPTRT_CUDA(driver, deviceGetAttribute, &value, attribute, number);
    return value;
  };
  OPTRT_ASSIGN_OR_RETURN(gpu.major, get(kCapabilityMajor));
  OPTRT_ASSIGN_OR_RETURN(gpu.minor, get(kCapabilityMinor));
  OPTRT_ASSIGN_OR_RETURN(gpu.multiprocessors, get(kNumMultiprocessors));
  OPTRT_ASSIGN_OR_RETURN(gpu.threadsPerMultiprocessor,
                         get(kThreadsPerMultiprocessor));
  OPTRT_ASSIGN_OR_RETURN(gpu.maxPitch, get(kMaxPitch));
  return okStatus();
}

CudaDevice::~CudaDevice() {
  leave();
  if (!context)
    return;
  // Whatever is under way still uses what is given back here, and nobody asks
  // for times any more.
  timestamps.clear();
  keep(synchronize());
  workspace = DeviceMemory();
  products.reset();
  attentions.reset();
  words.reset();
  kernels.reset();
  const DriverApi &api = driver.api();
  discardRecordings();
  for (EventPool *pool : {&events, &marks})
    for (EventHandle event : pool->made)
      api.eventDestroy(event);
  for (Stream stream : streams)
    if (stream)
      api.streamDestroy(stream);
  api.contextRelease(number);
}

Status CudaDevice::enter() const {
  OPTRT_CUDA(driver, contextSetCurrent, context);
  return okStatus();
}

void CudaDevice::keep(Status status) {
  if (firstFailure.ok())
    firstFailure = std::move(status);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

Queue CudaDevice::queue(std::string_view name) {
  auto found = std::find(names.begin(), names.end(), name);
  const auto place = static_cast<uint32_t>(found - names.begin());
  if (found != names.end())
    return {place};
  Stream stream = nullptr;
  keep(enter());
  keep(driver.check(driver.api().streamCreate(&stream, kStreamNonBlocking),
                    kDriverNames.streamCreate));
  names.emplace_back(name);
  streams.push_back(stream);
  return {place};
}

StatusOr<EventHandle> CudaDevice::take(EventPool &pool) {
  if (pool.used == pool.made.size()) {
    EventHandle event = nullptr;
    OPTRT_CUDA(driver, eventCreate, &event, pool.flags);
    pool.made.push_back(event);
  }
  return pool.made[pool.used++];
}

Event CudaDevice::record(Queue queue) {
  auto put = [&]() -> Status {
    OPTRT_RETURN_IF_ERROR(enter());
    OPTRT_ASSIGN_OR_RETURN(EventHandle event, take(events));
    OPTRT_CUDA(driver, eventRecord, event, streamOf(queue));
    return okStatus();
  };
  keep(put());
  return {firstEvent + events.used - 1};
}

Status CudaDevice::await(Queue queue, Event event) {
  OPTRT_RETURN_IF_ERROR(enter());
  // record() keeps its failure, which says more than the absence of the event.
  if (event.number - firstEvent >= events.used)
    return !firstFailure.ok()
               ? firstFailure
               : internal("waits for an event that was not recorded since the "
                          "queues were empty");
  OPTRT_CUDA(driver, streamWaitEvent, streamOf(queue),
             events.made[event.number - firstEvent], 0);
  return okStatus();
}

Status CudaDevice::call(Queue queue, std::function<Status()> work) {
  OPTRT_RETURN_IF_ERROR(enter());
  {
    const auto turn = takeTurn();
    OPTRT_CUDA(driver, streamSynchronize, streamOf(queue));
  }
  return work();
}

Status CudaDevice::synchronize() {
  const auto turn = takeTurn();
  Status status = enter();
  for (Stream stream : streams)
    if (Status one = driver.check(driver.api().streamSynchronize(stream),
                                  kDriverNames.streamSynchronize);
        status.ok())
      status = std::move(one);
  if (status.ok())
    status = measureTimes();
  // A later failure is often a consequence of the first one.
  if (Status failure = std::exchange(firstFailure, okStatus()); !failure.ok())
    status = std::move(failure);
  timestamps.clear();
  firstEvent += events.used;
  events.used = marks.used = 0;
  return status;
}

//===----------------------------------------------------------------------===//
// Repetition
//===----------------------------------------------------------------------===//

Status CudaDevice::join(Stream to, Stream from) {
  OPTRT_ASSIGN_OR_RETURN(EventHandle event, take(events));
  OPTRT_CUDA(driver, eventRecord, event, from);
  OPTRT_CUDA(driver, streamWaitEvent, to, event, 0);
  return okStatus();
}

// A stream is captured where it follows one that is, so all of them begin
// behind the first and end before it goes on.
Status CudaDevice::beginRecording() {
  OPTRT_RETURN_IF_ERROR(enter());
  OPTRT_CUDA(driver, streamBeginCapture, streams[0], int(kCaptureThreadLocal));
  recordings.emplace_back();
  isRecording = true;
  for (size_t i = 1; i != streams.size(); ++i)
    OPTRT_RETURN_IF_ERROR(join(streams[i], streams[0]));
  return okStatus();
}

Status CudaDevice::joinAll() {
  OPTRT_RETURN_IF_ERROR(enter());
  for (size_t i = 1; i != streams.size(); ++i)
    OPTRT_RETURN_IF_ERROR(join(streams[0], streams[i]));
  return okStatus();
}

StatusOr<uint32_t> CudaDevice::finishRecording(const Status &status) {
  isRecording = false;
  if (status.ok())
    return uint32_t(recordings.size() - 1);
  discard(recordings.back());
  recordings.pop_back();
  return status;
}

StatusOr<uint32_t> CudaDevice::endRecording() {
  const Status joined = joinAll();
  const Status status = instantiate(recordings.back().graph);
  return finishRecording(status.ok() ? joined : status);
}

/// The capture of the first stream, as a launchable graph.
Status CudaDevice::instantiate(GraphExec &exec) {
  Graph graph = nullptr;
  OPTRT_CUDA(driver, streamEndCapture, streams[0], &graph);
  const Result result = driver.api().graphInstantiate(&exec, graph, 0);
  driver.api().graphDestroy(graph);
  return result == kOutOfMemory
             ? outOfMemory("cannot make a graph")
             : driver.check(result, kDriverNames.graphInstantiate);
}

Status CudaDevice::replay(uint32_t recording) {
  OPTRT_RETURN_IF_ERROR(enter());
  if (recording >= recordings.size())
    return internal(concat("recording ", recording, " was not made"));
  const Recording &one = recordings[recording];
  const Result started =
      one.graph ? driver.api().graphLaunch(one.graph, streams[0]) : kSuccess;
  if (started == kOutOfMemory)
    return outOfMemory("cannot start a graph");
  OPTRT_RETURN_IF_ERROR(driver.check(started, kDriverNames.graphLaunch));
  timestamps.insert(timestamps.end(), one.timestamps.begin(),
                    one.timestamps.end());
  replayed.push_back(recording);
  return okStatus();
}

void CudaDevice::discard(Recording &recording) {
  if (recording.graph)
    driver.api().graphExecDestroy(recording.graph);
  for (const Timestamp &timestamp : recording.timestamps)
    driver.api().eventDestroy(timestamp.event);
}

void CudaDevice::discardRecordings() {
  // What these have not told yet, nobody will ask for.
  timestamps.clear();
  replayed.clear();
  for (Recording &recording : recordings)
    discard(recording);
  recordings.clear();
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

Status CudaDevice::timestamp(Queue queue, int64_t &time) {
  OPTRT_RETURN_IF_ERROR(enter());
  if (!isRecording) {
    OPTRT_ASSIGN_OR_RETURN(EventHandle event, take(marks));
    OPTRT_CUDA(driver, eventRecord, event, streamOf(queue));
    timestamps.push_back({&time, event});
    return okStatus();
  }
  // No other may record it, as long as the graph does.
  EventHandle event = nullptr;
  OPTRT_CUDA(driver, eventCreate, &event, marks.flags);
  recordings.back().timestamps.push_back({&time, event});
  OPTRT_CUDA(driver, eventRecordWithFlags, event, streamOf(queue),
             kEventRecordExternal);
  return okStatus();
}

// The GPU's clock is read beside the host's once the queues are empty.
Status CudaDevice::measureTimes() {
  if (timestamps.empty())
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(EventHandle now, take(marks));
  OPTRT_CUDA(driver, eventRecord, now, streamOf(kCompute));
  OPTRT_CUDA(driver, streamSynchronize, streamOf(kCompute));
  const int64_t here = steadyNanoseconds();
  for (const Timestamp &timestamp : timestamps) {
    float before = 0; // milliseconds
    OPTRT_CUDA(driver, eventElapsedTime, &before, timestamp.event, now);
    *timestamp.time = here - static_cast<int64_t>(double(before) * 1e6);
  }
  return okStatus();
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

Status CudaDevice::prepare(const Workload &workload) {
  OPTRT_RETURN_IF_ERROR(enter());
  OPTRT_RETURN_IF_ERROR(kernels->load(workload.images, workload.kernels));
  if (!workload.packs.empty())
    return unavailable("the program packs weights, and this device has no "
                       "packed layout");
  OPTRT_RETURN_IF_ERROR(prepareAttention(workload));
  if (workload.products.empty() || products)
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(products, Products::open(options.tf32));
  OPTRT_ASSIGN_OR_RETURN(
      workspace, allocate(kProductWorkspaceBytes, "the workspace of products"));
  return okStatus();
}

Status CudaDevice::pack(Queue, const optrt_pack_desc &, const float *,
                        float *) {
  return unavailable("this device has no packed layout");
}

Status CudaDevice::gemm(Queue queue, const optrt_gemm_desc &desc, const void *a,
                        const void *b, void *c, const void *bias,
                        const void *extra) {
  OPTRT_RETURN_IF_ERROR(enter());
  if (!products)
    return internal("a product, of which prepare() was told nothing");
  // Products that run at the same time would share the workspace.
  if (queue.number != kCompute.number)
    return internal(concat("products are for the queue 'compute'; found '",
                           names[queue.number], "'"));
  const auto turn = takeTurn();
  // All rows are computed: a graph is replayed whichever are read.
  optrt_gemm_desc all = desc;
  all.live = nullptr;
  const Status status = products->run(streamOf(queue), all,
                                      {a, b, c, bias, extra}, workspace.data());
  if (status.ok() && products->leftRowSum())
    OPTRT_RETURN_IF_ERROR(sumRows(queue, desc, b, bias));
  if (status.ok())
    return settle(queue);
  if (products->isOutOfMemory())
    return outOfMemory(status.message());
  // cuBLASLt does not say what the driver told it.
  const Result late = lateFailure();
  return late == kSuccess ? status : status.withAdvice(driver.describe(late));
}

Status CudaDevice::sumRows(Queue queue, const optrt_gemm_desc &desc,
                           const void *b, const void *bias) {
  const optimus_kernel &kernel = *desc.row_sum_kernel;
  const optrt_launch_desc launch = {kernel.name, desc.n, /*grain=*/1,
                                    /*num_buffers=*/2, /*num_scalars=*/0};
  void *const args[] = {const_cast<void *>(b), const_cast<void *>(bias)};
  return kernels->launch(streamOf(queue), launch, kernel, args);
}

Status CudaDevice::launch(Queue queue, const optrt_launch_desc &desc,
                          const optimus_kernel &kernel, void *const *args) {
  OPTRT_RETURN_IF_ERROR(enter());
  const auto turn = takeTurn();
  OPTRT_RETURN_IF_ERROR(kernels->launch(streamOf(queue), desc, kernel, args));
  return settle(queue);
}

Status CudaDevice::prepareAttention(const Workload &workload) {
  if (workload.attentions.empty() && workload.attentionGrads.empty())
    return okStatus();
  if (!attentions) {
    OPTRT_ASSIGN_OR_RETURN(attentions, CudnnAttention::open(driver, gpu.major));
  }
  auto prepare = [&](const std::vector<AttentionCall> &calls,
                     bool isGradient) -> Status {
    for (const AttentionCall &call : calls)
      OPTRT_RETURN_IF_ERROR(attentions->prepare(call.desc, isGradient)
                                .withContext(describe(call.desc))
                                .withContext(call.command));
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(prepare(workload.attentions, /*isGradient=*/false));
  return prepare(workload.attentionGrads, /*isGradient=*/true);
}

Status CudaDevice::runAttention(Queue queue, const optrt_attention_desc &desc,
                                bool isGradient,
                                const AttentionOperands &operands) {
  OPTRT_RETURN_IF_ERROR(enter());
  if (!attentions)
    return internal("an attention, of which prepare() was told nothing");
  const auto turn = takeTurn();
  OPTRT_RETURN_IF_ERROR(
      attentions->run(streamOf(queue), desc, isGradient, operands));
  return settle(queue);
}

} // namespace optrt::cuda
