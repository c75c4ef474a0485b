//===- PeerSockets.h - A connection to every other process ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MPI_PEERSOCKETS_H
#define OPTIMUS_RUNTIME_CCL_MPI_PEERSOCKETS_H

#include "optimus-runtime/Status.h"

#include <string>
#include <vector>

namespace optrt {

/// Owns a file descriptor.
class Socket {
public:
  explicit Socket(int fd = -1) : fd(fd) {}
  ~Socket() { close(); }
  Socket(Socket &&other) noexcept : fd(other.release()) {}
  Socket &operator=(Socket &&other) noexcept {
    close();
    fd = other.release();
    return *this;
  }

  int get() const { return fd; }
  void close();

private:
  int release() {
    int old = fd;
    fd = -1;
    return old;
  }
  int fd;
};

/// A TCP socket that waits for the other processes, and how they reach it.
class PeerListener {
public:
  static StatusOr<PeerListener> open();

  /// What the other processes must know.
  std::string address() const;

  /// Connects to all others, given everybody's address() in rank order. All
  /// processes call it at the same time.
  ///
  /// Errors: Unavailable when one cannot be reached.
  StatusOr<std::vector<Socket>>
  connectAll(int rank, const std::vector<std::string> &addresses);

private:
  Socket socket;
  int port = 0;
  std::string secret; ///< tells our peers from strangers
};

/// Indexed by rank; this process's own is closed.
using PeerSockets = std::vector<Socket>;

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_MPI_PEERSOCKETS_H
