//===- Paging.cpp - A processor's memory in files -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Paging.h"

#include <algorithm>
#include <cstring>
#include <iterator>

using namespace optrt;

/// Of copies in and out, so that neither direction holds up the other.
static constexpr const char *kCopyQueues[] = {"copies", "copies2"};

StatusOr<char *> Paging::allocate(int64_t bytes, const char *purpose,
                                  const std::string &folder) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<ScratchFile> file,
                         ScratchFile::create(folder, bytes, purpose));
  while (queues.size() != std::size(kCopyQueues)) {
    const char *name = kCopyQueues[queues.size()];
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<CopyQueue> tasks,
                           CopyQueue::start(name));
    queues.push_back({name, std::move(tasks)});
  }
  char *start = file->start();
  files[start] = std::move(file);
  return start;
}

bool Paging::release(void *start) {
  (void)synchronize();
  return files.erase(static_cast<const char *>(start)) > 0;
}

ScratchFile *Paging::find(const void *address) const {
  // Keys descend: the first that is not above.
  auto found = files.lower_bound(static_cast<const char *>(address));
  return found != files.end() && found->second->contains(address)
             ? found->second.get()
             : nullptr;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

Queue Paging::queue(std::string_view name) {
  for (uint32_t i = 0; i != queues.size(); ++i)
    if (queues[i].name == name)
      return {i + 1};
  return kCompute;
}

// An event is the number of its queue, and how many of its tasks are done then.
static constexpr uint64_t kQueues = 16;

Event Paging::record(Queue queue) {
  // What computes is done when its call returns.
  if (queue.number == kCompute.number)
    return {};
  return {queues[queue.number - 1].tasks->last() * kQueues + queue.number};
}

Status Paging::await(Queue queue, Event event) {
  const uint64_t number = event.number % kQueues;
  if (number == kCompute.number || number == queue.number)
    return okStatus();
  CopyQueue *earlier = queues[number - 1].tasks.get();
  const uint64_t count = event.number / kQueues;
  if (queue.number == kCompute.number)
    return wait([&] { return earlier->await(count); });
  put(queue, [earlier, count] { return earlier->await(count); });
  return okStatus();
}

Status Paging::synchronize() {
  Status status;
  for (const Named &queue : queues)
    if (Status drained = wait([&] { return queue.tasks->drain(); });
        status.ok())
      status = drained;
  return status;
}

void Paging::put(Queue queue, std::function<Status()> task) {
  queues[queue.number - 1].tasks->put(std::move(task));
}

Status Paging::wait(const std::function<Status()> &body) {
  const int64_t begin = steadyNanoseconds();
  Status status = body();
  std::lock_guard lock(mutex);
  transfers.waited += steadyNanoseconds() - begin;
  return status;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

Status Paging::copy(const void *src, void *dst, int64_t bytes) {
  ScratchFile *from = find(src), *into = find(dst);
  if (from && into)
    return invalidArgument("copy from a file to a file; expected one side in "
                           "memory");
  if (from)
    return from->read(src, dst, bytes);
  if (into)
    return into->write(dst, src, bytes);
  std::memcpy(dst, src, bytes);
  return okStatus();
}

Status Paging::copy(const optrt_copy_desc &desc, const void *src, void *dst) {
  const auto *from = static_cast<const char *>(src);
  auto *to = static_cast<char *>(dst);
  const int64_t begin = steadyNanoseconds(), size = desc.element_bytes;
  const bool isDense =
      desc.rows == 1 || (desc.src_ld == desc.cols && desc.dst_ld == desc.cols);
  const int64_t rows = isDense ? 1 : desc.rows,
                width = desc.cols * size * (isDense ? desc.rows : 1);
  for (int64_t row = 0; row != rows; ++row)
    OPTRT_RETURN_IF_ERROR(copy(from + row * desc.src_ld * size,
                               to + row * desc.dst_ld * size, width));
  std::lock_guard lock(mutex);
  (find(dst) ? transfers.bytesOut : transfers.bytesIn) += rows * width;
  transfers.times.push_back({begin, steadyNanoseconds()});
  return okStatus();
}

Status Paging::clear(void *to, int64_t bytes) {
  ScratchFile *file = find(to);
  if (!file) {
    std::memset(to, 0, bytes);
    return okStatus();
  }
  const std::vector<char> zeros(std::min<int64_t>(bytes, 1 << 20));
  const auto piece = static_cast<int64_t>(zeros.size());
  for (int64_t done = 0; done < bytes; done += piece)
    OPTRT_RETURN_IF_ERROR(file->write(static_cast<char *>(to) + done,
                                      zeros.data(),
                                      std::min(bytes - done, piece)));
  return okStatus();
}

Transfers Paging::takeTransfers() {
  std::lock_guard lock(mutex);
  return std::exchange(transfers, {});
}
