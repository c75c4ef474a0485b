//===- PeerMonitor.h - Notices ranks that die or stall ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A side channel of the ranks' own: every process has a plain TCP connection
// to every other and a thread that says on all of them, again and again, what
// its rank is doing. A closed connection is a dead process, silence a stopped
// one, and what ranks say tells who it is that the others wait for.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MPI_PEERMONITOR_H
#define OPTIMUS_RUNTIME_CCL_MPI_PEERMONITOR_H

#include "../Stall.h"
#include "PeerSockets.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

namespace optrt {

class PeerMonitor {
public:
  struct Options {
    int rank = 0, size = 1;
    double timeoutSeconds = 0;
    optimus_support::Mesh mesh;
    CommandNames names;                     ///< of commands of all ranks
    const RankActivity *activity = nullptr; ///< of this process's rank
    /// Called once, on the monitor's thread, in every process; must end the
    /// process. `speaks` in the one that is to print the status.
    std::function<void(const Status &status, bool speaks)> onStall;
  };

  /// Takes the connections to all other ranks.
  PeerMonitor(PeerSockets sockets, Options options);
  /// Starts watching. Unavailable when the system gives no thread.
  Status start();
  /// Says good-bye, so that the others do not take the end for a death.
  ~PeerMonitor();
  PeerMonitor(const PeerMonitor &) = delete;
  PeerMonitor &operator=(const PeerMonitor &) = delete;

  /// Before this process ends the job in another way: from now on nobody
  /// reports its end, nor the others'.
  void quit();

private:
  using Clock = std::chrono::steady_clock;
  enum MessageType : uint32_t { Heartbeat, Goodbye, Quit, Verdict };

  struct Peer {
    std::string buffer; ///< received and not understood yet
    Clock::time_point lastHeard;
    ActivitySnapshot activity;
    bool left = false; ///< said good-bye
    bool gone = false;
  };

  void work();
  void beat();
  void sendToAll(MessageType type, const std::string &payload);
  void receiveFrom(int rank);
  void understand(int rank);
  void judge();
  int chooseSpeaker(int culprit) const;
  void end(int culprit, int speaker, const std::string &message);
  void watchTermination();

  PeerSockets sockets;
  const Options options;
  const std::chrono::duration<double> interval;
  std::vector<Peer> peers;
  std::atomic<bool> stopping{false}, quiet{false};
  std::mutex sending;
  Clock::time_point terminatedAt;
  std::thread thread;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_MPI_PEERMONITOR_H
