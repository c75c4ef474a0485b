//===- Hyperparameters.h - Those of AdamW -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_HYPERPARAMETERS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_HYPERPARAMETERS_H

#include "optimus-runtime/Session.h"

#include <cstdint>

namespace optimus_run {

struct Hyperparameters {
  double weightDecay = 0.1;
  double clip = 1.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.9; ///< SGD's

  /// Sets the scalars of step `step` (from 1) and all steps.
  void apply(optrt::Session &session, int64_t step, double lr) const;
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_HYPERPARAMETERS_H
