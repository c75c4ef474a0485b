//===- Room.h - Room for kernels of a fake NCCL -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GPU holds so many blocks at a time, and a collective's kernel keeps its own
// until all members have come. One that finds no room waits, and where two GPUs
// hold kernels of different communicators, for ever. NCCL's way out, as
// ncclLaunchPrepare() of 2.30.7 (src/enqueue.cc) has it: with
// NCCL_LAUNCH_ORDER_IMPLICIT=1 kernels of a GPU begin in the order of the
// host's calls, in each graph and outside of graphs.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_NCCL_FAKE_ROOM_H
#define OPTIMUS_RUNTIME_CCL_NCCL_FAKE_ROOM_H

#include "FakeGpu.h"

#include <cstdint>
#include <memory>

namespace optrt::nccl::fake {

/// The place of one kernel among those of its GPU. All but the constructor is
/// called in turns of the fake GPU.
class Place {
public:
  /// Behind what was put on this GPU before, by the same capture if any.
  Place(int gpu, cuda::Stream stream);
  ~Place() { leave(); }
  Place(const Place &) = delete;
  Place &operator=(const Place &) = delete;

  bool isFree() const;
  void take();
  void leave();

private:
  /// How often a kernel has begun.
  using Begun = std::shared_ptr<uint64_t>;

  const int gpu;
  const Begun begun = std::make_shared<uint64_t>(0);
  std::weak_ptr<uint64_t> before; ///< of the kernel before
  bool isTaken = false;
};

} // namespace optrt::nccl::fake

#endif // OPTIMUS_RUNTIME_CCL_NCCL_FAKE_ROOM_H
