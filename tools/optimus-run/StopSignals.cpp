//===- StopSignals.cpp - Ending a run early but cleanly -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StopSignals.h"

namespace optimus_run {
namespace {

volatile std::sig_atomic_t received = 0;

void note(int signal) { received = signal; }

} // namespace

StopSignals::StopSignals() {
  received = 0;
  struct sigaction action {};
  action.sa_handler = note;
  // Reset: the second one kills. Restart: nobody's write is cut short.
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  for (std::size_t i = 0; i != kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    // What started us may have told us to ignore it, as nohup and & do.
    if (before[i].sa_handler != SIG_IGN)
      sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i != kSignals.size(); ++i)
    sigaction(kSignals[i], &before[i], nullptr);
}

int StopSignals::agreed(optrt::World &world) const {
  int own = received;
  if (world.numLocalRanks() == world.size())
    return own;
  // The others may get it a step later, and must not wait for us then.
  for (const std::string &text : world.allGather(std::to_string(own)))
    if (int signal = std::stoi(text))
      return signal;
  return 0;
}

const char *signalName(int signal) {
  return signal == SIGINT ? "SIGINT" : "SIGTERM";
}

} // namespace optimus_run
