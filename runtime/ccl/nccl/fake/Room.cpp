//===- Room.cpp - Room for kernels of a fake NCCL -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Room.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace optrt::nccl::fake {
namespace {

/// $OPTIMUS_FAKE_NCCL_ROOM: how many kernels a GPU has room for. Without it,
/// for all, and their order is not kept.
const char *givenRoom() { return std::getenv("OPTIMUS_FAKE_NCCL_ROOM"); }

bool keepsOrder() {
  const char *text = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return text && std::strcmp(text, "0") != 0;
}

std::map<int, int> numTaken; ///< of each GPU, in its turns

/// What was put on a GPU last, by the capture if any.
struct Last {
  std::weak_ptr<const void> capture;
  std::weak_ptr<uint64_t> begun;
};
std::mutex mutex; ///< of these
std::map<std::pair<int, const void *>, Last> lasts;

} // namespace

Place::Place(int gpu, cuda::Stream stream) : gpu(gpu) {
  const std::shared_ptr<const void> capture = optimus_fake_gpu_capture(stream);
  std::lock_guard lock(mutex);
  Last &last = lasts[{gpu, capture.get()}];
  // A capture that has ended may have left its address to another one.
  if (!capture || last.capture.lock() == capture)
    before = last.begun;
  last = {capture, begun};
}

bool Place::isFree() const {
  const char *room = givenRoom();
  if (!room)
    return true;
  auto found = numTaken.find(gpu);
  if (found != numTaken.end() && found->second >= std::atoi(room))
    return false;
  const Begun previous = keepsOrder() ? before.lock() : nullptr;
  return !previous || *previous > *begun;
}

void Place::take() {
  ++*begun;
  isTaken = true;
  ++numTaken[gpu];
}

void Place::leave() {
  if (std::exchange(isTaken, false))
    --numTaken[gpu];
}

} // namespace optrt::nccl::fake
