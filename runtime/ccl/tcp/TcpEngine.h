//===- TcpEngine.h - Moves what is in flight over TCP -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_TCP_TCPENGINE_H
#define OPTIMUS_RUNTIME_CCL_TCP_TCPENGINE_H

#include "TcpOperation.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace optrt {

/// A group's collectives in the order in which they were started: the first is
/// under way, and the next follow on the same connections. Messages are under
/// way together where they share none.
struct TcpGroup {
  TcpMembers members;
  std::deque<TcpOperation *> queue;
  Status failure; ///< nothing moves any more

  bool isUnderWay(std::size_t place) const;
  /// What is waited for on a member's connection, as poll() has it.
  short eventsOf(int member) const;
};

/// A thread that sleeps until something can be sent or received.
class TcpEngine {
public:
  ~TcpEngine();

  /// Unavailable when the system gives no thread.
  Status start();

  /// The engine looks at these groups from now on, and at no others.
  void look(std::vector<std::unique_ptr<TcpGroup>> newGroups);
  TcpGroup &group(std::size_t index) { return *groups[index]; }

  /// Adds an operation that has begun to its group.
  void add(TcpGroup &group, TcpOperation &operation);

  /// Waits until it is done, or until it cannot be any more.
  Status waitFor(TcpGroup &group, const TcpOperation &operation);

  /// All waits, now and later, fail.
  void abort();

private:
  void work();
  /// Under `mutex`. Whether something was completed or failed.
  static bool advance(TcpGroup &group);
  void wake();

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<TcpGroup>> groups; ///< all under `mutex`
  bool stopping = false, aborted = false;
  Socket wakes; ///< an eventfd
  std::thread thread;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_TCP_TCPENGINE_H
