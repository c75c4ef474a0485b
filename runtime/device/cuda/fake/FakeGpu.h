//===- FakeGpu.h - A GPU that the host pretends to have ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: the implementation of libfake_cuda.so, opened by a device in place
// of CUDA's driver. Device memory cannot be touched by host code and begins
// with NaN. Work on a stream happens late, streams taking turns at random in an
// order allowed by events; RaceCheck.h finds what no order holds apart. Kernels
// are "emulated" images, thread by thread, each access held against what is
// allocated. Where a real GPU leaves the result to luck, this one ends with an
// error about the mistake.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKEGPU_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKEGPU_H

#include "DriverApi.h"
#include "HiddenMemory.h"
#include "RaceCheck.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace optrt::cuda {

/// A recording of an event, which streams may wait for.
struct Marker {
  bool isReached = false;
  int64_t time = 0; ///< nanoseconds, once it is reached
};

/// Something to do on a GPU.
struct Work {
  std::string name; ///< "a copy"
  std::function<Result()> run;
  /// Whether it can begin, where that is up to somebody else: the other ranks
  /// of a collective.
  std::function<bool()> isReady = nullptr;
  int gpu = 0;
};

/// What was captured: work and what each comes after.
struct GraphOpaque {
  struct Node {
    Work work;
    std::vector<size_t> after;
  };
  std::vector<Node> nodes;
};
struct GraphExecOpaque {
  GraphOpaque graph;
  /// Of each node: those that come after it.
  std::vector<std::vector<size_t>> followers;
  /// Of each node: nodes of one lane are a chain.
  std::vector<size_t> lanes;
  /// What has happened when its launches so far are done.
  fake::Clock clock;
};

/// A capture under way.
struct Capture {
  explicit Capture(Stream origin) : origin(origin) {}

  Stream origin;
  GraphOpaque graph;
  bool isInvalid = false, hasEnded = false;
  std::thread::id thread = std::this_thread::get_id();
};

/// A launch of a graph, some of whose nodes were run.
struct GraphRun {
  /// What is destroyed meanwhile is given back when this ends.
  std::shared_ptr<const GraphExecOpaque> exec;
  std::vector<fake::OperationRef> operations;
  /// Of each node: how many of those before it are left.
  std::vector<size_t> numBefore;
  std::vector<size_t> next; ///< nodes with none
};

struct Task {
  enum Kind { Run, Graph, Reach, Await } kind = Run;
  Work work;
  std::shared_ptr<Marker> marker = nullptr;
  std::shared_ptr<GraphRun> graph = nullptr;
  fake::OperationRef operation = nullptr; ///< of work
};
struct StreamOpaque {
  int number = 0; ///< in the order of creation
  int gpu = 0;
  size_t lane = 0;
  fake::Clock clock; ///< the events before the end of all work put here
  std::deque<Task> tasks;
  std::shared_ptr<Capture> capture;
  /// The predecessors of the next node in the capture.
  std::set<size_t> frontier;
};
struct EventOpaque {
  bool hasTime = false;
  std::shared_ptr<Marker> marker;
  fake::Clock clock; ///< of the stream where it was recorded
  /// Where it was recorded last, if that was in a capture.
  std::shared_ptr<Capture> capture;
  std::set<size_t> frontier;
};

namespace fake {

/// Rows of bytes that an operation reads or writes.
struct Rows {
  const void *address;
  int64_t bytes, count = 1, pitch = 0;
  bool isWrite = false;
};

/// How many algorithms the fake cuBLASLt knows for a product.
inline constexpr uint32_t kFakeAlgorithms = 4;

/// What tests ask of the GPUs together: `optimus_fake_gpu_counts`.
struct Counts {
  int64_t allocations, bytes; ///< alive
  int64_t pinnedBytes;        ///< of the host's memory, alive
  /// So far; the most bytes that were alive at a time.
  int64_t everAllocated, mostBytes, everPinned, mostPinnedBytes;
  int64_t launches;
  int64_t graphLaunches;             ///< of graphs of more nodes than one
  int64_t products[kFakeAlgorithms]; ///< by algorithm
  int64_t copiedOut;                 ///< bytes of its memory to the host's
};

class Gpu {
public:
  static Gpu &get();

  std::mutex mutex; ///< of all that follows; turns are taken under it
  HiddenMemory memory;
  RaceCheck races;
  Accesses accesses; ///< of the operation that runs
  Counts counts = {};
  /// The numbers of the GPUs that the process sees.
  std::vector<int> visible;
  struct Allocation {
    int64_t bytes; ///< that were asked for
    int gpu;
  };
  std::map<Address, Allocation, std::greater<>> allocated; ///< by address
  std::map<int, int64_t> usedBytes;                        ///< of each GPU
  std::map<void *, int64_t> pinned;
  /// Whether memory of the host is pinned, and was not given back.
  bool isPinned(const void *address) const {
    auto next = pinned.upper_bound(const_cast<void *>(address));
    return next != pinned.begin() &&
           address < static_cast<char *>(std::prev(next)->first) +
                         std::prev(next)->second;
  }
  std::set<Stream> streams;
  int numStreams = 0; ///< so far
  std::set<EventHandle> events;
  std::map<GraphExec, std::shared_ptr<GraphExecOpaque>> graphs;
  /// As new; turns are those of the seed. Nobody may have memory any more.
  void reset(uint64_t seed);
  /// What went wrong; from then on every call fails so.
  Result failed = kSuccess;
  /// The operation that fails, by the number of its turn, and how: "700:12" in
  /// $OPTIMUS_FAKE_GPU_FAULT.
  int64_t faultyTurn = 0, turns = 0;
  Result fault = kSuccess;
  std::string problem;
  std::string latest; ///< of what was put on a stream, by name
  int64_t totalBytes; ///< of each GPU
  /// What code takes each time it is loaded, and a node of a graph:
  /// $OPTIMUS_FAKE_GPU_CODE_BYTES and ..._NODE_BYTES, or nothing.
  int64_t codeBytes, nodeBytes;
  /// Takes memory of the thread's GPU beside allocations.
  Result take(int64_t bytes);
  /// How far the GPU's clock is ahead of the host's.
  int64_t passed = 0;
  /// The GPU's clock, in nanoseconds.
  int64_t now() const;

  /// Puts a task on a stream or, while that is captured, its work into the
  /// graph.
  Result put(Stream stream, Task task);
  Result put(Stream stream, std::string name, std::function<Result()> run) {
    return put(stream, {Task::Run, {std::move(name), std::move(run)}});
  }
  /// Returns when a stream is empty. Where it waits for another rank, the mutex
  /// is let go meanwhile.
  Result drain(Stream stream);
  /// Something happens on whatever stream, as it does while the host waits for
  /// something else.
  void passTime() { takeTurn(); }
  /// Loads code for the thread's GPU, as drivers do at its first use: behind
  /// all that is on the GPU. An error where that waits for other ranks.
  Result load(const std::string &name);
  /// The code of libraries that was loaded, on each GPU.
  std::set<std::pair<int, std::string>> loaded;
  /// Ends with an error, now and ever after.
  Result fail(Result result, std::string what);
  /// Refuses a call, with its mistake.
  Result refuse(Result result, std::string what);
  /// What a call may not do while something is captured: the capture is void.
  Result checkCapture(const char *what);

  /// The place of a rows' address for the running operation, in the device's
  /// memory or in host memory that is no device's; null after fail().
  void *touch(const Rows &rows, const char *what);
  /// Where a kernel finds what is at an address; null after fail().
  void *resolve(Address address, const char *what);

  uint64_t draw() { return random(); }

private:
  Gpu();
  /// Whether work may begin; notes where it waits for another rank.
  bool isReady(const Work &work);
  /// Whether a stream has something that may begin.
  bool canGoOn(Stream stream);
  /// Takes one turn on a stream that can go on; false where none can.
  bool takeTurn();
  void readFault();
  /// Runs one node, whichever may begin; whether that was the last.
  bool runNode(GraphRun &run);
  /// Does an operation's work, and checks its accesses against all others.
  Result perform(const OperationRef &operation, const Work &work);
  /// Refuses memory on another GPU than the working one.
  Result checkPlace(const void *address, const char *what);
  Result capture(Stream stream, Work work);

  int working = 0; ///< the GPU of what runs
  bool waitsForRanks = false;
  std::mt19937_64 random;
};

/// On its turn, a stream's or a kernel's write of a word of pinned memory.
Result writeHostWord(Gpu &gpu, Address to, uint32_t value);

} // namespace fake
} // namespace optrt::cuda

/// What the fake cuBLASLt, the fake NCCL and tests need of the fake driver:
/// puts work on a stream, and finds memory when its turn has come.
__attribute__((visibility("default"))) optrt::cuda::Result
optimus_fake_gpu_put(optrt::cuda::Stream stream, std::string name,
                     std::function<optrt::cuda::Result()> work,
                     std::function<bool()> isReady = nullptr);
__attribute__((visibility("default"))) void *
optimus_fake_gpu_touch(const optrt::cuda::fake::Rows &rows, const char *what);
/// What captures a stream; null for nothing.
__attribute__((visibility("default"))) std::shared_ptr<const void>
optimus_fake_gpu_capture(optrt::cuda::Stream stream);
/// Counts a product, on its thread's turn, and lets pass the time for its
/// algorithm in $OPTIMUS_FAKE_GPU_PRODUCT_MS, "30,10,50,10", so many times.
__attribute__((visibility("default"))) void
optimus_fake_gpu_multiplied(uint32_t algorithm, int times);
/// Loads a library's code at its first use, as its name tells.
__attribute__((visibility("default"))) optrt::cuda::Result
optimus_fake_gpu_load(const std::string &name);
/// Ends running and future work with an error.
__attribute__((visibility("default"))) optrt::cuda::Result
optimus_fake_gpu_fail(std::string what);
/// Takes bytes of a GPU's memory as a library does for itself, or, where they
/// are below 0, gives them back.
__attribute__((visibility("default"))) void
optimus_fake_gpu_hold(int gpu, int64_t bytes);
/// Lets a moment pass for the GPUs while a library waits.
__attribute__((visibility("default"))) void optimus_fake_gpu_pass_time();
/// Whether a GPU has nothing to do: where libraries give memory back, the
/// driver waits for that.
__attribute__((visibility("default"))) bool optimus_fake_gpu_is_idle(int gpu);
/// The number of the GPU whose context is the thread's; -1 for none.
__attribute__((visibility("default"))) int optimus_fake_gpu_current();
extern "C" __attribute__((visibility("default"))) optrt::cuda::fake::Counts
optimus_fake_gpu_counts();
extern "C" __attribute__((visibility("default"))) void
optimus_fake_gpu_reset(uint64_t seed);

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKEGPU_H
