//===- Devices.cpp - Collectives beside computing on a device ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace optimus_simulation {

void Devices::add(uint32_t number, Picoseconds begin, Task task) {
  tasks[number] = std::move(task);
  coming.emplace(begin, number);
}

void Devices::compute(uint32_t actor, Picoseconds begin, Picoseconds seconds,
                      double beside) {
  add(actor, begin,
      {.left = double(seconds), .beside = beside, .devices = {actor}});
}

static std::vector<uint32_t> listRanks(const std::vector<Arrival> &members) {
  std::vector<uint32_t> ranks;
  for (const Arrival &one : members)
    ranks.push_back(one.rank);
  return ranks;
}

void Devices::move(const Move &move) {
  add(move.meeting | kMeeting, move.begin,
      {.left = double(move.seconds),
       .beside = move.beside,
       .devices = listRanks(move.members)});
}

void Devices::moveOnLinks(const Move &move, double bytesPerSecond) {
  add(move.meeting | kMeeting, move.begin,
      {.beside = move.beside,
       .isOnLinks = true,
       .rate = bytesPerSecond,
       .devices = listRanks(move.members)});
}

void Devices::endOnLinks(uint32_t meeting, Picoseconds time) {
  const uint32_t number = meeting | kMeeting;
  now = std::max(now, time);
  // One of no length may end before it has begun here.
  std::erase_if(coming, [&](const auto &one) { return one.second == number; });
  remove(number);
}

Picoseconds Devices::getNext() {
  Picoseconds next = std::numeric_limits<Picoseconds>::max();
  if (!coming.empty())
    next = coming.begin()->first;
  if (!ends.empty())
    next = std::min(next, ends.begin()->first);
  return std::max(next, now);
}

void Devices::refresh(uint32_t number) {
  Task &task = tasks.at(number);
  const bool isMeeting = number & kMeeting;
  const bool isSlow = std::ranges::any_of(task.devices, [&](uint32_t place) {
    const Device &device = devices[place];
    return isMeeting ? device.computing > 0 : !device.meetings.empty();
  });
  if (task.isOnLinks) {
    if (isSlow != task.isSlow)
      links->limit(now, number & ~kMeeting,
                   isSlow ? task.rate / task.beside
                          : std::numeric_limits<double>::infinity());
    task.isSlow = isSlow;
    return;
  }
  const bool isNew = !ends.contains({task.end, number});
  if (isSlow == task.isSlow && !isNew)
    return;
  if (!isNew)
    task.left -= double(now - task.since) / (task.isSlow ? task.beside : 1);
  ends.erase({task.end, number});
  task.left = std::max(0.0, task.left);
  task.since = now;
  task.isSlow = isSlow;
  const double all = task.left * (isSlow ? task.beside : 1);
  task.end = now + Picoseconds(std::ceil(std::min(all, double(kMostTime))));
  ends.emplace(task.end, number);
}

void Devices::refreshBeside(const std::vector<uint32_t> &places) {
  std::set<uint32_t> numbers;
  for (uint32_t place : places) {
    if (devices[place].computing > 0)
      numbers.insert(place);
    numbers.insert(devices[place].meetings.begin(),
                   devices[place].meetings.end());
  }
  for (uint32_t number : numbers)
    refresh(number);
}

void Devices::begin(uint32_t number) {
  underWay.insert(number);
  const std::vector<uint32_t> &places = tasks.at(number).devices;
  for (uint32_t place : places)
    if (number & kMeeting)
      devices[place].meetings.insert(number);
    else
      ++devices[place].computing;
  refreshBeside(places);
}

void Devices::remove(uint32_t number) {
  const auto found = tasks.find(number);
  if (found == tasks.end())
    return;
  ends.erase({found->second.end, number});
  const std::vector<uint32_t> places = std::move(found->second.devices);
  tasks.erase(found);
  if (underWay.erase(number) == 0)
    return;
  for (uint32_t place : places)
    if (number & kMeeting)
      devices[place].meetings.erase(number);
    else
      --devices[place].computing;
  refreshBeside(places);
}

std::vector<Contention::End> Devices::advance() {
  now = getNext();
  while (!coming.empty() && coming.begin()->first <= now) {
    const uint32_t number = coming.begin()->second;
    coming.erase(coming.begin());
    begin(number);
  }
  std::vector<End> ended;
  while (!ends.empty() && ends.begin()->first <= now) {
    const uint32_t number = ends.begin()->second;
    ended.push_back({number & ~kMeeting, (number & kMeeting) != 0});
    remove(number);
  }
  return ended;
}

} // namespace optimus_simulation
