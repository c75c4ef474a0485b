//===- Rendezvous.h - How processes find each other -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rank 0 listens where everybody knows; each other rank says who it is and
// brings a card, and when all are there, each gets the cards of all. Then these
// connections are closed. Whoever is no rank of the job is sent away, and what
// is wrong with the job is said once, by rank 0.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_TCP_RENDEZVOUS_H
#define OPTIMUS_RUNTIME_CCL_TCP_RENDEZVOUS_H

#include "optimus-runtime/World.h"

#include <istream>
#include <string>
#include <vector>

namespace optrt {

/// What a process brings to the others.
struct Card {
  std::string place;   ///< "process 17 on node4"
  std::string host;    ///< equal for processes of one host
  std::string address; ///< of its PeerListener

  std::string toText() const;
  /// Takes the next one from a text.
  static Card read(std::istream &lines);
};

/// The cards of all ranks, in order.
///
/// Errors: InvalidArgument where processes do not fit together, and
/// Unavailable where some do not come in time; each names the ranks.
/// `isSaidElsewhere` becomes true where rank 0 has the same failure.
StatusOr<std::vector<Card>> meet(const TcpJob &job, const Card &own,
                                 bool &isSaidElsewhere);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_TCP_RENDEZVOUS_H
