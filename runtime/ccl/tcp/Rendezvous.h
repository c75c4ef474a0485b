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

#include "Greeting.h"
#include "optimus-runtime/World.h"

#include <vector>

namespace optrt {

/// The cards of all ranks, in order.
///
/// Errors: InvalidArgument where processes do not fit together, and
/// Unavailable where some do not come in time or have another secret; each
/// names the ranks.
/// `isSaidElsewhere` becomes true where rank 0 has the same failure.
StatusOr<std::vector<Card>> meet(const TcpJob &job, const JobKey &key,
                                 const Card &own, bool &isSaidElsewhere);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_TCP_RENDEZVOUS_H
