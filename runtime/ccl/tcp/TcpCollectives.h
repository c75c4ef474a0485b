//===- TcpCollectives.h - Collectives over TCP ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_TCP_TCPCOLLECTIVES_H
#define OPTIMUS_RUNTIME_CCL_TCP_TCPCOLLECTIVES_H

#include "../peers/PeerSockets.h"
#include "optimus-runtime/Collectives.h"

#include <memory>

namespace optrt {

/// Among processes, with any control plane. The members of a group have a
/// connection each to each other; a thread of the process moves what is in
/// flight, whether its rank waits or computes.
std::unique_ptr<Collectives> createTcpCollectives(const PeerTerms &terms);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_TCP_TCPCOLLECTIVES_H
