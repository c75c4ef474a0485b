//===- Turns.cpp - Ranks that take turns on cores ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Turns.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace optimus_simulation {

static constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();
/// Of Linux for threads without precedence, on few cores.
static constexpr Picoseconds kSlice = 3'000'000'000;

Turns::Turns(size_t numMachines, int64_t coresPerMachine)
    : machines(numMachines) {
  for (Machine &machine : machines)
    machine.cores.resize(size_t(coresPerMachine), Core{.actor = kNobody});
}

void Turns::run(Core &core, const Job &job) {
  if (core.actor != job.actor)
    core.turn = now;
  core.actor = job.actor;
  core.isBusy = true;
  core.job = job;
  core.since = now;
}

void Turns::compute(uint32_t actor, uint32_t number, Picoseconds begin,
                    Picoseconds seconds) {
  Machine &machine = machines[number];
  const Job job{actor, actor, /*isPart=*/false, seconds};
  if (begin > now) {
    coming.emplace(begin, std::pair(number, job));
    return;
  }
  for (Core &core : machine.cores)
    if (!core.isBusy && core.actor == actor)
      return run(core, job);
  machine.queue.push_back(job);
}

void Turns::move(uint32_t number, uint32_t actor, Picoseconds begin,
                 Picoseconds seconds, const std::vector<Share> &shares) {
  Meeting &meeting = meetings[number];
  meeting = {.parts = 0, .end = begin + seconds};
  for (const Share &share : shares)
    for (uint32_t worker = 0; worker != share.workers; ++worker) {
      ++meeting.parts;
      machines[share.machine].queue.push_front(
          {number, actor, /*isPart=*/true, share.processors / share.workers});
    }
  if (meeting.parts == 0) {
    timers.emplace(meeting.end, number);
    meetings.erase(number);
  }
}

void Turns::dispatch() {
  for (Machine &machine : machines)
    for (Core &core : machine.cores) {
      if (core.isBusy)
        continue;
      if (machine.queue.empty()) {
        core.actor = kNobody;
        continue;
      }
      const Job job = machine.queue.front();
      machine.queue.pop_front();
      run(core, job);
    }
}

bool Turns::isIdle() const {
  return timers.empty() && coming.empty() &&
         std::ranges::all_of(machines, [](const auto &one) {
           return one.queue.empty() &&
                  std::ranges::none_of(one.cores, &Core::isBusy);
         });
}

Picoseconds Turns::getNext() {
  dispatch();
  Picoseconds next = timers.empty() ? std::numeric_limits<Picoseconds>::max()
                                    : timers.begin()->first;
  if (!coming.empty())
    next = std::min(next, coming.begin()->first);
  for (const Machine &machine : machines)
    for (const Core &core : machine.cores) {
      if (!core.isBusy)
        continue;
      next = std::min(next, core.since + core.job.left);
      if (!machine.queue.empty())
        next = std::min(next, core.turn + kSlice);
    }
  return std::max(next, now);
}

void Turns::stop(Machine &machine, Core &core) {
  machine.busy += now - core.since;
  core.isBusy = false;
  core.job.left -= now - core.since;
}

void Turns::endPart(const Job &job) {
  const auto found = meetings.find(job.number);
  if (--found->second.parts != 0)
    return;
  if (found->second.end > now)
    timers.emplace(found->second.end, job.number);
  else
    ended.push_back(job.number);
  meetings.erase(found);
}

std::vector<uint32_t> Turns::advance() {
  now = getNext();
  ended.clear();
  for (Machine &machine : machines)
    for (Core &core : machine.cores) {
      if (!core.isBusy)
        continue;
      const bool isDone = core.since + core.job.left <= now;
      if (!isDone && (machine.queue.empty() || core.turn + kSlice > now))
        continue;
      stop(machine, core);
      if (!isDone) {
        machine.queue.push_back(core.job);
        core.actor = kNobody;
      } else if (core.job.isPart) {
        endPart(core.job);
      } else {
        ended.push_back(core.job.number);
      }
    }
  for (; !timers.empty() && timers.begin()->first <= now;
       timers.erase(timers.begin()))
    ended.push_back(timers.begin()->second);
  for (; !coming.empty() && coming.begin()->first <= now;
       coming.erase(coming.begin())) {
    const auto &[number, job] = coming.begin()->second;
    machines[number].queue.push_back(job);
  }
  return std::exchange(ended, {});
}

} // namespace optimus_simulation
