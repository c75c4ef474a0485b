//===- TcpEngine.cpp - Moves what is in flight over TCP -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TcpEngine.h"

#include "TcpControl.h"
#include "base/Thread.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace optrt {

Status TcpEngine::start() {
  if (thread.joinable())
    return okStatus();
  wakes = Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakes.isOpen())
    return unavailable(
        concat("cannot make an eventfd: ", std::strerror(errno)));
  OPTRT_ASSIGN_OR_RETURN(
      thread,
      startThread("the thread that moves data over TCP", [this] { work(); }));
  return okStatus();
}

TcpEngine::~TcpEngine() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard guard(mutex);
    stopping = true;
  }
  wake();
  thread.join();
}

void TcpEngine::wake() {
  uint64_t one = 1;
  // Full means that it wakes anyway.
  [[maybe_unused]] ssize_t written = write(wakes.get(), &one, sizeof(one));
}

void TcpEngine::look(std::vector<std::unique_ptr<TcpGroup>> newGroups) {
  {
    std::lock_guard guard(mutex);
    std::swap(groups, newGroups);
  }
  // The thread may still sleep on the former ones' connections.
  wake();
}

bool TcpGroup::isUnderWay(std::size_t place) const {
  return std::all_of(queue.begin(), queue.begin() + place,
                     [&](const TcpOperation *before) {
                       return queue[place]->sharesNoConnectionWith(*before);
                     });
}

short TcpGroup::eventsOf(int member) const {
  int events = 0;
  for (std::size_t i = 0; i != queue.size(); ++i) {
    if (i != 0 && !isUnderWay(i))
      continue;
    events |= (queue[i]->sendsTo(member) ? POLLOUT : 0) |
              (queue[i]->receivesFrom(member) ? POLLIN : 0);
  }
  return static_cast<short>(events);
}

bool TcpEngine::advance(TcpGroup &group) {
  bool changed = false;
  for (std::size_t i = 0; i != group.queue.size() && group.failure.ok();) {
    if (!group.isUnderWay(i)) {
      ++i;
      continue;
    }
    group.failure = group.queue[i]->advance();
    const bool isDone = group.failure.ok() && group.queue[i]->isDone();
    changed |= isDone || !group.failure.ok();
    // Those that waited for it come after it.
    if (isDone)
      group.queue.erase(group.queue.begin() + i);
    else
      ++i;
  }
  return changed;
}

void TcpEngine::add(TcpGroup &group, TcpOperation &operation) {
  {
    std::lock_guard guard(mutex);
    group.queue.push_back(&operation);
    advance(group);
    if (group.queue.empty())
      return;
  }
  wake();
}

Status TcpEngine::waitFor(TcpGroup &group, const TcpOperation &operation) {
  std::unique_lock guard(mutex);
  changed.wait(guard, [&] {
    return operation.isDone() || !group.failure.ok() || aborted;
  });
  if (operation.isDone())
    return okStatus();
  if (aborted)
    return unavailable("left a collective because another rank failed");
  Status failure = group.failure;
  guard.unlock();
  // Whoever watches the ranks knows better who died.
  if (failure.code() == StatusCode::Unavailable)
    std::this_thread::sleep_for(std::chrono::duration<double>(kLostSeconds));
  return failure;
}

void TcpEngine::abort() {
  {
    std::lock_guard guard(mutex);
    aborted = true;
  }
  changed.notify_all();
}

void TcpEngine::work() {
  while (true) {
    std::vector<pollfd> watched{{wakes.get(), POLLIN, 0}};
    {
      std::lock_guard guard(mutex);
      if (stopping)
        return;
      bool hasChanged = false;
      for (std::unique_ptr<TcpGroup> &group : groups) {
        hasChanged |= advance(*group);
        if (group->queue.empty() || !group->failure.ok())
          continue;
        for (int i = 0; i != group->members.size(); ++i)
          if (short events = group->eventsOf(i))
            watched.push_back({group->members.sockets[i].get(), events, 0});
      }
      if (hasChanged)
        changed.notify_all();
    }
    poll(watched.data(), watched.size(), -1);
    uint64_t count;
    if (watched[0].revents) [[maybe_unused]]
      ssize_t got = read(wakes.get(), &count, sizeof(count));
  }
}

} // namespace optrt
