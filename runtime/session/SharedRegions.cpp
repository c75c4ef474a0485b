//===- SharedRegions.cpp - Memory that processes share --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedRegions.h"

#include "optimus-support/Hash.h"
#include "optimus-support/InputFile.h"
#include "optimus-support/ResourceLimits.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace optrt {

static constexpr const char *kName = "optimus-shared-";

/// Maps all of a region, or memory for one process; empty where the system does
/// not.
static std::span<std::byte> mapRegion(int handle, std::size_t bytes) {
  const int kind = handle < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, handle, 0);
  if (memory == MAP_FAILED)
    return {};
  // As far as the system has large pages for shared memory.
  madvise(memory, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte *>(memory), bytes};
}

/// Its owner holds it until it ends, however it does.
static flock wholeFile() {
  flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

StatusOr<std::unique_ptr<SharedRegions>>
SharedRegions::create(ControlPlane &control,
                      std::span<const std::size_t> bytes) {
  const int here = control.firstRank() / control.numLocalRanks();
  std::unique_ptr<SharedRegions> shared(new SharedRegions);
  shared->bytes.assign(bytes.begin(), bytes.end());
  shared->regions.resize(bytes.size());
  Region &own = shared->regions[here];

  std::random_device random;
  const std::string number =
      optimus_support::hashToHex(uint64_t(random()) << 32 | random());
  auto make = [&]() -> Status {
    // The system would give it all there is, and end others for the rest.
    const int64_t most = optimus_support::resourceLimits().memoryBytes;
    int error = most > 0 && bytes[here] > std::size_t(most) ? ENOMEM : 0;
    if (error == 0 && bytes.size() > 1) {
      own.handle = memfd_create((kName + number).c_str(), MFD_CLOEXEC);
      error = own.handle < 0
                  ? errno
                  : posix_fallocate(own.handle, 0, off_t(bytes[here]));
    }
    if (error == 0) {
      own.memory = mapRegion(own.handle, bytes[here]);
      error = own.memory.empty() ? errno : 0;
    }
    if (error == 0)
      return okStatus();
    return unavailable(
        concat("cannot make ", bytes[here],
               " bytes of memory: ", strerror(error)));
  };
  OPTRT_RETURN_IF_ERROR(control.agree(make()));
  flock lock = wholeFile();
  const bool isLocked = fcntl(own.handle, F_OFD_SETLK, &lock) == 0;

  const std::string machine = optimus_support::machineIdentity();
  const std::vector<std::string> cards = control.allGather(concat(
      machine, " ", getpid(), " ", isLocked ? own.handle : -1, " ", number));
  std::string reached(cards.size(), '0');
  for (std::size_t process = 0; process != cards.size(); ++process) {
    if (int(process) == here || !cards[process].starts_with(machine + " "))
      continue;
    std::istringstream card(cards[process].substr(machine.size()));
    int pid = 0, handle = -1;
    std::string itsNumber;
    card >> pid >> handle >> itsNumber;
    Region &region = shared->regions[process];
    region = open(pid, handle, itsNumber, bytes[process]);
    if (!region.memory.empty())
      reached[process] = '1';
  }
  shared->whoIsReached = control.allGather(reached);
  for (int process = 0; process != int(cards.size()); ++process)
    if (process != here && !shared->areShared(here, process))
      close(shared->regions[process]);
  return shared;
}

SharedRegions::Region SharedRegions::open(int pid, int handle,
                                          const std::string &number,
                                          std::size_t bytes) {
  Region region;
  const std::string path = concat("/proc/", pid, "/fd/", handle);
  // In another container the same path may be somebody else's.
  std::array<char, 256> name{};
  const ssize_t length = readlink(path.c_str(), name.data(), name.size());
  if (length < 0 ||
      std::string_view(name.data(), std::size_t(length)).find(kName + number) ==
          std::string_view::npos)
    return region;
  region.handle = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (region.handle >= 0)
    region.memory = mapRegion(region.handle, bytes);
  if (region.memory.empty())
    close(region);
  return region;
}

void SharedRegions::close(Region &region) {
  if (!region.memory.empty())
    munmap(region.memory.data(), region.memory.size());
  if (region.handle >= 0)
    ::close(region.handle);
  region = {};
}

SharedRegions::~SharedRegions() {
  for (Region &region : regions)
    close(region);
}

void SharedRegions::populate() {
  for (const Region &region : regions)
    if (!region.memory.empty())
      madvise(region.memory.data(), region.memory.size(), MADV_POPULATE_WRITE);
}

bool SharedRegions::areShared(int one, int other) const {
  return whoIsReached[one][other] == '1' && whoIsReached[other][one] == '1';
}

bool SharedRegions::isAlive(int process) const {
  flock lock = wholeFile();
  return fcntl(regions[process].handle, F_OFD_GETLK, &lock) != 0 ||
         lock.l_type != F_UNLCK;
}

} // namespace optrt
