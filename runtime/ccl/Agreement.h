//===- Agreement.h - Whether members run the same collective ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_AGREEMENT_H
#define OPTIMUS_RUNTIME_CCL_AGREEMENT_H

#include "optimus-runtime/Collectives.h"

namespace optrt {

/// What a rank started.
struct StartedCollective {
  int rank = 0;
  CommandId id;
  optrt_collective_desc desc{};
};

/// Internal, naming both commands, unless they are the same collective or the
/// two ends of a message of one size; strides are a rank's own business.
Status checkAgreement(const ControlPlane &control, const StartedCollective &own,
                      const StartedCollective &other);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_AGREEMENT_H
