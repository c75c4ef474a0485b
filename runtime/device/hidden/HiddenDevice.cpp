//===- HiddenDevice.cpp - A device that hides its memory ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HiddenDevice.h"

#include "optimus-support/CachePages.h"
#include "optimus-support/ElementType.h"

#include <algorithm>

namespace optrt {

using optimus_support::CheckedSize;

HiddenDevice::HiddenDevice(std::unique_ptr<Device> kernels, uint64_t seed,
                           FlippedBit flipped, FailingLaunch failing)
    : kernels(std::move(kernels)), random(seed), flipped(flipped),
      failing(std::move(failing)) {}

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
  const uint64_t event = firstEvent + reached.size();
  reached.push_back(false);
  queues[queue.number].push_back({Task::Reach, {}, event});
  return {event};
}

Status HiddenDevice::await(Queue queue, Event event) {
  if (event.number - firstEvent >= reached.size())
    return internal("waits for an event that was not recorded since the queues "
                    "were empty");
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
                               reached[queues[i].front().event - firstEvent]))
      ready.push_back(i);
  if (ready.empty())
    return false;
  std::deque<Task> &queue = queues[ready[random() % ready.size()]];
  Task task = std::move(queue.front());
  queue.pop_front();
  if (task.kind == Task::Reach)
    reached[task.event - firstEvent] = true;
  else if (task.kind == Task::Work && firstFailure.ok())
    firstFailure = task.work();
  return true;
}

Status HiddenDevice::synchronize() {
  // Events are recorded before they are awaited, so that queues become empty.
  while (takeTurn()) {
  }
  Status status = std::move(firstFailure);
  firstFailure = okStatus();
  firstEvent += reached.size();
  reached.clear();
  if (++synchronizations == flipped.synchronizations && held)
    *static_cast<char *>(
        addressInCall(static_cast<char *>(held) + flipped.byte)) ^= 8;
  return status;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

StatusOr<DeviceMemory> HiddenDevice::allocate(int64_t bytes,
                                              const char *purpose) {
  OPTRT_RETURN_IF_ERROR(checkSize(bytes, purpose));
  if (bytes == 0)
    return DeviceMemory();
  void *const hidden = memory.allocate(alignedSize(bytes));
  if (!hidden)
    return unavailable(concat("cannot hide ", bytes, " bytes for ", purpose));
  if (purpose == std::string_view("the parameters of a rank"))
    held = hidden;
  return DeviceMemory(*this, hidden, bytes);
}

StatusOr<DeviceMemory> HiddenDevice::hide(int64_t bytes, const char *purpose,
                                          StatusOr<DeviceMemory> elsewhere) {
  if (!elsewhere.ok() || bytes == 0)
    return elsewhere;
  void *const hidden = memory.hide(elsewhere->data(), alignedSize(bytes));
  if (!hidden)
    return unavailable(concat("cannot hide ", bytes, " bytes for ", purpose));
  kept[hidden] = *std::move(elsewhere);
  return DeviceMemory(*this, hidden, bytes);
}

void HiddenDevice::release(void *start) {
  memory.release(start);
  kept.erase(start);
}

StatusOr<void *> HiddenDevice::find(const void *address, int64_t bytes) const {
  return memory.find(address, bytes);
}

void *HiddenDevice::addressInCall(void *address) {
  return find(address, 1).ok() ? *find(address, 1) : nullptr;
}

/// Looks up what a command touches when its turn has come.
class HiddenDevice::Operands {
public:
  explicit Operands(const HiddenDevice &device) : device(device) {}

  /// A matrix's first element; of one row, `ld` does not matter.
  template <typename T>
  T *operator()(T *address, CheckedSize rows, CheckedSize cols, int64_t ld) {
    if (rows.get() == 0)
      return bytes(address, 0);
    return (*this)(address, optimus_support::matrixExtent(rows, cols, ld));
  }
  template <typename T>
  T *operator()(T *address, CheckedSize elements) {
    return bytes(address, elements * int64_t(sizeof(T)));
  }
  /// The same of elements of a type.
  template <typename T>
  T *of(int32_t type, T *address, CheckedSize rows, CheckedSize cols,
        int64_t ld) {
    if (rows.get() == 0)
      return bytes(address, 0);
    return of(type, address, optimus_support::matrixExtent(rows, cols, ld));
  }
  template <typename T>
  T *of(int32_t type, T *address, CheckedSize elements) {
    return bytes(address, elements * optimus_support::elementBytes(
                                         optimus_support::ElementType(type)));
  }
  /// All of an attention, or of its gradient.
  AttentionOperands of(const optrt_attention_desc &d, AttentionOperands x) {
    const CheckedSize tokens = CheckedSize(d.batch) * d.seq,
                      keys = optimus_support::attentionKeys(d.batch, d.seq,
                                                            d.capacity, d.pool),
                      width = CheckedSize(d.heads) * d.head_dim,
                      kvWidth = CheckedSize(d.kv_heads) * d.head_dim;
    x.q = of(d.type, x.q, tokens, width, d.q_ld);
    x.k = of(d.type, x.k, keys, kvWidth, d.kv_ld);
    x.v = of(d.type, x.v, keys, kvWidth, d.kv_ld);
    x.lengths = (*this)(x.lengths, d.batch);
    x.positions = (*this)(x.positions, tokens);
    if (d.pool != 0)
      x.pages = (*this)(x.pages,
                        optimus_support::attentionPages(d.batch, d.capacity));
    x.out = of(d.type, x.out, tokens * width);
    x.lse = (*this)(x.lse, tokens * d.heads);
    x.workspace = bytes(x.workspace, d.workspace_bytes);
    x.dout = of(d.type, x.dout, tokens * width);
    x.dq = of(d.type, x.dq, tokens, width, d.q_ld);
    x.dk = of(d.type, x.dk, tokens, kvWidth, d.kv_ld);
    x.dv = of(d.type, x.dv, tokens, kvWidth, d.kv_ld);
    return x;
  }
  template <typename T>
  T *bytes(T *address, CheckedSize count) {
    StatusOr<void *> found =
        count.isAtMost(optimus_support::kMaxBytes)
            ? device.find(address, *count.get())
            : internal(concat("touches ", count.toString(), " bytes"));
    if (!found.ok() && status.ok())
      status = found.status();
    return found.ok() ? static_cast<T *>(*found) : nullptr;
  }

  Status status;

private:
  const HiddenDevice &device;
};

Status HiddenDevice::clear(Queue queue, void *to, int64_t bytes) {
  return call(queue, [=, this]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(void *visible, find(to, bytes));
    return kernels->clear(kCompute, visible, bytes);
  });
}

Status HiddenDevice::write(Queue queue, void *to, const void *from,
                           int64_t bytes) {
  return call(queue, [=, this]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(void *visible, find(to, bytes));
    return kernels->write(kCompute, visible, from, bytes);
  });
}

Status HiddenDevice::read(Queue queue, void *to, const void *from,
                          int64_t bytes) {
  return call(queue, [=, this]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(void *visible, find(from, bytes));
    return kernels->read(kCompute, to, visible, bytes);
  });
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

Status HiddenDevice::pack(Queue queue, const optrt_pack_desc &desc,
                          const float *src, float *dst) {
  return call(queue, [=, this]() -> Status {
    Operands at(*this);
    const optrt_pack_desc &d = desc;
    const float *from =
        d.trans ? at(src, d.cols, d.rows, d.ld) : at(src, d.rows, d.cols, d.ld);
    float *to = at(dst, d.elements);
    OPTRT_RETURN_IF_ERROR(at.status);
    return kernels->pack(kCompute, d, from, to);
  });
}

Status HiddenDevice::gemm(Queue queue, const optrt_gemm_desc &desc,
                          const void *a, const void *b, void *c,
                          const void *bias, const void *extra) {
  return call(queue, [=, this]() -> Status {
    Operands at(*this);
    const optrt_gemm_desc &d = desc;
    const void *left = d.trans_a ? at.of(d.factor_type, a, d.k, d.m, d.lda)
                                 : at.of(d.factor_type, a, d.m, d.k, d.lda);
    const void *right = d.packed_b  ? at.of(d.factor_type, b, 1, d.ldb, d.ldb)
                        : d.trans_b ? at.of(d.factor_type, b, d.n, d.k, d.ldb)
                                    : at.of(d.factor_type, b, d.k, d.n, d.ldb);
    void *product = at.of(d.result_type, c, d.m, d.n, d.ldc);
    const void *row = at.of(d.bias_type, bias, 1, d.n, d.n),
               *matrix = at.of(d.extra_type, extra, d.m, d.n, d.ld_extra);
    OPTRT_RETURN_IF_ERROR(at.status);
    return kernels->gemm(kCompute, d, left, right, product, row, matrix);
  });
}

Status HiddenDevice::launch(Queue queue, const optrt_launch_desc &desc,
                            const optimus_kernel &kernel, void *const *args) {
  if (desc.name && desc.name == failing.kernel && --failing.number == 0)
    return internal("fails, as a test asks for");
  std::vector<void *> given(args, args + desc.num_buffers + desc.num_scalars);
  return call(queue, [=, this]() mutable -> Status {
    Operands at(*this);
    // How much of them only the kernel knows.
    for (int32_t i = 0; i != desc.num_buffers; ++i)
      given[i] = at.bytes(given[i], 1);
    OPTRT_RETURN_IF_ERROR(at.status);
    return kernels->launch(kCompute, desc, kernel, given.data());
  });
}

Status HiddenDevice::copy(Queue queue, const optrt_copy_desc &desc,
                          const void *src, void *dst) {
  return call(queue, [=, this]() -> Status {
    Operands at(*this);
    auto touched = [&](int64_t ld) {
      const int64_t elements =
          desc.rows > 0 ? (desc.rows - 1) * ld + desc.cols : 0;
      return elements * desc.element_bytes;
    };
    const void *from = at.bytes(src, touched(desc.src_ld));
    void *to = at.bytes(dst, touched(desc.dst_ld));
    OPTRT_RETURN_IF_ERROR(at.status);
    return kernels->copy(kCompute, desc, from, to);
  });
}

Status HiddenDevice::attention(Queue queue, const optrt_attention_desc &desc,
                               const AttentionOperands &operands) {
  return call(queue, [=, this]() -> Status {
    Operands at(*this);
    const AttentionOperands visible = at.of(desc, operands);
    OPTRT_RETURN_IF_ERROR(at.status);
    return kernels->attention(kCompute, desc, visible);
  });
}

Status HiddenDevice::attentionGrad(Queue queue,
                                   const optrt_attention_desc &desc,
                                   const AttentionOperands &operands) {
  return call(queue, [=, this]() -> Status {
    Operands at(*this);
    const AttentionOperands visible = at.of(desc, operands);
    OPTRT_RETURN_IF_ERROR(at.status);
    return kernels->attentionGrad(kCompute, desc, visible);
  });
}

} // namespace optrt
