//===- CudaDevice.h - A rank's device on an NVIDIA GPU ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_CUDADEVICE_H

#include "CudnnAttention.h"
#include "Driver.h"
#include "HostWords.h"
#include "Kernels.h"
#include "Products.h"

#include "optimus-runtime/Device.h"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace optrt::cuda {

/// One of the GPUs that the driver shows. A queue is a stream, an event one of
/// the driver's; host memory is pinned. No host code can address its memory.
///
/// What goes wrong on the GPU is told by whatever is called next, synchronize()
/// at the latest, and all calls fail from then on. With CUDA_LAUNCH_BLOCKING=1
/// each command is waited for and tells of itself, and nothing is recorded.
class CudaDevice final : public Device {
public:
  /// That of a number. Unavailable where there is no driver or no such GPU.
  static StatusOr<std::unique_ptr<CudaDevice>> create(int gpu = 0);
  ~CudaDevice() override;

  std::string properties() const override;
  StatusOr<std::vector<std::string>> gpus() const override;

  Queue queue(std::string_view name) override;
  Event record(Queue queue) override;
  /// Internal for an event of before synchronize().
  Status await(Queue queue, Event event) override;
  Status synchronize() override;
  std::string adviceOnLateFailure() const override;
  /// Waits until the queue gets there, and works on the caller's thread: a wait
  /// for another rank must not hold up the driver, which may have one thread
  /// for all host code of a process.
  Status call(Queue queue, std::function<Status()> work) override;

  void *nativeQueue(Queue queue) override;
  Status post(Queue queue, uint32_t *word, uint32_t number) override;

  bool canRecord() const override { return !isBlocking; }
  Status beginRecording() override;
  StatusOr<uint32_t> endRecording() override;
  Status replay(uint32_t recording) override;
  void discardRecordings() override;

  Status follow(Queue queue, Device &other, Queue otherQueue) override;
  Status joinRecording(Device &first) override;
  StatusOr<uint32_t> leaveRecording(Device &first) override;

  Status timestamp(Queue queue, int64_t &time) override;

  StatusOr<DeviceMemory> allocate(int64_t bytes, const char *purpose) override;
  StatusOr<DeviceMemory> allocateOnHost(int64_t bytes,
                                        const char *purpose) override;
  StatusOr<DeviceMemory> allocateInFile(int64_t bytes, const char *purpose,
                                        const std::string &folder) override {
    return bytes == 0 ? StatusOr<DeviceMemory>(DeviceMemory())
                      : Device::allocateInFile(bytes, purpose, folder);
  }
  Transfers takeTransfers() override;
  Status clear(Queue queue, void *to, int64_t bytes) override;
  Status write(Queue queue, void *to, const void *from, int64_t bytes) override;
  Status read(Queue queue, void *to, const void *from, int64_t bytes) override;
  void *hostAddress(void *) override { return nullptr; }
  void *addressInCall(void *) override { return nullptr; }

  Status configure(const DeviceOptions &chosen) override {
    DeviceOptions others = chosen;
    others.tf32 = false;
    OPTRT_RETURN_IF_ERROR(Device::configure(others));
    options = chosen;
    return okStatus();
  }
  Status prepare(const Workload &workload) override;
  StatusOr<std::string> tuningMachine() override;
  Status tune(std::span<const ProductCall> calls,
              TunedProducts &tuned) override;
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
                   const AttentionOperands &operands) override {
    return runAttention(queue, desc, /*isGradient=*/false, operands);
  }
  Status attentionGrad(Queue queue, const optrt_attention_desc &desc,
                       const AttentionOperands &operands) override {
    return runAttention(queue, desc, /*isGradient=*/true, operands);
  }
  StatusOr<int64_t> freeBytes() const override;
  int64_t codeBytes() const override;
  size_t scratchBytes() const override { return size_t(workspace.size()); }

protected:
  void release(void *start) override;

private:
  /// Events of one kind, used again once the queues are empty.
  struct EventPool {
    unsigned flags;
    std::vector<EventHandle> made;
    size_t used = 0;
  };
  struct Timestamp {
    int64_t *time;
    EventHandle event;
  };
  /// Copies between the GPU's memory and the host's.
  struct Copies {
    int64_t bytesIn = 0, bytesOut = 0;
    std::deque<CommandTimes> times;
  };
  /// A graph, or null where another device has it; the events recorded by each
  /// replay, and its copies.
  struct Recording {
    GraphExec graph = nullptr;
    std::vector<Timestamp> timestamps;
    Copies copies;
  };

  explicit CudaDevice(const Driver &driver);
  Status start(int ordinal);
  Status describeGpu();
  /// The device's context becomes the thread's.
  Status enter() const;
  Stream streamOf(Queue queue) const { return streams[queue.number]; }
  StatusOr<EventHandle> take(EventPool &pool);
  /// Reads when events were reached.
  Status measureTimes();
  Status instantiate(GraphExec &exec);
  /// All its queues go on as one.
  Status joinAll();
  StatusOr<uint32_t> finishRecording(const Status &status);
  void discard(Recording &recording);
  /// `to` goes on where `from` is.
  Status join(Stream to, Stream from);
  /// What devices of one GPU in this process share.
  struct Shared;
  void share();
  Status noteFree();
  /// The driver's, counted for all ranks of the GPU.
  Result allocateCounted(Address &address, int64_t bytes);
  Result freeCounted(Address address, int64_t bytes);
  void leave();
  /// Where each command is waited for: ranks that share a GPU take turns, so
  /// each sees the errors of its own command, and wait when it is put.
  std::unique_lock<std::mutex> takeTurn() const;
  Status settle(Queue queue);
  /// What the GPU ended with, if anything did; no call succeeds after that.
  Result lateFailure() const;
  /// Keeps what a function without a status has to say.
  void keep(Status status);
  bool isOnHost(const void *address) const;
  /// That there was not enough of the GPU's memory for `what`: planned bytes,
  /// free bytes, the holders of the rest, and the remedy.
  Status outOfMemory(const std::string &what) const;
  /// Sums B's rows into the bias, for a product that left them.
  Status sumRows(Queue queue, const optrt_gemm_desc &desc, const void *b,
                 const void *bias);
  Status prepareAttention(const Workload &workload);
  Status runAttention(Queue queue, const optrt_attention_desc &desc,
                      bool isGradient, const AttentionOperands &operands);
  Status copyPlain(Stream stream, void *to, const void *from, int64_t bytes);
  Status copyRows(Stream stream, const optrt_copy_desc &desc, const void *src,
                  void *dst);
  Status move(Stream stream, const optrt_copy_desc &desc, const void *src,
              void *dst);

  const Driver &driver;
  const bool isBlocking;
  Shared *shared = nullptr;
  DeviceOptions options;
  DeviceNumber number = 0;
  Context context = nullptr;
  Gpu gpu;
  std::vector<std::string> names;
  std::vector<Stream> streams;
  EventPool events{kEventDisableTiming, {}, 0}, marks{kEventDefault, {}, 0};
  /// The number of the first event since the queues were empty.
  uint64_t firstEvent = 0;
  std::deque<Recording> recordings;
  bool isRecording = false;       ///< the last of these
  std::vector<uint32_t> replayed; ///< since takeTransfers()
  std::vector<Timestamp> timestamps;
  std::map<const char *, int64_t, std::greater<>> hostMemory;
  std::map<const void *, int64_t> deviceMemory;
  Copies copies; ///< since takeTransfers(), but for what was replayed
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Products> products;
  std::unique_ptr<CudnnAttention> attentions;
  std::unique_ptr<HostWords> words; ///< once one was posted
  DeviceMemory workspace;
  Status firstFailure; ///< of functions without a status
};

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
