//===- HiddenDevice.h - A device that hides its memory ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// For tests: a device that behaves as an accelerator may, with the processor's
// own kernels. What it allocates no host code can touch: an address is a place
// in pages without access. The memory lies elsewhere, between such pages, so
// that kernels cannot touch the bytes behind it either. Addresses are looked up
// when a command's turn comes, and never given out twice. Work on a queue
// happens late, queues taking turns at random in an order allowed by events.
// Whatever a program or the runtime leaves to luck goes wrong here.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_HIDDEN_HIDDENDEVICE_H
#define OPTIMUS_RUNTIME_DEVICE_HIDDEN_HIDDENDEVICE_H

#include "HiddenMemory.h"

#include "optimus-runtime/Device.h"

#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace optrt {

/// A bit of a rank's memory that flips after so many calls of synchronize(), as
/// where memory fails.
struct FlippedBit {
  uint64_t synchronizations = 0; ///< 0: none is
  int64_t byte = 0;
};

/// The launch of a kernel that fails, counted from 1.
struct FailingLaunch {
  std::string kernel; ///< empty: none does
  uint64_t number = 0;
};

class HiddenDevice final : public Device {
public:
  /// `kernels` does the work, on addresses that the host may touch. Devices
  /// with the same seed and the same calls take the same turns.
  HiddenDevice(std::unique_ptr<Device> kernels, uint64_t seed,
               FlippedBit flipped = {}, FailingLaunch failing = {});

  Queue queue(std::string_view name) override;
  Event record(Queue queue) override;
  /// Internal for an event of before synchronize().
  Status await(Queue queue, Event event) override;
  Status synchronize() override;
  Status call(Queue queue, std::function<Status()> work) override;

  StatusOr<DeviceMemory> allocate(int64_t bytes, const char *purpose) override;
  StatusOr<DeviceMemory> allocateOnHost(int64_t bytes,
                                        const char *purpose) override {
    return hide(bytes, purpose, kernels->allocateOnHost(bytes, purpose));
  }
  StatusOr<DeviceMemory> allocateInFile(int64_t bytes, const char *purpose,
                                        const std::string &folder) override {
    return hide(bytes, purpose,
                kernels->allocateInFile(bytes, purpose, folder));
  }
  Transfers takeTransfers() override { return kernels->takeTransfers(); }
  Status clear(Queue queue, void *to, int64_t bytes) override;
  Status write(Queue queue, void *to, const void *from, int64_t bytes) override;
  Status read(Queue queue, void *to, const void *from, int64_t bytes) override;
  void *hostAddress(void *) override { return nullptr; }
  void *addressInCall(void *address) override;

  Status prepare(const Workload &workload) override {
    return kernels->prepare(workload);
  }
  Status pack(Queue queue, const optrt_pack_desc &desc, const float *src,
              float *dst) override;
  Status gemm(Queue queue, const optrt_gemm_desc &desc, const void *a,
              const void *b, void *c, const void *bias,
              const void *extra) override;
  Status launch(Queue queue, const optrt_launch_desc &desc,
                const optimus_kernel &kernel, void *const *args) override;
  Status copy(Queue queue, const optrt_copy_desc &desc, const void *src,
              void *dst) override;
  Status attention(Queue queue, const optrt_attention_desc &desc,
                   const AttentionOperands &operands) override;
  Status attentionGrad(Queue queue, const optrt_attention_desc &desc,
                       const AttentionOperands &operands) override;
  DeviceEnvironment environment() const override {
    return kernels->environment();
  }
  size_t scratchBytes() const override { return kernels->scratchBytes(); }

protected:
  void release(void *start) override;

private:
  /// Work, or an event that is reached or awaited.
  struct Task {
    enum Kind { Work, Reach, Await } kind = Work;
    std::function<Status()> work;
    uint64_t event = 0;
  };
  class Operands;

  Status put(Queue queue, Task task);
  /// Gives memory of `kernels` an address that no host code can touch.
  StatusOr<DeviceMemory> hide(int64_t bytes, const char *purpose,
                              StatusOr<DeviceMemory> elsewhere);
  /// Takes one turn on a queue that can go on; false where none can.
  bool takeTurn();
  /// Where host code finds `bytes` at an address; null for null.
  ///
  /// Errors: Internal where they are not, or no longer, the device's.
  StatusOr<void *> find(const void *address, int64_t bytes) const;

  std::unique_ptr<Device> kernels;
  std::mt19937_64 random;
  std::vector<std::string> names{"compute"};
  std::vector<std::deque<Task>> queues{1};
  /// Of the events since the queues were empty, from `firstEvent` on.
  std::vector<bool> reached;
  uint64_t firstEvent = 0;
  HiddenMemory memory;
  /// Copies kept by `kernels`, in memory that is not the device's.
  std::map<const void *, DeviceMemory> kept;
  Status firstFailure;
  const FlippedBit flipped;
  FailingLaunch failing; ///< counted from now on
  uint64_t synchronizations = 0;
  void *held = nullptr; ///< what was allocated for a rank's buffers
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_HIDDEN_HIDDENDEVICE_H
