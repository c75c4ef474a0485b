//===- Hyperparameters.cpp - Those of the optimizers -------------------------------===//
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

void Hyperparameters::apply(Session &session, int64_t step, double lr) const {
  auto set = [&](Scalar scalar, double value) {
    session.setScalar(scalar, static_cast<float>(value));
  };
  set(Scalar::Lr, lr);
  set(Scalar::WeightDecay, weightDecay);
  set(Scalar::Clip, clip);
  set(Scalar::Beta1, beta1);
  set(Scalar::Beta2, beta2);
  set(Scalar::Epsilon, epsilon);
  set(Scalar::Momentum, momentum);
  set(Scalar::Beta1Power, std::pow(beta1, step));
  set(Scalar::Beta2Power, std::pow(beta2, step));
}

} // namespace optimus_run
