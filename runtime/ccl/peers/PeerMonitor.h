//===- PeerMonitor.h - Notices ranks that die or stall ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A side channel of the ranks' own: every process has plain TCP connections to
// few others (overlayPeers) and a thread that says on them, again and again,
// what its rank and those that it has heard of are doing. A closed connection
// is a dead process, silence a stopped one, and what ranks say tells who it is
// that the others wait for. Whoever finds out tells all.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_PEERS_PEERMONITOR_H
#define OPTIMUS_RUNTIME_CCL_PEERS_PEERMONITOR_H

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
    /// Where each rank runs, "process 17 on node4"; or none.
    std::vector<std::string> places;
    /// Called once, on the monitor's thread, in every process; must end the
    /// process. `speaks` in the one that is to print the status.
    std::function<void(const Status &status, bool speaks)> onStall;
  };

  /// Takes the connections to the rank's overlayPeers(), or to all others.
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

  /// Ends all the other processes without a word; from now on nobody here
  /// reports anything.
  void endOthers();

private:
  using Clock = std::chrono::steady_clock;
  enum MessageType : uint32_t { News, Goodbye, Quit, Verdict, Gone };

  struct Rank {
    ActivitySnapshot activity;
    uint64_t version = 0; ///< of what is known of it; 0: nothing
    Clock::time_point lastHeard;
    bool left = false; ///< said good-bye
    bool gone = false; ///< and did not say so
  };

  /// The far end of a connection.
  struct Neighbour {
    int rank;
    Socket socket;
    std::string in;              ///< received and not understood yet
    std::string out;             ///< under `sending`: said and not sent yet
    std::vector<uint64_t> known; ///< what it knows of each rank
  };

  void work();
  void beat();
  void tellNews();
  void tell(Neighbour &to, MessageType type, std::string_view payload);
  void tellAll(MessageType type, std::string_view payload);
  void send(Neighbour &to);
  void partFromAll(std::chrono::milliseconds atMost);
  void receiveFrom(Neighbour &from);
  void understand(Neighbour &from, uint32_t type, std::string_view payload);
  void readNews(Neighbour &from, std::string_view payload);
  void noteGone(int rank);
  bool isNeighbour(int rank) const;
  void judge();
  int chooseSpeaker(int culprit) const;
  void end(int culprit, int speaker, const std::string &message);
  void watchTermination();

  const Options options;
  const std::chrono::duration<double> interval;
  std::vector<Rank> ranks;
  std::vector<Neighbour> neighbours;
  Clock::time_point goneAt; ///< when the last death was heard of
  std::atomic<bool> stopping{false}, quiet{false};
  std::mutex sending;
  Clock::time_point terminatedAt;
  std::thread thread;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_PEERS_PEERMONITOR_H
