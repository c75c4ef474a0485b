//===- HiddenDevice.cpp - A device that hides its memory ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HiddenDevice.h"

#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>

namespace optrt {

HiddenDevice::HiddenDevice(std::unique_ptr<Device> kernels, uint64_t seed)
    : kernels(std::move(kernels)), random(seed) {}

HiddenDevice::~HiddenDevice() {
  for (const auto &[hidden, block] : blocks) {
    munmap(const_cast<char *>(hidden), block.bytes);
    munmap(block.visible, block.bytes);
  }
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

Queue HiddenDevice::queue(std::string_view name) {
  auto found = std::find(names.begin(), names.end(), name);
  const auto number = static_cast<uint32_t>(found - names.begin());
  if (found == names.end()) {
    names.emplace_back(name);
    queues.emplace_back();
  }
  return {number};
}

Event HiddenDevice::record(Queue queue) {
  const uint64_t event = reached.size();
  reached.push_back(false);
  queues[queue.number].push_back({Task::Reach, {}, event});
  return {event};
}

Status HiddenDevice::await(Queue queue, Event event) {
  return put(queue, {Task::Await, {}, event.number});
}

Status HiddenDevice::call(Queue queue, std::function<Status()> work) {
  return put(queue, {Task::Work, std::move(work)});
}

Status HiddenDevice::put(Queue queue, Task task) {
  queues[queue.number].push_back(std::move(task));
  // Now and then something happens meanwhile, on whatever queue.
  if (random() % 4 == 0)
    takeTurn();
  return firstFailure;
}

bool HiddenDevice::takeTurn() {
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i != queues.size(); ++i)
    if (!queues[i].empty() && (queues[i].front().kind != Task::Await ||
                               reached[queues[i].front().event]))
      ready.push_back(i);
  if (ready.empty())
    return false;
  std::deque<Task> &queue = queues[ready[random() % ready.size()]];
  Task task = std::move(queue.front());
  queue.pop_front();
  if (task.kind == Task::Reach)
    reached[task.event] = true;
  else if (task.kind == Task::Work && firstFailure.ok())
    firstFailure = task.work();
  return true;
}

Status HiddenDevice::synchronize() {
  while (takeTurn()) {
  }
  Status status = std::move(firstFailure);
  firstFailure = okStatus();
  bool isEmpty = true;
  for (std::deque<Task> &queue : queues) {
    isEmpty &= queue.empty();
    queue.clear();
  }
  reached.clear();
  if (status.ok() && !isEmpty)
    return internal("queues wait for events that nothing reaches");
  return status;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

StatusOr<DeviceMemory> HiddenDevice::allocate(int64_t bytes,
                                              const char *purpose) {
  if (bytes == 0)
    return DeviceMemory();
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t rounded = (bytes + page - 1) / page * page;
  const int file = memfd_create("optimus-hidden", MFD_CLOEXEC);
  void *visible = MAP_FAILED, *hidden = MAP_FAILED;
  if (file >= 0 && ftruncate(file, rounded) == 0) {
    visible = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    hidden = mmap(nullptr, rounded, PROT_NONE, MAP_SHARED, file, 0);
  }
  if (file >= 0)
    close(file);
  if (visible == MAP_FAILED || hidden == MAP_FAILED)
    return unavailable(
        concat("cannot hide ", bytes, " bytes for ", purpose));
  blocks[static_cast<const char *>(hidden)] = {static_cast<char *>(visible),
                                               rounded};
  return DeviceMemory(*this, hidden, bytes);
}

void HiddenDevice::release(void *start) {
  auto block = blocks.find(static_cast<const char *>(start));
  munmap(start, block->second.bytes);
  munmap(block->second.visible, block->second.bytes);
  blocks.erase(block);
}

void *HiddenDevice::translate(const void *address) const {
  const auto *hidden = static_cast<const char *>(address);
  // Keys descend: the first that is not above.
  auto block = blocks.lower_bound(hidden);
  if (block == blocks.end() || hidden - block->first >= block->second.bytes)
    return nullptr;
  return block->second.visible + (hidden - block->first);
}

void *HiddenDevice::addressInCall(void *address) { return translate(address); }

Status HiddenDevice::clear(Queue queue, void *to, int64_t bytes) {
  return call(queue, [=, this, to = translate(to)] {
    return kernels->clear(kCompute, to, bytes);
  });
}

Status HiddenDevice::write(Queue queue, void *to, const void *from,
                           int64_t bytes) {
  return call(queue, [=, this, to = translate(to)] {
    return kernels->write(kCompute, to, from, bytes);
  });
}

Status HiddenDevice::read(Queue queue, void *to, const void *from,
                          int64_t bytes) {
  return call(queue, [=, this, from = translate(from)] {
    return kernels->read(kCompute, to, from, bytes);
  });
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

void HiddenDevice::setParameterVersion(uint64_t version) {
  // What is on the queue still belongs to the version before.
  (void)call(kCompute, [=, this] {
    kernels->setParameterVersion(version);
    return okStatus();
  });
}

Status HiddenDevice::gemm(Queue queue, const optrt_gemm_desc &desc,
                          const float *a, const float *b, float *c,
                          const float *bias, const float *extra) {
  return call(queue, [=, this, a = visible(a), b = visible(b), c = visible(c),
                      bias = visible(bias), extra = visible(extra)] {
    return kernels->gemm(kCompute, desc, a, b, c, bias, extra);
  });
}

Status HiddenDevice::launch(Queue queue, const optrt_launch_desc &desc,
                            optrt_kernel kernel, void *const *args) {
  std::vector<void *> visibleArgs(args,
                                  args + desc.num_buffers + desc.num_scalars);
  for (int32_t i = 0; i != desc.num_buffers; ++i)
    visibleArgs[i] = translate(visibleArgs[i]);
  return call(queue, [=, this, args = std::move(visibleArgs)] {
    return kernels->launch(kCompute, desc, kernel, args.data());
  });
}

Status HiddenDevice::copy(Queue queue, const optrt_copy_desc &desc,
                          const float *src, float *dst) {
  return call(queue, [=, this, src = visible(src), dst = visible(dst)] {
    return kernels->copy(kCompute, desc, src, dst);
  });
}

Status HiddenDevice::attention(Queue queue, const optrt_attention_desc &desc,
                               const float *q, const float *k, const float *v,
                               const int32_t *lengths, float *out,
                               float *lse) {
  return call(queue, [=, this, q = visible(q), k = visible(k), v = visible(v),
                      lengths = visible(lengths), out = visible(out),
                      lse = visible(lse)] {
    return kernels->attention(kCompute, desc, q, k, v, lengths, out, lse);
  });
}

Status HiddenDevice::attentionGrad(Queue queue,
                                   const optrt_attention_desc &desc,
                                   const float *dout, const float *q,
                                   const float *k, const float *v,
                                   const int32_t *lengths, const float *out,
                                   const float *lse, float *dq, float *dk,
                                   float *dv) {
  return call(queue, [=, this, dout = visible(dout), q = visible(q),
                      k = visible(k), v = visible(v),
                      lengths = visible(lengths), out = visible(out),
                      lse = visible(lse), dq = visible(dq), dk = visible(dk),
                      dv = visible(dv)] {
    return kernels->attentionGrad(kCompute, desc, dout, q, k, v, lengths, out,
                                  lse, dq, dk, dv);
  });
}

} // namespace optrt
