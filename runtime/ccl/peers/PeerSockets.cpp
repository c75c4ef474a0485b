//===- PeerSockets.cpp - Connections to other processes -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PeerSockets.h"

#include <algorithm>
#include <charconv>
#include <poll.h>
#include <set>
#include <sstream>

namespace optrt {
namespace {

/// For all connections of a process together: others may share its core.
constexpr double kPatienceSeconds = 30;
/// For what a peer says of itself when it is connected.
constexpr double kGreetingSeconds = 10;

/// What a hash stands for.
constexpr std::string_view kByPeer = "peer";
constexpr const char *kLoopback = "127.0.0.1";

constexpr std::size_t kRankWidth = 8;

std::string paddedRank(int rank) {
  std::string text = std::to_string(rank);
  return std::string(kRankWidth - text.size(), ' ') + text;
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
  std::string identity, number;
  int port = 0;
  std::vector<std::string> hosts;

  explicit Address(const std::string &text) {
    std::istringstream words(text);
    words >> identity >> number >> port;
    for (std::string host; words >> host;)
      hosts.push_back(host);
  }

  /// For messages: "10.0.0.2 172.17.0.1, port 4711".
  std::string toString() const {
    std::string text;
    for (const std::string &host : hosts)
      text += host + " ";
    return concat(text, "port ", port);
  }
};

} // namespace

std::vector<int> overlayPeers(int rank, int size) {
  std::set<int> peers;
  for (int distance = 1; distance < size; distance *= 2) {
    peers.insert((rank + distance) % size);
    peers.insert((rank + size - distance) % size);
  }
  return {peers.begin(), peers.end()};
}

PeerTerms makePeerTerms(ControlPlane &control) {
  const std::string network = networkIdentity();
  std::string drawn;
  bool isOneNetwork = true;
  for (const std::string &text :
       control.allGather(concat(randomDigits(), network))) {
    drawn += text;
    isOneNetwork &= text.substr(JobKey::kDigits) == network;
  }
  return {JobKey(drawn), isOneNetwork ? kLoopback : ""};
}

StatusOr<PeerListener> PeerListener::open(const PeerTerms &terms) {
  PeerListener listener(terms);
  OPTRT_ASSIGN_OR_RETURN(listener.socket, listenOn(0, terms.bind));
  return listener;
}

std::string PeerListener::address() const {
  std::string text =
      concat(networkIdentity(), ' ', number, ' ', portOf(socket));
  if (!terms.bind.empty())
    return concat(text, ' ', terms.bind);
  text += concat(' ', kLoopback);
  for (const std::string &host : ownAddresses())
    text += " " + host;
  return text;
}

Socket PeerListener::reach(const JobKey &key, int rank, Line line,
                           const std::string &address) {
  static const std::string identity = networkIdentity();
  Address to(address);
  const Deadline deadline(kPatienceSeconds);
  const std::string who = paddedRank(rank) + static_cast<char>(line);
  for (const std::string &host : to.hosts) {
    // Another network's is another process.
    if (host == kLoopback && to.identity != identity)
      continue;
    Socket socket = connectTo(host, to.port, deadline);
    if (socket.isOpen() &&
        sendAll(socket, who + key.sign({kByPeer, to.number, who}), deadline))
      return socket;
  }
  return Socket();
}

std::pair<int, Socket> PeerListener::acceptPeer(int size, Deadline deadline) {
  while (isReady(socket.get(), POLLIN, deadline)) {
    Socket peer = acceptFrom(socket);
    if (!peer.isOpen())
      continue;
    const std::string greeting =
        receiveText(peer, kRankWidth + 1 + JobKey::kDigits,
                    Deadline::earlierOf(deadline, Deadline(kGreetingSeconds)));
    const std::string who = greeting.substr(0, kRankWidth + 1);
    if (!terms.key.verify(greeting.substr(who.size()), {kByPeer, number, who}))
      continue;
    int rank = numberIn(who.substr(0, kRankWidth));
    if (rank >= 0 && rank < size && said.insert(who).second)
      return {rank, std::move(peer)};
  }
  return {-1, Socket()};
}

StatusOr<PeerSockets>
PeerListener::connect(int rank, const std::vector<int> &peers,
                      const std::vector<std::string> &addresses) {
  const int size = static_cast<int>(addresses.size());
  PeerSockets sockets(size);
  // A connection waits in the listener's queue until it is accepted, so all
  // can connect first.
  std::set<int> missing;
  for (int peer : peers) {
    if (peer > rank) {
      missing.insert(peer);
      continue;
    }
    sockets[peer] = reach(terms.key, rank, Line::ToPeer, addresses[peer]);
    if (!sockets[peer].isOpen())
      return unavailable(concat("the ranks' side channel: rank ", rank,
                                " cannot reach rank ", peer, " at ",
                                Address(addresses[peer]).toString(),
                                "; let the hosts' ranks reach each other's "
                                "ports over TCP"));
  }
  const Deadline deadline(kPatienceSeconds);
  while (!missing.empty()) {
    auto [peer, connection] = acceptPeer(size, deadline);
    if (!connection.isOpen())
      return unavailable(concat("the ranks' side channel: rank ",
                                *missing.begin(), " did not connect to rank ",
                                rank, " within ", kPatienceSeconds, " s"));
    if (missing.erase(peer) != 0)
      sockets[peer] = std::move(connection);
  }
  return sockets;
}

StatusOr<PeerSockets> connectOverlay(ControlPlane &control,
                                     const PeerTerms &terms) {
  StatusOr<PeerListener> listener = PeerListener::open(terms);
  OPTRT_RETURN_IF_ERROR(control.agree(listener.status()));
  const int rank = control.firstRank();
  return listener->connect(rank, overlayPeers(rank, control.size()),
                           control.allGather(listener->address()));
}

} // namespace optrt
