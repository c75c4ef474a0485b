//===- PeerSockets.cpp - A connection to every other process --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PeerSockets.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <random>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

namespace optrt {
namespace {

constexpr int kPatienceMilliseconds = 10'000;

Status systemError(const char *what) {
  return unavailable(
      concat("the ranks' side channel: ", what, ": ", std::strerror(errno)));
}

/// Equal for processes that reach each other over the loopback device.
std::string networkIdentity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64] = "";
  ssize_t length = readlink("/proc/self/ns/net", space, sizeof(space) - 1);
  return boot + std::string(space, length > 0 ? length : 0);
}

/// The IPv4 addresses of this host that others may reach.
std::vector<std::string> hostAddresses() {
  std::vector<std::string> result;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) != 0)
    return result;
  for (ifaddrs *one = list; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET ||
        !(one->ifa_flags & IFF_UP) || (one->ifa_flags & IFF_LOOPBACK))
      continue;
    char text[INET_ADDRSTRLEN];
    auto *address = reinterpret_cast<sockaddr_in *>(one->ifa_addr);
    if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text)))
      result.push_back(text);
  }
  freeifaddrs(list);
  return result;
}

/// Waits until a descriptor can be read or written.
bool isReady(int fd, short events) {
  pollfd one{fd, events, 0};
  return poll(&one, 1, kPatienceMilliseconds) == 1;
}

Socket connectTo(const std::string &address, int port) {
  Socket socket(
      ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  if (socket.get() < 0 ||
      inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1)
    return Socket();
  if (connect(socket.get(), reinterpret_cast<sockaddr *>(&to), sizeof(to)) !=
      0) {
    int error = errno == EINPROGRESS ? 0 : errno;
    socklen_t size = sizeof(error);
    if (error || !isReady(socket.get(), POLLOUT) ||
        getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 ||
        error)
      return Socket();
  }
  return socket;
}

bool sendText(int fd, const std::string &text) {
  return isReady(fd, POLLOUT) &&
         send(fd, text.data(), text.size(), MSG_NOSIGNAL) ==
             static_cast<ssize_t>(text.size());
}

/// A few bytes, which arrive together or soon after one another.
std::string receiveText(int fd, std::size_t size) {
  std::string text;
  while (text.size() < size && isReady(fd, POLLIN)) {
    char buffer[64];
    ssize_t got =
        recv(fd, buffer, std::min(sizeof(buffer), size - text.size()), 0);
    if (got <= 0)
      break;
    text.append(buffer, got);
  }
  return text;
}

std::string paddedRank(int rank) {
  std::string text = std::to_string(rank);
  return std::string(8 - text.size(), ' ') + text;
}

/// What paddedRank() made; -1 for anything else.
int numberIn(const std::string &text) {
  int number = -1;
  const char *end = text.data() + text.size();
  const char *begin =
      text.data() + std::min(text.find_first_not_of(' '), text.size());
  auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc() && stop == end ? number : -1;
}

/// address(), understood.
struct Address {
  std::string identity, secret;
  int port = 0;
  std::vector<std::string> hosts;

  explicit Address(const std::string &text) {
    std::istringstream words(text);
    words >> identity >> secret >> port;
    for (std::string host; words >> host;)
      hosts.push_back(host);
  }
};

} // namespace

void Socket::close() {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

StatusOr<PeerListener> PeerListener::open() {
  PeerListener listener;
  listener.socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(any);
  auto *address = reinterpret_cast<sockaddr *>(&any);
  int fd = listener.socket.get();
  if (fd < 0 || bind(fd, address, size) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, address, &size) != 0)
    return systemError("cannot listen");
  listener.port = ntohs(any.sin_port);
  std::random_device random;
  for (int i = 0; i != 4; ++i)
    listener.secret += std::to_string(random() % 10000 + 10000);
  return listener;
}

std::string PeerListener::address() const {
  std::string text = concat(networkIdentity(), ' ', secret, ' ', port);
  for (const std::string &host : hostAddresses())
    text += " " + host;
  return text;
}

StatusOr<std::vector<Socket>>
PeerListener::connectAll(int rank, const std::vector<std::string> &addresses) {
  const int size = static_cast<int>(addresses.size());
  std::vector<Socket> sockets(size);
  std::string identity = networkIdentity();
  // A connection waits in the listener's queue until it is accepted, so all
  // can connect first.
  for (int peer = 0; peer != rank; ++peer) {
    Address to(addresses[peer]);
    if (to.identity == identity)
      to.hosts.insert(to.hosts.begin(), "127.0.0.1");
    for (const std::string &host : to.hosts) {
      Socket socket = connectTo(host, to.port);
      if (socket.get() < 0 ||
          !sendText(socket.get(), to.secret + paddedRank(rank)))
        continue;
      sockets[peer] = std::move(socket);
      break;
    }
    if (sockets[peer].get() < 0)
      return unavailable(concat("the ranks' side channel: rank ", rank,
                                " cannot reach rank ", peer, " at ",
                                addresses[peer].substr(addresses[peer].find(
                                    ' ', to.identity.size() + 1)),
                                "; open that way or give --timeout 0"));
  }
  for (int left = size - 1 - rank; left != 0;) {
    if (!isReady(socket.get(), POLLIN))
      return unavailable(concat("the ranks' side channel: ", left,
                                " ranks did not connect to rank ", rank));
    Socket peer(
        accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer.get() < 0)
      return systemError("cannot accept");
    // Whoever does not know the secret is no peer.
    std::string greeting = receiveText(peer.get(), secret.size() + 8);
    if (greeting.size() != secret.size() + 8 ||
        greeting.compare(0, secret.size(), secret) != 0)
      continue;
    int index = numberIn(greeting.substr(secret.size()));
    if (index <= rank || index >= size || sockets[index].get() >= 0)
      continue;
    sockets[index] = std::move(peer);
    --left;
  }
  for (const Socket &one : sockets) {
    int on = 1;
    if (one.get() >= 0)
      setsockopt(one.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  socket.close();
  return sockets;
}

} // namespace optrt
