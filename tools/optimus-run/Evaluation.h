//===- Evaluation.h - The mean loss over a file -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_EVALUATION_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_EVALUATION_H

#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/Session.h"

namespace optimus_run {

struct Evaluation {
  double loss = 0; ///< mean cross-entropy in nats
  int64_t tokens = 0;
};

/// Runs a function of the kind eval over all windows of the file. Collective. A
/// failure to read the file is the same in every process, and the session can
/// go on.
optrt::StatusOr<Evaluation> evaluate(optrt::Session &session,
                                     optrt::ControlPlane &control,
                                     const optrt::Dataset &data,
                                     const optrt::Function &function);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_EVALUATION_H
