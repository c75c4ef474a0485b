//===- CpuDevice.h - The kernels of a rank on a processor ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A CpuDevice runs one rank's local work on the rank's own threads: matrix
// products through oneDNN, kernels that the compiler outlined, strided copies
// and attention.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CPUDEVICE_H
#define OPTIMUS_RUNTIME_CPUDEVICE_H

#include "optimus-runtime/Device.h"

namespace optrt {

/// Work is split among `threads()` threads, the calling one included; with one
/// thread nothing is spawned and no barrier is touched. Results do not depend
/// on how work is split in `launch`, `copy`, `attention` and `attentionGrad`; a
/// product's summation order is oneDNN's choice and may differ between thread
/// counts.
class CpuDevice final : public Device {
public:
  /// `threads` (at least 1, else 1) is what one call may use; ranks x threads
  /// <= cores is the caller's matter.
  explicit CpuDevice(int threads);
  ~CpuDevice() override;
  CpuDevice(const CpuDevice &) = delete;
  CpuDevice &operator=(const CpuDevice &) = delete;

  /// Makes the device's threads and oneDNN's kernels, from the thread that will
  /// use it. Optional: calls make them on demand, but where the system does not
  /// give them, libraries end the process then.
  ///
  /// Errors: Unavailable when threads or memory run out; InvalidArgument when
  /// OpenMP's environment allows fewer threads, or too small stacks.
  Status start();

  int threads() const;

  /// The calling thread computes. Once there is memory in a file, queues called
  /// "copies…" have threads of their own.
  Queue queue(std::string_view name) override;
  Event record(Queue queue) override;
  Status await(Queue queue, Event event) override;
  Status synchronize() override;
  Status call(Queue queue, std::function<Status()> work) override;
  /// For what the calling thread does the clock is at hand: nothing is put on a
  /// queue for it.
  Status timestamp(Queue queue, int64_t &time) override {
    if (queue.number != kCompute.number)
      return Device::timestamp(queue, time);
    time = steadyNanoseconds();
    return okStatus();
  }

  /// On large pages, touched by the calling thread, so that they are near it.
  /// Besides, the first touch of a page costs more than the rest of a step's
  /// work on it.
  StatusOr<DeviceMemory> allocate(int64_t bytes, const char *purpose) override;
  /// The host's memory is a processor's own.
  StatusOr<DeviceMemory> allocateOnHost(int64_t bytes,
                                        const char *purpose) override {
    return allocate(bytes, purpose);
  }
  StatusOr<DeviceMemory> allocateInFile(int64_t bytes, const char *purpose,
                                        const std::string &folder) override;
  Transfers takeTransfers() override;
  Status clear(Queue, void *to, int64_t bytes) override;
  Status write(Queue, void *to, const void *from, int64_t bytes) override;
  Status read(Queue, void *to, const void *from, int64_t bytes) override;
  void *hostAddress(void *address) override;
  void *addressInCall(void *address) override { return hostAddress(address); }

  /// InvalidArgument also where the processor has no such mode.
  Status configure(const DeviceOptions &options) override;
  void beginCommands() override;
  void endCommands() override;
  bool takeSubnormals() override;

  Status prepare(const Workload &workload) override;
  Status pack(Queue queue, const optrt_pack_desc &desc, const float *src,
              float *dst) override;
  Status gemm(Queue queue, const optrt_gemm_desc &desc, const void *a,
              const void *b, void *c, const void *bias,
              const void *extra) override;
  Status launch(Queue queue, const optrt_launch_desc &desc,
                const optimus_kernel &kernel, void *const *args) override;
  Status copy(Queue queue, const optrt_copy_desc &desc, const void *src,
              void *dst) override;

  /// Attention without ever holding more than a 64 x 64 block of scores per
  /// thread.
  Status attention(Queue queue, const optrt_attention_desc &desc,
                   const AttentionOperands &operands) override;
  Status attentionGrad(Queue queue, const optrt_attention_desc &desc,
                       const AttentionOperands &operands) override;

  DeviceEnvironment environment() const override;
  std::string slowPrecision(int32_t type) const override;
  /// The scratchpads of oneDNN and of attention, each thread's share at most as
  /// in optimus-support/DeviceScratch.h. Before prepare() it grows as calls
  /// need it. Not counted are the few panels that oneDNN's sgemm allocates in a
  /// call and gives back.
  size_t scratchBytes() const override;

protected:
  void release(void *start) override;

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CPUDEVICE_H
