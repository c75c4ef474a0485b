//===- StepScalars.cpp - What a step of training is given -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepScalars.h"

#include <cmath>

namespace optrt {

std::vector<std::string> findUnread(const std::set<std::string> &given,
                                    const Manifest &manifest) {
  // The others are the runtime's, as the steps.
  constexpr const char *kScalars[] = {
      "lr", "weight_decay", "clip", "beta1", "beta2", "epsilon", "momentum"};
  std::vector<std::string> unread;
  for (const char *name : kScalars)
    if (given.count(name) && !manifest.findBuffer(name))
      unread.push_back(name);
  return unread;
}

std::string sequenceFor(int64_t microbatches) {
  return microbatches > 1 ? "train_microbatches" : "train";
}

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

} // namespace optrt
