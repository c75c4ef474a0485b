//===- Socket.h - Plain TCP between ranks -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_PEERS_SOCKET_H
#define OPTIMUS_RUNTIME_CCL_PEERS_SOCKET_H

#include "../AwakeTime.h"
#include "optimus-runtime/Status.h"

#include <cstddef>
#include <string>
#include <string_view>
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
  bool isOpen() const { return fd >= 0; }
  void close();

private:
  int release() {
    int old = fd;
    fd = -1;
    return old;
  }
  int fd;
};

/// Waits until a descriptor can be read or written (POLLIN, POLLOUT). False
/// after the deadline.
bool isReady(int fd, short events, Deadline deadline);

/// Listens on a port of one of this host's IPv4 addresses, or of all where none
/// is given; 0: any that is free.
StatusOr<Socket> listenOn(int port, const std::string &address = "");
/// The port on which a socket listens.
int portOf(const Socket &listener);

/// Connects to an IPv4 address; closed if nobody is there. Both ends of a
/// connection send at once what they have, and never block.
Socket connectTo(const std::string &address, int port, Deadline deadline);
/// The next connection that waits at a listener; closed if it is gone.
Socket acceptFrom(const Socket &listener);

/// All of `text`, or false: nobody reads it, or not in time.
bool sendAll(const Socket &to, std::string_view text, Deadline deadline);
/// So many bytes, or fewer if no more come in time.
std::string receiveText(const Socket &from, std::size_t size,
                        Deadline deadline);

/// What is sent or received without waiting: how many bytes; 0 if none can be
/// now, -1 if the connection is gone.
std::ptrdiff_t sendSome(const Socket &to, const void *data, std::size_t size);
std::ptrdiff_t receiveSome(const Socket &from, void *data, std::size_t size);

/// Says the end of what is sent; the other end can still be heard.
void endSending(const Socket &to);

/// The IPv4 addresses of a host, by its name or written out; none if nobody
/// knows it.
std::vector<std::string> addressesOf(const std::string &host);
/// Those of this host that others may reach.
std::vector<std::string> ownAddresses();
/// Equal for processes that reach each other over the loopback device; a word.
std::string networkIdentity();
/// "process 17 on node4".
std::string ownPlace();
std::string ownHostName();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_PEERS_SOCKET_H
