//===- FakeGraphs.cpp - Captures and graphs of a fake GPU -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include <algorithm>

using namespace optrt::cuda;
using namespace optrt::cuda::fake;

extern "C" {
#pragma GCC visibility push(default)
Result cuStreamBeginCapture_v2(Stream stream, int mode);
Result cuStreamEndCapture(Stream stream, Graph *graph);
Result cuGraphInstantiateWithFlags(GraphExec *exec, Graph graph,
                                   unsigned long long flags);
Result cuGraphLaunch(GraphExec exec, Stream stream);
Result cuGraphDestroy(Graph graph);
Result cuGraphExecDestroy(GraphExec exec);
#pragma GCC visibility pop
}

Result cuStreamBeginCapture_v2(Stream stream, int mode) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  if (!gpu.streams.count(stream) || stream->capture ||
      mode != int(kCaptureThreadLocal))
    return gpu.refuse(kInvalidValue, "a capture that cannot begin");
  stream->capture = std::make_shared<Capture>(stream);
  stream->frontier.clear();
  return kSuccess;
}

/// Whether every node comes before some of these.
static bool isJoined(const GraphOpaque &graph, std::set<size_t> reached) {
  for (size_t i = graph.nodes.size(); i-- != 0;)
    if (reached.count(i))
      reached.insert(graph.nodes[i].after.begin(), graph.nodes[i].after.end());
  return reached.size() == graph.nodes.size();
}

Result cuStreamEndCapture(Stream stream, Graph *graph) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  *graph = nullptr;
  if (!gpu.streams.count(stream) || !stream->capture ||
      stream->capture->origin != stream)
    return gpu.refuse(kCaptureUnmatched, "a capture ends that was not begun");
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->thread != std::this_thread::get_id())
    return gpu.refuse(kCaptureWrongThread,
                      "a capture ends on another thread than it began on");
  const std::set<size_t> last = stream->frontier;
  for (Stream other : gpu.streams)
    if (other->capture == capture) {
      other->capture = nullptr;
      other->frontier.clear();
    }
  capture->hasEnded = true;
  if (capture->isInvalid)
    return gpu.refuse(kCaptureInvalidated, "the capture was void");
  if (!isJoined(capture->graph, last))
    return gpu.refuse(kCaptureUnjoined,
                      "a stream that was captured, too, was not waited for");
  *graph = new GraphOpaque(std::move(capture->graph));
  return kSuccess;
}

/// A node goes on with the lane of a predecessor, if it is free.
static std::vector<size_t> lanesOf(const GraphOpaque &graph, RaceCheck &races) {
  std::vector<size_t> lanes;
  std::vector<bool> isTaken(graph.nodes.size());
  for (const GraphOpaque::Node &node : graph.nodes) {
    auto free = std::find_if(node.after.begin(), node.after.end(),
                             [&](size_t before) { return !isTaken[before]; });
    if (free == node.after.end()) {
      lanes.push_back(races.addLane());
      continue;
    }
    isTaken[*free] = true;
    lanes.push_back(lanes[*free]);
  }
  return lanes;
}

static int64_t bytesOf(const GraphOpaque &graph, const Gpu &gpu) {
  return int64_t(graph.nodes.size()) * gpu.nodeBytes;
}

Result cuGraphInstantiateWithFlags(GraphExec *exec, Graph graph,
                                   unsigned long long) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  if (Result result = gpu.take(bytesOf(*graph, gpu)))
    return result;
  std::vector<std::vector<size_t>> followers(graph->nodes.size());
  for (size_t i = 0; i != graph->nodes.size(); ++i)
    for (size_t before : graph->nodes[i].after)
      followers[before].push_back(i);
  std::shared_ptr<GraphExecOpaque> made(new GraphExecOpaque{
      *graph, std::move(followers), lanesOf(*graph, gpu.races), {}});
  *exec = made.get();
  gpu.graphs[*exec] = std::move(made);
  return kSuccess;
}

/// A launch's nodes as operations, behind the stream and earlier launches; the
/// stream and the graph go on behind all of them.
static std::vector<OperationRef> operationsOf(GraphExecOpaque &exec,
                                              StreamOpaque &stream, Gpu &gpu) {
  Clock start = stream.clock;
  start.join(exec.clock);
  std::vector<OperationRef> operations;
  for (size_t i = 0; i != exec.graph.nodes.size(); ++i) {
    const GraphOpaque::Node &node = exec.graph.nodes[i];
    Clock before = start;
    for (size_t other : node.after)
      before.join(operations[other]->clock);
    operations.push_back(std::make_shared<Operation>(
        gpu.races.next(node.work.name, exec.lanes[i], before)));
    stream.clock.join(operations.back()->clock);
  }
  exec.clock = stream.clock;
  return operations;
}

Result cuGraphLaunch(GraphExec exec, Stream stream) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  if (!gpu.streams.count(stream) || stream->capture)
    return gpu.refuse(kInvalidValue, "a graph where none can be launched");
  // A step has more nodes than one: with that, the device tries the driver.
  gpu.counts.graphLaunches += exec->graph.nodes.size() > 1;
  auto run = std::make_shared<GraphRun>();
  run->exec = gpu.graphs.at(exec);
  run->operations = operationsOf(*exec, *stream, gpu);
  for (const GraphOpaque::Node &node : exec->graph.nodes) {
    if (node.after.empty())
      run->next.push_back(run->numBefore.size());
    run->numBefore.push_back(node.after.size());
  }
  return gpu.put(stream, {Task::Graph, {}, nullptr, std::move(run)});
}

Result cuGraphDestroy(Graph graph) {
  delete graph;
  return kSuccess;
}

/// One that is under way goes on.
Result cuGraphExecDestroy(GraphExec exec) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  auto known = gpu.graphs.find(exec);
  if (known == gpu.graphs.end())
    return gpu.refuse(kInvalidHandle, "a graph that was not made");
  (void)gpu.take(-bytesOf(exec->graph, gpu));
  gpu.graphs.erase(known);
  return kSuccess;
}
