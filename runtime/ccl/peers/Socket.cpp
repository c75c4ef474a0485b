//===- Socket.cpp - Plain TCP between ranks -------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Socket.h"

#include "optimus-support/InputFile.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace optrt {

void Socket::close() {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

bool isReady(int fd, short events, Deadline deadline) {
  while (true) {
    const bool isLast = deadline.hasPassed();
    pollfd one{fd, events, 0};
    if (poll(&one, 1, isLast ? 0 : deadline.pollMilliseconds()) == 1)
      return true;
    if (isLast)
      return false;
  }
}

static void sendAtOnce(const Socket &socket) {
  int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

StatusOr<Socket> listenOn(int port, const std::string &address) {
  Socket listener(
      ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  any.sin_port = htons(static_cast<uint16_t>(port));
  if (!address.empty() &&
      inet_pton(AF_INET, address.c_str(), &any.sin_addr) != 1)
    return invalidArgument(concat("`", address, "` is no IPv4 address"));
  // A port left by a job that just ended does not count.
  int on = 1;
  if (listener.isOpen())
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (!listener.isOpen() ||
      bind(listener.get(), reinterpret_cast<sockaddr *>(&any), sizeof(any)) !=
          0 ||
      listen(listener.get(), SOMAXCONN) != 0)
    return unavailable(concat("cannot listen",
                              port ? concat(" on port ", port) : "",
                              address.empty() ? "" : concat(" of ", address),
                              ": ", std::strerror(errno)));
  return listener;
}

int portOf(const Socket &listener) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(listener.get(), reinterpret_cast<sockaddr *>(&address), &size);
  return ntohs(address.sin_port);
}

Socket connectTo(const std::string &address, int port, Deadline deadline) {
  Socket socket(
      ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  if (!socket.isOpen() ||
      inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1)
    return Socket();
  if (connect(socket.get(), reinterpret_cast<sockaddr *>(&to), sizeof(to)) !=
      0) {
    int error = errno == EINPROGRESS ? 0 : errno;
    socklen_t size = sizeof(error);
    if (error || !isReady(socket.get(), POLLOUT, deadline) ||
        getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 ||
        error)
      return Socket();
  }
  sendAtOnce(socket);
  return socket;
}

Socket acceptFrom(const Socket &listener) {
  Socket peer(
      accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (peer.isOpen())
    sendAtOnce(peer);
  return peer;
}

std::ptrdiff_t sendSome(const Socket &to, const void *data, std::size_t size) {
  while (true) {
    ssize_t sent = send(to.get(), data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
      return sent;
    if (errno != EINTR)
      return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
  }
}

std::ptrdiff_t receiveSome(const Socket &from, void *data, std::size_t size) {
  while (true) {
    ssize_t got = recv(from.get(), data, size, MSG_DONTWAIT);
    if (got > 0)
      return got;
    if (got == 0)
      return -1;
    if (errno != EINTR)
      return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
  }
}

void endSending(const Socket &to) { shutdown(to.get(), SHUT_WR); }

bool sendAll(const Socket &to, std::string_view text, Deadline deadline) {
  while (!text.empty()) {
    std::ptrdiff_t sent = sendSome(to, text.data(), text.size());
    if (sent < 0 || (sent == 0 && !isReady(to.get(), POLLOUT, deadline)))
      return false;
    text.remove_prefix(sent);
  }
  return true;
}

std::string receiveText(const Socket &from, std::size_t size,
                        Deadline deadline) {
  std::string text(size, '\0');
  std::size_t have = 0;
  while (have != size && isReady(from.get(), POLLIN, deadline)) {
    std::ptrdiff_t got = receiveSome(from, &text[have], size - have);
    if (got < 0)
      break;
    have += got;
  }
  text.resize(have);
  return text;
}

static std::string textOf(const sockaddr *address) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(address)->sin_addr,
            text, sizeof(text));
  return text;
}

std::vector<std::string> addressesOf(const std::string &host) {
  std::vector<std::string> result;
  addrinfo hints{}, *list = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0)
    return result;
  for (addrinfo *one = list; one; one = one->ai_next)
    result.push_back(textOf(one->ai_addr));
  freeaddrinfo(list);
  return result;
}

std::vector<std::string> ownAddresses() {
  std::vector<std::string> result;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return result;
  for (ifaddrs *one = list; one; one = one->ifa_next)
    if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET &&
        (one->ifa_flags & IFF_UP) && !(one->ifa_flags & IFF_LOOPBACK))
      result.push_back(textOf(one->ifa_addr));
  freeifaddrs(list);
  return result;
}

std::string networkIdentity() {
  char space[64] = "";
  ssize_t length = readlink("/proc/self/ns/net", space, sizeof(space) - 1);
  return concat("net:", optimus_support::machineIdentity(),
                std::string(space, length > 0 ? length : 0));
}

std::string ownHostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return *name ? name : "localhost";
}

std::string ownPlace() {
  return concat("process ", getpid(), " on ", ownHostName());
}

} // namespace optrt
