//===- FakeGraphs.cpp - Captures and graphs of a fake GPU -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

using namespace optrt::cuda;
using optrt::cuda::fake::Gpu;

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

Result cuGraphInstantiateWithFlags(GraphExec *exec, Graph graph,
                                   unsigned long long) {
  *exec = new GraphExecOpaque{*graph};
  return kSuccess;
}

Result cuGraphLaunch(GraphExec exec, Stream stream) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  ++gpu.counts.graphLaunches;
  auto work = [exec, &gpu] {
    return optrt::cuda::fake::runGraph(exec->graph, gpu);
  };
  return gpu.put(stream, {Task::Work, work, nullptr});
}

Result cuGraphDestroy(Graph graph) {
  delete graph;
  return kSuccess;
}

Result cuGraphExecDestroy(GraphExec exec) {
  delete exec;
  return kSuccess;
}
