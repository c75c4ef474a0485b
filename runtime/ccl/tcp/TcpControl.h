//===- TcpControl.h - The control plane over TCP ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_TCP_TCPCONTROL_H
#define OPTIMUS_RUNTIME_CCL_TCP_TCPCONTROL_H

#include "../peers/PeerSockets.h"
#include "optimus-runtime/World.h"

#include <memory>

namespace optrt {

/// Processes that know each other's addresses. Each has connections to few
/// others (overlayPeers), twice: to agree, which takes log2(size) rounds, and
/// to watch the living. Floats for the root go straight to it, over a
/// connection that is made when a rank first sends some.
///
/// Errors: as createTcpWorld().
StatusOr<std::unique_ptr<ControlPlane>>
createTcpControl(TcpJob job, const PeerTerms &terms, bool &isSaidElsewhere);

/// How long a rank that has lost the connection to another waits before it says
/// so: whoever watches the ranks knows who died, and ends the job first.
inline constexpr double kLostSeconds = 5;

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_TCP_TCPCONTROL_H
