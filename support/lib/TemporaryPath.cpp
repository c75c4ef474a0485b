//===- TemporaryPath.cpp - What must not outlive the process --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/TemporaryPath.h"

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>
#include <unistd.h>

using namespace optimus_support;

namespace {

// A handler may run at any time, so it reads nothing that allocates or locks.
struct Slot {
  enum State { Free, Filling, Armed };
  std::atomic<int> state{Free};
  char path[PATH_MAX];
};
std::array<Slot, 32> slots;

int takeSlot(const std::string &path) {
  // A longer name cannot be opened, so nothing of it needs removing.
  if (path.size() >= PATH_MAX)
    return -1;
  for (size_t i = 0; i != slots.size(); ++i) {
    int expected = Slot::Free;
    if (!slots[i].state.compare_exchange_strong(expected, Slot::Filling))
      continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    slots[i].state = Slot::Armed;
    return static_cast<int>(i);
  }
  return -1;
}

constexpr int kSignals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                            SIGUSR2, SIGALRM, SIGXCPU, SIGPIPE, SIGABRT,
                            SIGBUS,  SIGFPE,  SIGILL,  SIGSEGV, SIGSYS};
struct sigaction before[std::size(kSignals)];

void removeAndPassOn(int signal) {
  int error = errno;
  removeTemporaries();
  for (size_t i = 0; i != std::size(kSignals); ++i)
    if (kSignals[i] == signal)
      sigaction(signal, &before[i], nullptr);
  errno = error;
  // Delivered when this handler returns. A fault would recur by itself, but
  // may also have been sent by kill.
  raise(signal);
}

} // namespace

void optimus_support::removeTemporaries() {
  // Files before the folders that they lie in.
  for (auto remove : {unlink, rmdir})
    for (const Slot &slot : slots)
      if (slot.state == Slot::Armed)
        remove(slot.path);
}

TemporaryPath::TemporaryPath(std::string path)
    : name(std::move(path)), slot(takeSlot(name)) {}

TemporaryPath::~TemporaryPath() {
  if (name.empty())
    return;
  if (unlink(name.c_str()) != 0)
    rmdir(name.c_str());
  release();
}

void TemporaryPath::release() {
  if (slot >= 0)
    slots[slot].state = Slot::Free;
  slot = -1;
  name.clear();
}

void optimus_support::removeTemporariesOnSignals() {
  struct sigaction action {};
  action.sa_handler = removeAndPassOn;
  // Where there is such a stack, an overflow of the usual one ends well too.
  action.sa_flags = SA_ONSTACK;
  for (size_t i = 0; i != std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN)
      sigaction(kSignals[i], &action, nullptr);
  }
}

std::string optimus_support::hiddenSibling(const std::string &path,
                                           const std::string &kind) {
  // File systems have names of at most 255 bytes; a kind takes up to 50.
  constexpr size_t kMost = 190;
  size_t slash = path.rfind('/');
  size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(0, begin) + "." + path.substr(begin, kMost) + ".optimus-" +
         kind;
}
