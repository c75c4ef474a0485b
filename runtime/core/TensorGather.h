//===- TensorGather.h - Whole tensors, a slab at a time ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CORE_TENSORGATHER_H
#define OPTIMUS_RUNTIME_CORE_TENSORGATHER_H

#include "optimus-runtime/ControlPlane.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/Shard.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace optrt {

/// Hands tensors that lie in shards to the root process, from their first
/// element to their last. Neither the root nor anyone else holds more of a
/// tensor than its own shards and two slabs.
class TensorGather {
public:
  /// Both must outlive it.
  TensorGather(ControlPlane &control, const optimus_support::Mesh &mesh)
      : control(control), mesh(mesh) {}

  /// `read` gives elements of the shard of a rank of this process, counted from
  /// 0, where they stay until it is called again for that rank, with ascending
  /// offsets. In the root process `take` is called for the tensor's elements,
  /// slab after slab. Collective.
  using Read =
      std::function<const float *(int localRank, int64_t begin, int64_t count)>;
  using Take = std::function<void(std::span<const float> slab)>;
  Status gather(const optimus_support::ShardLayout &layout, const Read &read,
                const Take &take);

private:
  ControlPlane &control;
  const optimus_support::Mesh &mesh;
  std::vector<float> slab, message;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORE_TENSORGATHER_H
