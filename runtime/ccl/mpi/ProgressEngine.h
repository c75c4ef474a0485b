//===- ProgressEngine.h - Moves what is in flight over MPI ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MPI moves data only inside its calls. While a rank waits, its thread makes
// them; while it computes, a thread of the engine does, which sleeps between
// looks, or until data arrives (Arrivals.h). One lock serializes all calls.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MPI_PROGRESSENGINE_H
#define OPTIMUS_RUNTIME_CCL_MPI_PROGRESSENGINE_H

#include "Arrivals.h"
#include "Operation.h"
#include "base/Thread.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace optrt {

/// An operation in flight, and its outcome.
struct InFlight {
  Operation operation;
  CommandId id;
  bool used = false; ///< started and not waited for
  /// Under the engine's lock until `complete`.
  Status status;
  std::atomic<bool> complete{false};
};

class ProgressEngine {
public:
  /// A rank that shares memory with none gets all its data over a network.
  explicit ProgressEngine(bool sharesNoMemory) : arrivals(sharesNoMemory) {}
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine &) = delete;
  ProgressEngine &operator=(const ProgressEngine &) = delete;

  /// Starts the engine's thread. Without it, operations move only while the
  /// rank starts or waits. Unavailable when the system gives no thread.
  Status start();

  /// Held for every MPI call outside the engine.
  std::mutex &lock() { return mpi; }

  /// Whether waiting ranks share cores with ranks that compute.
  void setOversubscribed(bool value) { oversubscribed = value; }

  /// Watches an operation that has begun and is not done. Under lock().
  void add(InFlight &operation);

  /// Moves everything in flight until this operation is complete.
  void waitFor(InFlight &operation);

  /// Completes requests while nothing else is in flight. Under lock().
  Status waitForAll(std::span<MPI_Request> requests);

  /// The rank goes on to compute.
  void overlap();

private:
  /// Ranks that have a core each may look all the time; others must let those
  /// run that they wait for, and are woken sooner from a sleep than from a
  /// yield. MPI itself yields when it finds nothing to do.
  Backoff backoff() {
    return Backoff(arrivals, oversubscribed ? 100 : 2000,
                   std::chrono::microseconds(100));
  }
  void work(std::unique_lock<std::mutex> &guard);
  /// Under lock(). Whether something was completed.
  bool advanceAll();

  Arrivals arrivals;
  std::mutex mpi;
  std::vector<InFlight *> active; ///< under `mpi`
  std::atomic<int> numActive{0};
  bool oversubscribed = false;

  /// The thread looks after `active` while this is true.
  std::atomic<bool> inCharge{false};
  Worker worker;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_MPI_PROGRESSENGINE_H
