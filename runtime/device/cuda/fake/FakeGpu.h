//===- FakeGpu.h - A GPU that the host pretends to have ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: what stands behind libfake_cuda.so, which a device opens in place
// of CUDA's driver. Device memory cannot be touched by host code and begins
// with NaN. What is put on a stream happens late, streams taking turns at
// random in an order that events permit; RaceCheck.h finds what no order holds
// apart. Kernels are "emulated" images, thread by thread, each access held
// against what is allocated. What a real GPU would leave to luck ends with an
// error that says what was wrong.
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

/// What was captured: work and what each comes after.
struct GraphOpaque {
  struct Node {
    std::string name;
    std::function<Result()> work;
    std::vector<size_t> after;
  };
  std::vector<Node> nodes;
};
struct GraphExecOpaque {
  GraphOpaque graph;
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

struct Task {
  enum Kind { Work, Reach, Await } kind = Work;
  std::string name; ///< of work: "a copy"
  std::function<Result()> work;
  std::shared_ptr<Marker> marker;
  fake::OperationRef operation; ///< null of a graph, whose nodes are some
};
struct StreamOpaque {
  int number = 0; ///< in the order of creation
  size_t lane = 0;
  fake::Clock clock; ///< what has happened behind all that was put here
  std::deque<Task> tasks;
  std::shared_ptr<Capture> capture;
  /// The nodes that what comes next in the capture follows.
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

/// What tests ask of the GPU: `optimus_fake_gpu_counts`.
struct Counts {
  int64_t allocations, bytes; ///< alive
  int64_t pinnedBytes;        ///< of the host's memory, alive
  /// So far; the most bytes that were alive at a time.
  int64_t everAllocated, mostBytes, everPinned, mostPinnedBytes;
  int64_t launches, graphLaunches;
  int64_t products[kFakeAlgorithms]; ///< by algorithm
};

class Gpu {
public:
  static Gpu &get();

  std::mutex mutex; ///< of all that follows; turns are taken under it
  HiddenMemory memory;
  RaceCheck races;
  Accesses accesses; ///< of the operation that runs
  Counts counts = {};
  /// By address, the bytes that were asked for.
  std::map<Address, int64_t> allocated;
  std::map<void *, int64_t> pinned;
  std::set<Stream> streams;
  int numStreams = 0; ///< so far
  std::set<EventHandle> events;
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
  int64_t totalBytes;
  /// How far the GPU's clock is ahead of the host's.
  int64_t passed = 0;

  /// Puts work on a stream or, while that is captured, into the graph.
  Result put(Stream stream, Task task);
  /// The same for work, with the name that it has where it goes wrong.
  Result put(Stream stream, std::string name, std::function<Result()> work) {
    return put(stream, {Task::Work, std::move(name), std::move(work), nullptr,
                        nullptr});
  }
  /// Does what an operation has to do, and holds what it touched against all
  /// others.
  Result perform(const OperationRef &operation,
                 const std::function<Result()> &work);
  /// Returns when a stream is empty.
  Result drain(Stream stream);
  /// Ends with an error, now and ever after.
  Result fail(Result result, std::string what);
  /// Refuses a call, which says what was wrong with it.
  Result refuse(Result result, std::string what);
  /// What a call may not do while something is captured: the capture is void.
  Result checkCapture(const char *what);

  /// Where the device's memory is, or host memory that is no device's, which
  /// the operation that runs touches; null after fail().
  void *touch(const Rows &rows, const char *what);
  /// Where a kernel finds what is at an address; null after fail().
  void *resolve(Address address, const char *what);

  uint64_t draw() { return random(); }

private:
  Gpu();
  /// Takes one turn on a stream that can go on; false where none can.
  bool takeTurn();
  void readFault();
  Result capture(Stream stream, Task task);

  std::mt19937_64 random;
};

/// Runs a graph's nodes in an order that they permit.
Result runGraph(const GraphOpaque &graph,
                const std::vector<OperationRef> &operations, Gpu &gpu);

} // namespace fake
} // namespace optrt::cuda

/// What the fake cuBLASLt and tests need of the fake driver: puts work on a
/// stream, and finds memory when its turn has come.
__attribute__((visibility("default"))) optrt::cuda::Result
optimus_fake_gpu_put(optrt::cuda::Stream stream, std::string name,
                     std::function<optrt::cuda::Result()> work);
__attribute__((visibility("default"))) void *
optimus_fake_gpu_touch(const optrt::cuda::fake::Rows &rows, const char *what);
/// Counts a product, in whose turn its thread is, and lets the time pass that
/// $OPTIMUS_FAKE_GPU_PRODUCT_MS has for its algorithm: "30,10,50,10".
__attribute__((visibility("default"))) void
optimus_fake_gpu_multiplied(uint32_t algorithm);
extern "C" __attribute__((visibility("default"))) optrt::cuda::fake::Counts
optimus_fake_gpu_counts();
extern "C" __attribute__((visibility("default"))) void
optimus_fake_gpu_reset(uint64_t seed);

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKEGPU_H
