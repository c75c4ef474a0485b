//===- Device.h - What runs a rank's local commands -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_H
#define OPTIMUS_RUNTIME_DEVICE_H

#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-runtime/Recorder.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/Sizes.h"
#include "optimus-support/model_abi.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optrt {

/// A queue of a device, as a cudaStream_t: what is put on it begins in order
/// and is done in order. Number 0 is there from the start, for computation.
struct Queue {
  uint32_t number = 0;
};
inline constexpr Queue kCompute{};

/// A place on a queue, until the next synchronize(), as a cudaEvent_t.
struct Event {
  uint64_t number = 0;
};

/// Nanoseconds of the process's steady clock.
inline int64_t steadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// When a command ran, in steadyNanoseconds().
struct CommandTimes {
  int64_t begin = 0, end = 0;
};

/// Copies between the device's memory and another one.
struct Transfers {
  int64_t bytesIn = 0, bytesOut = 0;
  /// When each ran, and how long the device's thread stood still for them, in
  /// nanoseconds.
  std::vector<CommandTimes> times;
  int64_t waited = 0;

  void add(const Transfers &later) {
    bytesIn += later.bytesIn;
    bytesOut += later.bytesOut;
    times.insert(times.end(), later.times.begin(), later.times.end());
    waited += later.waited;
  }
};

/// The alignment of a device's allocations.
inline constexpr int64_t kBufferAlignment = 64;
/// Of up to optimus_support::kMaxBytes.
inline int64_t alignedSize(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

/// The operands of an attention; those from dout on are its gradient's.
struct AttentionOperands {
  const void *q, *k, *v;
  const int32_t *lengths; ///< may be null
  void *out;              ///< an attention writes it and its gradient reads it
  float *lse;             ///< the same
  void *workspace;        ///< of the descriptor's bytes; null where these are 0
  const void *dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  const int32_t *positions = nullptr, *pages = nullptr;
};

/// An attention or a gradient of one, and what messages call it.
struct AttentionCall {
  optrt_attention_desc desc;
  std::string command;
};

/// The commands of a program that may need more than their operands.
struct Workload {
  std::vector<optrt_gemm_desc> products;
  std::vector<optrt_pack_desc> packs;
  std::vector<AttentionCall> attentions, attentionGrads;
  std::vector<const optimus_kernel *> kernels;
  /// Where a GPU's kernels are found.
  std::span<const optimus_image> images;
};

/// What a user chose of how a device computes.
struct DeviceOptions {
  /// Factors of f32 products may be rounded to TF32, which has 11 bits of
  /// precision, as GPUs' tensor cores do.
  bool tf32 = false;
  /// Numbers below the normal ones count as zero, as operands and as results.
  bool flushesSubnormals = false;
};

/// What devices of a kind compute with in this process's environment.
struct DeviceEnvironment {
  /// Of a rank.
  int mostThreads = std::numeric_limits<int>::max();
  /// The libraries and instruction sets that last bits of results depend on.
  std::string arithmetic;
  /// What the environment asks for in vain, as a sentence; or nothing.
  std::string refused;
};

/// A product and its operands, as Device::gemm() takes them.
struct ProductCall {
  optrt_gemm_desc desc;
  const void *a, *b;
  void *c;
  const void *bias, *extra;
};
/// The algorithm that a device found to be the fastest for a product.
struct TunedProduct {
  std::string algorithm;
  double seconds = 0;
};
/// By product: its shape, types, epilogue, and how operands are aligned. Both
/// texts are the device's own.
using TunedProducts = std::map<std::string, TunedProduct>;

/// A function of this process as a processor's kernel.
inline optimus_kernel hostKernel(const char *name, optrt_kernel run) {
  return {name, run, 0, nullptr, 0, 0};
}

class Device;

/// Memory of a device, given back when it is destroyed; the device must outlive
/// it. Only the device's own functions may touch what lies at `data()`, except
/// where Device::hostAddress() says otherwise.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(Device &device, void *start, int64_t bytes)
      : device(&device), start(start), bytes(bytes) {}
  DeviceMemory(DeviceMemory &&other) noexcept { swap(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();

  char *data() const { return static_cast<char *>(start); }
  int64_t size() const { return bytes; }

private:
  void swap(DeviceMemory &other) {
    std::swap(device, other.device);
    std::swap(start, other.start);
    std::swap(bytes, other.bytes);
  }

  Device *device = nullptr;
  void *start = nullptr;
  int64_t bytes = 0;
};

/// The device of one rank, and the only way to its memory. Matrices are
/// row-major, sizes and leading dimensions count elements; descriptors are
/// those of CommandDescriptors.h and say of what element types operands are:
/// f32, and what else a device computes with.
///
/// Everything that names a queue is put on it and happens in its order, at the
/// latest when synchronize() returns: until then operands are borrowed, results
/// are undefined, and host memory read or written must stay. A processor's
/// device is done when a call returns, so that nobody waits.
///
/// Calls on one device come from one thread at a time; different devices may
/// run at the same time in one process.
///
/// Errors: InvalidArgument when a descriptor or a pointer cannot be right,
/// Unavailable when memory runs out, Internal when a library underneath fails;
/// those of what a queue does later are synchronize()'s. Nothing throws.
class Device : public Recorder {
public:
  /// What a GPU says of itself, as an object of JSON; empty of a processor.
  virtual std::string properties() const { return {}; }
  /// The identities of the GPUs visible to this process, by their numbers,
  /// distinct in the whole world; empty of a processor.
  virtual StatusOr<std::vector<std::string>> gpus() const {
    return std::vector<std::string>();
  }

  /// Says what its rank is going to allocate, for the message where there is
  /// not enough: "a rank needs 12 GiB: parameters 1 GiB, arena 11 GiB".
  void plan(std::string memory) { planned = std::move(memory); }

  //===--------------------------------------------------------------------===//
  // Order
  //===--------------------------------------------------------------------===//

  /// The queue called `name`, made when it is asked for first; "compute" is
  /// number 0.
  virtual Queue queue(std::string_view name) = 0;
  /// A place behind all that is on a queue.
  virtual Event record(Queue queue) = 0;
  /// What is put on `queue` from now on begins when the event is reached.
  virtual Status await(Queue queue, Event event) = 0;
  /// Returns when all queues are empty, with the first failure of what was on
  /// them.
  virtual Status synchronize() = 0;
  /// Advice for a failure that may be of any work put on a queue since the host
  /// waited last, not only of the failed call: how to make the device report at
  /// once. Empty where calls tell of themselves.
  virtual std::string adviceOnLateFailure() const { return {}; }
  /// Runs host code in a queue's order: moving tensors of devices with memory
  /// it can address.
  virtual Status call(Queue queue, std::function<Status()> work) = 0;

  /// The driver's name of a queue, for a library that puts work there itself: a
  /// GPU's stream. What the library does next on this thread is for this
  /// device. Null where there is no such thing.
  virtual void *nativeQueue(Queue) { return nullptr; }
  /// Writes a number to a word of allocateOnHost() in a queue's order, where
  /// the host may read it at any time.
  virtual Status post(Queue queue, uint32_t *word, uint32_t number) {
    return internal("this device writes no words of the host's");
  }

  //===--------------------------------------------------------------------===//
  // Repetition
  //===--------------------------------------------------------------------===//

  /// Whether the device records what is put on its queues.
  virtual bool canRecord() const { return false; }
  Status beginRecording() override {
    return internal("this device does not record");
  }
  StatusOr<uint32_t> endRecording() override {
    return internal("this device does not record");
  }
  Status replay(uint32_t recording) override {
    return internal("this device does not record");
  }
  /// Gives all recordings back; one that is under way goes on. A library with
  /// work in a recording waits for this.
  virtual void discardRecordings() {}

  //===--------------------------------------------------------------------===//
  // Several devices of one GPU, in one process
  //===--------------------------------------------------------------------===//

  /// Later work on `queue` comes after all present work on a queue of another
  /// device. Here and below, nothing else is called on either meanwhile, and
  /// the thread may be that of the other.
  virtual Status follow(Queue queue, Device &other, Queue otherQueue) {
    return internal("this device shares no GPU");
  }
  /// Later work on its queues is a part of the recording of `first`, until
  /// leaveRecording(). leaveRecording() returns a number here; its replay(),
  /// after the whole's on `first`, lets timestamps be read.
  virtual Status joinRecording(Device &first) {
    return internal("this device shares no GPU");
  }
  virtual StatusOr<uint32_t> leaveRecording(Device &first) {
    return internal("this device shares no GPU");
  }

  //===--------------------------------------------------------------------===//
  // Time
  //===--------------------------------------------------------------------===//

  /// Writes when a queue gets here, in steadyNanoseconds(), at the latest when
  /// synchronize() returns; `time` must stay until then, and as long as it is
  /// part of a recording, whose every replay writes it. Here the queue itself
  /// looks at the clock; a device with a clock of its own asks that and
  /// converts.
  virtual Status timestamp(Queue queue, int64_t &time) {
    return call(queue, [&time] {
      time = steadyNanoseconds();
      return okStatus();
    });
  }

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  /// Zeroed and aligned to kBufferAlignment. `purpose` is for the message where
  /// there is not enough: "the arena of a rank".
  virtual StatusOr<DeviceMemory> allocate(int64_t bytes,
                                          const char *purpose) = 0;
  /// The same in the host's memory, where a device's own is something else, or
  /// in a file without a name in `folder`, whose space is taken at once. Of
  /// these only clear(), write(), read() and copy() between them and the
  /// device's memory know; on queues called "copies…" such copies run beside
  /// the others, for which memory must have been allocated before.
  virtual StatusOr<DeviceMemory> allocateOnHost(int64_t bytes,
                                                const char *purpose) {
    return unavailable(concat("cannot allocate ", bytes, " bytes for ", purpose,
                              " in the host's memory: this device does not "
                              "reach it"));
  }
  virtual StatusOr<DeviceMemory> allocateInFile(int64_t bytes,
                                                const char *purpose,
                                                const std::string &folder) {
    return unavailable(concat("cannot keep ", bytes, " bytes for ", purpose,
                              " in a file in '", folder,
                              "': this device does not reach files"));
  }
  /// What was copied from or to such memory since this was called last, once
  /// the queues are empty.
  virtual Transfers takeTransfers() { return {}; }
  /// Sets bytes to 0.
  virtual Status clear(Queue queue, void *to, int64_t bytes) = 0;
  /// Copies from host memory into the device's.
  virtual Status write(Queue queue, void *to, const void *from,
                       int64_t bytes) = 0;
  /// Copies from the device's memory into the host's.
  virtual Status read(Queue queue, void *to, const void *from,
                      int64_t bytes) = 0;
  /// Where host code finds what lies at an address of the device's memory, once
  /// the queues are empty: for a processor the same address. Null where it
  /// cannot.
  virtual void *hostAddress(void *address) = 0;
  /// The same, inside of call(). Null where host code never can.
  virtual void *addressInCall(void *address) = 0;

  //===--------------------------------------------------------------------===//
  // Computation
  //===--------------------------------------------------------------------===//

  /// Before the first prepare(). InvalidArgument for what this device has not.
  virtual Status configure(const DeviceOptions &options) {
    if (options.flushesSubnormals)
      return invalidArgument("this device has no mode that takes subnormal "
                             "numbers for zero (--flush-subnormals); leave it "
                             "out");
    return options.tf32
               ? invalidArgument("products in TF32 (--tf32) are for GPUs; "
                                 "leave it out, or compile the model with "
                                 "--target cuda")
               : okStatus();
  }

  /// The calling thread gives the device commands from now on. They compute as
  /// configure() said, on threads of OpenMP's that are not the device's alone.
  virtual void beginCommands() {}
  /// No longer: those threads are again as they were before.
  virtual void endCommands() {}
  /// Whether commands worked on subnormal numbers since the last question, as
  /// far as the thread says that gave them.
  virtual bool takeSubnormals() { return false; }

  /// Makes the code and scratch of these commands, everything but operands, so
  /// that nothing is made while they run. Once this was called, a command that
  /// needs more scratch than all workloads together fails with Internal.
  virtual Status prepare(const Workload &workload) = 0;

  /// What tuned products are good for: the GPU and the libraries underneath.
  virtual StatusOr<std::string> tuningMachine() {
    return invalidArgument("products are tuned (--tune) on GPUs; leave it out, "
                           "or compile the model with --target cuda");
  }
  /// Does these products as `tuned` says from now on. For a product without an
  /// entry, or with one unknown to this device, every algorithm is timed and
  /// the fastest added to it. After prepare(), and before operands hold
  /// anything: afterwards they are zero. Nothing is allocated.
  virtual Status tune(std::span<const ProductCall> products,
                      TunedProducts &tuned) {
    return tuningMachine().status();
  }

  /// Writes B of products in the device's own layout, for gemm() with packed_b.
  /// The layout follows from rows and cols; Unavailable where it takes more
  /// than the descriptor's elements. dst is aligned to kBufferAlignment and
  /// does not overlap src.
  virtual Status pack(Queue queue, const optrt_pack_desc &desc,
                      const float *src, float *dst) = 0;

  /// C = op(A) op(B) with the descriptor's bias, accumulation and epilogue.
  /// `bias` and `extra` are read only where the descriptor asks for them.
  /// C overlaps no operand, except that the epilogue's addend may be C itself.
  virtual Status gemm(Queue queue, const optrt_gemm_desc &desc, const void *a,
                      const void *b, void *c, const void *bias,
                      const void *extra) = 0;

  /// Runs a kernel over [0, extent): on a processor split into tasks of at
  /// least `grain` iterations, on a GPU into blocks.
  virtual Status launch(Queue queue, const optrt_launch_desc &desc,
                        const optimus_kernel &kernel, void *const *args) = 0;

  /// Strided copy of a matrix of any elements, or zeros where `src` is null. No
  /// overlap.
  virtual Status copy(Queue queue, const optrt_copy_desc &desc, const void *src,
                      void *dst) = 0;

  /// Lengths outside [1, seq] are taken for the nearest one inside, and
  /// positions outside [0, place in the sequence] too.
  virtual Status attention(Queue queue, const optrt_attention_desc &desc,
                           const AttentionOperands &operands) = 0;

  /// Writes every element of dq, dk and dv.
  virtual Status attentionGrad(Queue queue, const optrt_attention_desc &desc,
                               const AttentionOperands &operands) = 0;

  virtual DeviceEnvironment environment() const { return {}; }

  /// A sentence where programs of a precision, OPTRT_BF16 for instance, take
  /// longer than in f32; otherwise empty.
  virtual std::string slowPrecision(int32_t /*type*/) const { return ""; }

  /// Bytes of a GPU's memory that nobody holds.
  virtual StatusOr<int64_t> freeBytes() const {
    return internal("this device does not know what of its memory is free");
  }

  /// Bytes of the GPU's memory that are gone since its context was made, less
  /// the allocations of this process's devices: code, libraries and recordings
  /// of all ranks there, and of whatever else uses the GPU. 0 of a processor.
  virtual int64_t codeBytes() const { return 0; }

  /// The bytes of scratch of the device now, besides allocations.
  virtual size_t scratchBytes() const = 0;

protected:
  friend class DeviceMemory;
  virtual void release(void *start) = 0;
  const std::string &plannedMemory() const { return planned; }

  /// What allocate() refuses: beyond kMaxBytes sizes could not be rounded up.
  static Status checkSize(int64_t bytes, const char *purpose) {
    using namespace optimus_support;
    return CheckedSize(bytes).isAtMost(kMaxBytes)
               ? okStatus()
               : invalidArgument(concat("cannot allocate ", bytes,
                                        " bytes for ", purpose,
                                        ": expected 0 to ", kMaxBytes));
  }

private:
  std::string planned;
};

inline DeviceMemory::~DeviceMemory() {
  if (start)
    device->release(start);
}

/// What a device plugin exports as `optimus_device_create`: makes the device
/// of a rank with `threads` threads, on the GPU of a number, or returns null
/// and writes why into `error`.
using CreateDeviceFn = Device *(*)(int threads, int gpu, char *error,
                                   std::size_t errorSize);

/// Makes devices of one kind, called by each rank on its own thread.
class DeviceFactory {
public:
  /// Opens the plugin liboptimus_device_NAME.so in `../lib/optimus` beside the
  /// executable, or the file in $OPTIMUS_DEVICE_CPU_LIBRARY or
  /// $OPTIMUS_DEVICE_CUDA_LIBRARY. `name` is "cpu" or "cuda".
  /// Call it before threads are started: it decides how OpenMP's threads wait
  /// for work, unless the environment says so already.
  static StatusOr<DeviceFactory> open(std::string_view name);

  StatusOr<std::unique_ptr<Device>> create(int threads, int gpu = 0) const;
  /// Device::gpus().
  const std::vector<std::string> &gpus() const { return visibleGpus; }
  const DeviceEnvironment &environment() const { return foundEnvironment; }

private:
  explicit DeviceFactory(CreateDeviceFn createDevice)
      : createDevice(createDevice) {}
  CreateDeviceFn createDevice;
  std::vector<std::string> visibleGpus;
  DeviceEnvironment foundEnvironment;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_H
