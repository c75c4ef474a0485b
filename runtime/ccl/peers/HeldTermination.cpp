//===- HeldTermination.cpp - SIGTERM while ranks are watched --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HeldTermination.h"

#include <csignal>
#include <unistd.h>

namespace optrt {
namespace {

constexpr std::chrono::milliseconds kGrace(500);

volatile std::sig_atomic_t isNoted = 0, exitCodeOfEnd = 0;
void noteTermination(int) { isNoted = 1; }
void endAtTermination(int) { _exit(exitCodeOfEnd); }
/// What the signal did before.
struct sigaction terminationBefore;

bool isHeld(const struct sigaction &action) {
  return action.sa_handler == noteTermination ||
         action.sa_handler == endAtTermination;
}

/// Returns what the signal did; nothing changes where it was ignored.
struct sigaction setHandler(void (*handler)(int)) {
  struct sigaction now {};
  struct sigaction action {};
  action.sa_handler = handler;
  // Nobody's write is cut short.
  action.sa_flags = SA_RESTART;
  if (sigaction(SIGTERM, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
    sigaction(SIGTERM, &action, nullptr);
  return now;
}

} // namespace

void HeldTermination::hold() {
  if (struct sigaction former = setHandler(noteTermination); !isHeld(former))
    terminationBefore = former;
}

HeldTermination::~HeldTermination() {
  struct sigaction now {};
  if (sigaction(SIGTERM, nullptr, &now) == 0 && isHeld(now))
    sigaction(SIGTERM, &terminationBefore, nullptr);
}

void HeldTermination::letPass() {
  if (!isNoted)
    return;
  const auto now = std::chrono::steady_clock::now();
  if (noticedAt == decltype(noticedAt)())
    noticedAt = now;
  if (now - noticedAt < kGrace)
    return;
  sigaction(SIGTERM, &terminationBefore, nullptr);
  kill(getpid(), SIGTERM);
}

void HeldTermination::endWith(int exitCode) {
  exitCodeOfEnd = exitCode;
  setHandler(endAtTermination);
}

} // namespace optrt
