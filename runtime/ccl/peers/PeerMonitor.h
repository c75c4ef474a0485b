//===- PeerMonitor.h - Notices ranks that die or stall ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A side channel of the ranks' own: every process has plain TCP connections to
// few others (overlayPeers) and a thread that reports on them, again and again,
// the activity of its rank and of the ranks it has heard of. A closed
// connection is a dead process, silence a stopped one, and the reports show the
// rank all others wait for. Whoever finds out tells all, and all end together.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_PEERS_PEERMONITOR_H
#define OPTIMUS_RUNTIME_CCL_PEERS_PEERMONITOR_H

#include "../Stall.h"
#include "HeldTermination.h"
#include "PeerSockets.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
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
    /// As in WatchOptions; on the monitor's thread.
    std::function<void(const Status &status, bool speaks)> onStall;
    /// How the process ends, once all are ready to.
    std::function<void(int exitCode)> endProcess = std::_Exit;
  };

  /// Takes the connections to the rank's overlayPeers(), or to all others.
  PeerMonitor(PeerSockets sockets, Options options);
  /// Starts watching. Unavailable when the system gives no thread.
  Status start();
  /// Says good-bye, so that the others do not take the end for a death.
  ~PeerMonitor();
  PeerMonitor(const PeerMonitor &) = delete;
  PeerMonitor &operator=(const PeerMonitor &) = delete;

  /// Ends all processes with this code and without a word. Returns where that
  /// takes too long.
  void endAll(int exitCode);

private:
  using Clock = std::chrono::steady_clock;
  enum MessageType : uint32_t { News, Goodbye, Verdict, Gone, Ready };

  struct Rank {
    ActivitySnapshot activity;
    uint64_t version = 0; ///< of what is known of it; 0: nothing
    Clock::time_point lastHeard;
    bool left = false; ///< said good-bye
    bool gone = false; ///< and did not say so
    bool ready = false; ///< to end
  };

  /// Of the job.
  struct End {
    int culprit = -1, speaker = -1, exitCode = 1;
    std::string message;
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
  void partFromAll();
  void receiveFrom(Neighbour &from);
  void understand(Neighbour &from, uint32_t type, std::string_view payload);
  void readNews(Neighbour &from, std::string_view payload);
  void noteGone(int rank);
  bool isNeighbour(int rank) const;
  double silenceOf(int rank) const;
  double waitOf(int rank) const;
  bool isSilent(int rank) const;
  void judge();
  int chooseSpeaker(int culprit) const;
  bool announceEnd(const End &verdict);
  void end(const End &verdict);
  void getReady(int exitCode);
  bool mayEnd();

  const Options options;
  const std::chrono::duration<double> interval;
  std::vector<Rank> ranks;
  std::vector<Neighbour> neighbours;
  Clock::time_point goneAt; ///< when the last death was heard of
  std::atomic<bool> stopping{false}, ending{false};
  std::atomic<int> ownExitCode{-1}; ///< once this process is ready to end
  Clock::time_point latestEnd;
  HeldTermination termination;
  std::mutex sending;
  std::thread thread;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_PEERS_PEERMONITOR_H
