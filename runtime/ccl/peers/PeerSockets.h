//===- PeerSockets.h - Connections to other processes -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_PEERS_PEERSOCKETS_H
#define OPTIMUS_RUNTIME_CCL_PEERS_PEERSOCKETS_H

#include "JobKey.h"
#include "Socket.h"
#include "optimus-runtime/ControlPlane.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace optrt {

/// Indexed by rank; closed for this process's own and those of ranks that it
/// has no connection to.
using PeerSockets = std::vector<Socket>;

/// The ranks 1, 2, 4, ... before and after a rank, in a ring, in order: at most
/// 2 log2(size). News sent to all of them, and handed on by them, reaches
/// everybody in at most log2(size) steps, and few dead or stopped ranks keep
/// nobody from the others.
std::vector<int> overlayPeers(int rank, int size);

/// On what terms a process listens for its peers; alike in all of them, but for
/// the address.
struct PeerTerms {
  JobKey key;
  /// An IPv4 address of this host, or empty for all of them.
  std::string bind;
};

/// Terms for processes that have nothing but the control plane: a key of what
/// each draws, and only the loopback device where no other is needed.
/// Collective.
PeerTerms makePeerTerms(ControlPlane &control);

/// A TCP socket that waits for other processes, and how they reach it.
class PeerListener {
public:
  static StatusOr<PeerListener> open(const PeerTerms &terms);

  /// What the other processes must know: a line.
  std::string address() const;

  /// Connects this rank to all `peers`, given everybody's address() in rank
  /// order. All do so at the same time; a peer of this rank has it as a peer.
  ///
  /// Errors: Unavailable when one cannot be reached.
  StatusOr<PeerSockets> connect(int rank, const std::vector<int> &peers,
                                const std::vector<std::string> &addresses);

  /// Which connection of a rank to a listener: each is made once.
  enum class Line : char { ToPeer = 'p', Straight = 's' };

  /// Connects to whoever listens at another's address(); says who it is, by a
  /// hash of the listener's number. Closed where nobody answers.
  static Socket reach(const JobKey &key, int rank, Line line,
                      const std::string &address);

  /// Waits for the next peer at this listener; returns its rank and connection.
  /// A closed one after the deadline. Strangers are sent away, and so is
  /// whoever repeats what a peer has said.
  std::pair<int, Socket> acceptPeer(int size, Deadline deadline);

private:
  explicit PeerListener(const PeerTerms &terms)
      : terms(terms), number(randomDigits()) {}

  PeerTerms terms;
  Socket socket;
  std::string number;         ///< what peers sign
  std::set<std::string> said; ///< by those who were accepted
};

/// Connects this process, of one rank, to that rank's overlayPeers().
/// Collective.
///
/// Errors: Unavailable, of this process alone when a peer cannot be reached.
StatusOr<PeerSockets> connectOverlay(ControlPlane &control,
                                     const PeerTerms &terms);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_PEERS_PEERSOCKETS_H
