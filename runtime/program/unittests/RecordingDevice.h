//===- RecordingDevice.h - A device that notes its calls --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROGRAM_UNITTESTS_RECORDINGDEVICE_H
#define OPTIMUS_RUNTIME_PROGRAM_UNITTESTS_RECORDINGDEVICE_H

#include "optimus-runtime/Device.h"

#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

/// Runs kernels and host code at once, notes everything else, and fails where
/// it is told to.
class RecordingDevice final : public optrt::Device {
public:
  using Queue = optrt::Queue;
  using Event = optrt::Event;
  using Status = optrt::Status;

  /// "gemm 2x3x4 on 0", "norm [0, 8) on 0", "await 1 on 2".
  std::vector<std::string> calls;
  /// The outcome of calls that begin so; all others are fine.
  std::string failsAt;
  Status failure = optrt::invalidArgument("broken");
  std::vector<std::string> queues{"compute"};
  /// Whether the host cannot address its memory.
  bool isHidden = false;
  bool records = false;
  /// Where the other ranks of a collective are not there.
  bool skipsHostCode = false;
  /// For a device with late failures.
  std::string advice;
  /// What its clock says, one look after the other; without any, the host's.
  std::deque<int64_t> clock;

  Queue queue(std::string_view name) override {
    for (uint32_t i = 0; i != queues.size(); ++i)
      if (queues[i] == name)
        return {i};
    queues.emplace_back(name);
    return {uint32_t(queues.size() - 1)};
  }
  Event record(Queue queue) override {
    (void)note("record", queue);
    return {++numEvents};
  }
  Status await(Queue queue, Event event) override {
    return note(optrt::concat("await ", event.number), queue);
  }
  Status synchronize() override { return optrt::okStatus(); }
  std::string adviceOnLateFailure() const override { return advice; }
  Status call(Queue queue, std::function<Status()> work) override {
    OPTRT_RETURN_IF_ERROR(note("call", queue));
    return skipsHostCode ? optrt::okStatus() : work();
  }

  Status timestamp(Queue queue, int64_t &time) override {
    if (clock.empty())
      return Device::timestamp(queue, time);
    time = clock.front();
    clock.pop_front();
    return optrt::okStatus();
  }

  bool canRecord() const override { return records; }
  Status beginRecording() override {
    return note("begin recording", optrt::kCompute);
  }
  optrt::StatusOr<uint32_t> endRecording() override {
    OPTRT_RETURN_IF_ERROR(note("end recording", optrt::kCompute));
    return 7;
  }
  Status replay(uint32_t recording) override {
    return note(optrt::concat("replay ", recording), optrt::kCompute);
  }

  optrt::StatusOr<optrt::DeviceMemory> allocate(int64_t bytes,
                                                const char *) override {
    return optrt::DeviceMemory(*this, std::malloc(bytes), bytes);
  }
  Status clear(Queue queue, void *, int64_t) override {
    return note("clear", queue);
  }
  Status write(Queue queue, void *, const void *, int64_t) override {
    return note("write", queue);
  }
  Status read(Queue queue, void *, const void *, int64_t) override {
    return note("read", queue);
  }
  void *hostAddress(void *address) override {
    return isHidden ? nullptr : address;
  }
  void *addressInCall(void *address) override { return address; }

  Status prepare(const optrt::Workload &) override { return optrt::okStatus(); }
  Status pack(Queue queue, const optrt_pack_desc &desc, const float *,
              float *) override {
    return note(optrt::concat("pack ", desc.rows, "x", desc.cols, " of ld ",
                              desc.ld, desc.trans ? " transposed" : "",
                              " into ", desc.elements),
                queue);
  }
  Status gemm(Queue queue, const optrt_gemm_desc &desc, const void *,
              const void *, void *, const void *, const void *) override {
    return note(optrt::concat("gemm ", desc.m, "x", desc.n, "x", desc.k,
                              desc.packed_b ? " packed" : ""),
                queue);
  }
  Status launch(Queue queue, const optrt_launch_desc &desc,
                const optimus_kernel &kernel, void *const *args) override {
    OPTRT_RETURN_IF_ERROR(
        note(optrt::concat(desc.name, " [0, ", desc.extent, ")"), queue));
    if (kernel.run)
      kernel.run(0, desc.extent, args);
    return optrt::okStatus();
  }
  Status copy(Queue queue, const optrt_copy_desc &desc, const void *src,
              void *) override {
    return note(
        optrt::concat(src ? "copy " : "zeros ", desc.rows, "x", desc.cols),
        queue);
  }
  Status attention(Queue queue, const optrt_attention_desc &,
                   const optrt::AttentionOperands &) override {
    return note("attention", queue);
  }
  Status attentionGrad(Queue queue, const optrt_attention_desc &,
                       const optrt::AttentionOperands &) override {
    return note("attention_grad", queue);
  }
  size_t scratchBytes() const override { return 0; }

protected:
  void release(void *start) override { std::free(start); }

private:
  Status note(const std::string &what, Queue queue) {
    calls.push_back(optrt::concat(what, " on ", queue.number));
    return !failsAt.empty() && what.starts_with(failsAt) ? failure
                                                         : optrt::okStatus();
  }

  uint64_t numEvents = 0;
};

#endif // OPTIMUS_RUNTIME_PROGRAM_UNITTESTS_RECORDINGDEVICE_H
