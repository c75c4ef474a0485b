//===- Hyperparameters.cpp - The scalars of a step ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Hyperparameters.h"

#include <cmath>

using namespace optrt;

namespace optimus_run {

void setScalars(Session &session, const Hyperparameters &hyperparameters,
                int64_t step, double lr) {
  auto set = [&](Scalar scalar, double value) {
    session.setScalar(scalar, static_cast<float>(value));
  };
  set(Scalar::Lr, lr);
  set(Scalar::WeightDecay, hyperparameters.weightDecay);
  set(Scalar::Clip, hyperparameters.clip);
  set(Scalar::Beta1, hyperparameters.beta1);
  set(Scalar::Beta2, hyperparameters.beta2);
  set(Scalar::Epsilon, hyperparameters.epsilon);
  set(Scalar::Momentum, hyperparameters.momentum);
  set(Scalar::Beta1Power, std::pow(hyperparameters.beta1, step));
  set(Scalar::Beta2Power, std::pow(hyperparameters.beta2, step));
}

} // namespace optimus_run
