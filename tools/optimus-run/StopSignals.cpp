//===- StopSignals.cpp - Ending a run early but cleanly -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StopSignals.h"

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string_view>

using namespace optrt;

namespace optimus_run {
namespace {

// A scheduler sends SIGUSR1 or SIGTERM some time before it kills, a terminal
// that is closed SIGHUP, the kernel SIGXCPU when a limit on time is near.
constexpr int kSignals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                            SIGUSR1, SIGUSR2, SIGXCPU};
constexpr std::size_t kNumSignals = std::size(kSignals);
constexpr int64_t kTogetherNanoseconds = 200'000'000;

struct sigaction before[kNumSignals];
std::atomic<int> received{0};
/// When each came first; 0: not yet.
std::atomic<int64_t> firstTimes[kNumSignals];
static_assert(std::atomic<int64_t>::is_always_lock_free,
              "a handler may not wait");

void note(int signal) {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  int64_t now = time.tv_sec * int64_t(1'000'000'000) + time.tv_nsec;
  for (std::size_t i = 0; i != kNumSignals; ++i) {
    if (kSignals[i] != signal)
      continue;
    int64_t first = 0;
    if (firstTimes[i].compare_exchange_strong(first, now)) {
      int none = 0;
      received.compare_exchange_strong(none, signal);
      return;
    }
    // The kernel repeats this one every second, and kills at the hard limit.
    if (now - first < kTogetherNanoseconds || signal == SIGXCPU)
      return;
    sigaction(signal, &before[i], nullptr);
    // Delivered when this handler returns.
    raise(signal);
  }
}

} // namespace

StopSignals::StopSignals() {
  received = 0;
  struct sigaction action {};
  action.sa_handler = note;
  // Nobody's write is cut short.
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i != kNumSignals; ++i) {
    firstTimes[i] = 0;
    sigaction(kSignals[i], nullptr, &before[i]);
    // What started us may have told us to ignore it, as nohup and & do.
    if (before[i].sa_handler != SIG_IGN)
      sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i != kNumSignals; ++i)
    sigaction(kSignals[i], &before[i], nullptr);
}

Interruption StopSignals::agreed(ControlPlane &control, const Status &own,
                                 const std::string &note) {
  Interruption mine{received, own, {note}};
  if (control.numLocalRanks() == control.size())
    return mine;
  // The others may get it a step later, and must not wait for us then.
  Interruption all;
  for (const std::string &text : control.allGather(
           concat(mine.signal, ' ', note, ' ', ControlPlane::encode(own)))) {
    int signal = 0;
    const std::string_view view = text;
    std::from_chars(text.data(), text.data() + text.size(), signal);
    const std::size_t first = view.find(' '),
                      second = view.find(' ', first + 1);
    all.notes.emplace_back(view.substr(first + 1, second - first - 1));
    Status failure = ControlPlane::decode(view.substr(second + 1));
    if (!all.signal)
      all.signal = signal;
    if (all.failure.ok())
      all.failure = failure;
  }
  return all;
}

std::string signalName(int signal) {
  const char *name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : concat("signal ", signal);
}

} // namespace optimus_run
