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
  auto set = [&](std::string_view name, double value) {
    session.setScalar(name, static_cast<float>(value));
  };
  set("lr", lr);
  set("weight_decay", hyperparameters.weightDecay);
  set("clip", hyperparameters.clip);
  set("beta1", hyperparameters.beta1);
  set("beta2", hyperparameters.beta2);
  set("epsilon", hyperparameters.epsilon);
  set("momentum", hyperparameters.momentum);
  set("beta1_power", std::pow(hyperparameters.beta1, step));
  set("beta2_power", std::pow(hyperparameters.beta2, step));
}

} // namespace optimus_run
