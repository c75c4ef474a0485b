//===- PeerMonitor.cpp - Notices ranks that die or stall ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PeerMonitor.h"

#include "core/Thread.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <type_traits>
#include <unistd.h>

namespace optrt {
namespace {

static_assert(std::is_trivially_copyable_v<ActivitySnapshot>,
              "it is sent as its bytes: all ranks run one program");

struct Header {
  uint32_t type, length;
};

/// When a rank dies, mpirun sends all others SIGTERM, at about the time at
/// which they notice. Who died must be said first.
volatile std::sig_atomic_t terminated = 0;
void noteTermination(int) { terminated = 1; }
/// What the signal did before.
struct sigaction terminationBefore;
constexpr std::chrono::milliseconds kTerminationGrace(500);

/// How long the ranks that do not speak leave mpirun alone, which ends all when
/// it sees one end.
constexpr std::chrono::milliseconds kTimeToSpeak(100);

constexpr double kLongestInterval = 0.5;

/// Far more than any message has: a longer one is not of a peer.
constexpr uint32_t kMostPayload = 1 << 16;

} // namespace

PeerMonitor::PeerMonitor(PeerSockets sockets, Options options)
    : sockets(std::move(sockets)), options(std::move(options)),
      interval(std::min(kLongestInterval, this->options.timeoutSeconds / 5)),
      peers(this->options.size) {
  for (Peer &peer : peers)
    peer.lastHeard = Clock::now();
}

Status PeerMonitor::start() {
  OPTRT_ASSIGN_OR_RETURN(
      thread, startThread("the thread that watches the other ranks (--timeout "
                          "0 does without it)",
                          [this] { work(); }));
  struct sigaction now {};
  if (sigaction(SIGTERM, nullptr, &now) == 0 && now.sa_handler != SIG_IGN &&
      now.sa_handler != noteTermination) {
    terminationBefore = now;
    struct sigaction action {};
    action.sa_handler = noteTermination;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, nullptr);
  }
  return okStatus();
}

PeerMonitor::~PeerMonitor() {
  stopping.store(true);
  if (thread.joinable())
    thread.join();
  sendToAll(Goodbye, "");
  struct sigaction now {};
  if (sigaction(SIGTERM, nullptr, &now) == 0 &&
      now.sa_handler == noteTermination)
    sigaction(SIGTERM, &terminationBefore, nullptr);
}

void PeerMonitor::quit() {
  quiet.store(true);
  sendToAll(Quit, "");
}

void PeerMonitor::sendToAll(MessageType type, const std::string &payload) {
  std::lock_guard lock(sending);
  Header header{type, static_cast<uint32_t>(payload.size())};
  std::string message(reinterpret_cast<const char *>(&header), sizeof(header));
  message += payload;
  for (Socket &socket : sockets) {
    if (socket.get() < 0)
      continue;
    ssize_t sent = send(socket.get(), message.data(), message.size(),
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    // A full buffer is a peer that does not read: it misses this message. Half
    // a message would spoil those after it.
    if (sent > 0 && sent != static_cast<ssize_t>(message.size()))
      shutdown(socket.get(), SHUT_WR);
  }
}

void PeerMonitor::beat() {
  ActivitySnapshot own = snapshot(*options.activity);
  peers[options.rank].activity = own;
  sendToAll(Heartbeat,
            std::string(reinterpret_cast<const char *>(&own), sizeof(own)));
}

void PeerMonitor::receiveFrom(int rank) {
  Peer &peer = peers[rank];
  char buffer[4096];
  while (!peer.gone) {
    ssize_t got = recv(sockets[rank].get(), buffer, sizeof(buffer), 0);
    if (got > 0) {
      peer.buffer.append(buffer, got);
      peer.lastHeard = Clock::now();
      continue;
    }
    if (got < 0 && errno == EINTR)
      continue;
    peer.gone = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    break;
  }
  understand(rank);
}

void PeerMonitor::understand(int rank) {
  Peer &peer = peers[rank];
  Header header;
  while (peer.buffer.size() >= sizeof(header)) {
    std::memcpy(&header, peer.buffer.data(), sizeof(header));
    if (header.length > kMostPayload) {
      peer.gone = true;
      return;
    }
    if (peer.buffer.size() < sizeof(header) + header.length)
      return;
    std::string payload = peer.buffer.substr(sizeof(header), header.length);
    peer.buffer.erase(0, sizeof(header) + header.length);
    switch (header.type) {
    case Heartbeat:
      if (payload.size() == sizeof(ActivitySnapshot))
        std::memcpy(&peer.activity, payload.data(), payload.size());
      break;
    case Goodbye:
      peer.left = true;
      break;
    case Quit:
      quiet.store(true);
      break;
    case Verdict: {
      std::istringstream verdict(payload);
      int culprit = -1, speaker = -1;
      verdict >> culprit >> speaker;
      verdict.ignore(1);
      end(culprit, speaker, std::string(std::istreambuf_iterator(verdict), {}));
      break;
    }
    }
  }
}

void PeerMonitor::judge() {
  std::vector<RankReport> reports(peers.size());
  Clock::time_point now = Clock::now();
  for (std::size_t rank = 0; rank != peers.size(); ++rank) {
    const Peer &peer = peers[rank];
    reports[rank].activity = peer.activity;
    if (peer.left || static_cast<int>(rank) == options.rank)
      continue;
    reports[rank].gone = peer.gone;
    reports[rank].silentSeconds =
        std::chrono::duration<double>(now - peer.lastHeard).count();
    // The last heartbeat is as old as the silence.
    if (peer.activity.waits())
      reports[rank].activity.waitedSeconds += reports[rank].silentSeconds;
  }
  if (std::optional<Stall> stall = findStall(
          reports, options.mesh, options.names, options.timeoutSeconds))
    end(stall->rank, chooseSpeaker(stall->rank), stall->message);
}

/// The lowest rank that lives.
int PeerMonitor::chooseSpeaker(int culprit) const {
  int speaker = 0;
  while (speaker != options.rank &&
         (speaker == culprit || peers[speaker].gone || peers[speaker].left))
    ++speaker;
  return speaker;
}

/// All end; one says why. Who hears the verdict does not choose again: the
/// speaker may have ended since.
void PeerMonitor::end(int culprit, int speaker, const std::string &message) {
  if (quiet.exchange(true))
    return;
  sendToAll(Verdict, concat(culprit, ' ', speaker, ' ', message));
  bool speaks = speaker == options.rank && culprit != options.rank;
  if (!speaks)
    std::this_thread::sleep_for(kTimeToSpeak);
  options.onStall(unavailable(message), speaks);
}

void PeerMonitor::watchTermination() {
  if (!terminated)
    return;
  Clock::time_point now = Clock::now();
  if (terminatedAt == Clock::time_point())
    terminatedAt = now;
  if (now - terminatedAt < kTerminationGrace)
    return;
  sigaction(SIGTERM, &terminationBefore, nullptr);
  kill(getpid(), SIGTERM);
}

void PeerMonitor::work() {
  Clock::time_point nextBeat = Clock::now();
  while (!stopping.load()) {
    std::vector<pollfd> watched;
    for (std::size_t rank = 0; rank != peers.size(); ++rank)
      watched.push_back(
          {peers[rank].gone ? -1 : sockets[rank].get(), POLLIN, 0});
    // Short enough that the end of the process does not wait for it.
    constexpr int kMilliseconds = 20;
    poll(watched.data(), watched.size(), kMilliseconds);
    // All that has arrived is read before anybody is judged: this process may
    // have been stopped itself.
    for (std::size_t rank = 0; rank != peers.size(); ++rank)
      if (watched[rank].revents)
        receiveFrom(static_cast<int>(rank));
    if (quiet.load())
      continue;
    watchTermination();
    bool beats = Clock::now() >= nextBeat;
    if (beats) {
      beat();
      nextBeat =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(interval);
    }
    bool died = std::any_of(peers.begin(), peers.end(), [](const Peer &peer) {
      return peer.gone && !peer.left;
    });
    if (beats || died)
      judge();
  }
}

} // namespace optrt
