//===- CollectiveMover.h - Collectives that are timed ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_COLLECTIVEMOVER_H
#define OPTIMUS_RUNTIME_MEASURE_COLLECTIVEMOVER_H

#include "optimus-runtime/Device.h"
#include "optimus-runtime/World.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace optrt {

/// A rank's collectives, one at a time, between memory of what it computes on.
/// Operands are f32 and one row; those of a call lie on the host.
class CollectiveMover {
public:
  virtual ~CollectiveMover() = default;

  virtual Status run(const optrt_collective_desc &desc, const float *src,
                     float *dst) = 0;
  /// The seconds of one, of these operands or, on a GPU, of its memory.
  virtual StatusOr<double> time(const optrt_collective_desc &desc,
                                const float *src, float *dst) = 0;
};

/// Makes those of a kind of device.
class Movers {
public:
  /// "cuda", or else a processor.
  static StatusOr<Movers> open(const std::string &device);

  /// What the GPU says of itself; empty of a processor.
  const std::string &gpu() const { return properties; }
  /// Before they are made: all ranks share a GPU, or each has its own.
  /// Collective; the outcome is the same in every process.
  Status chooseGpus(ControlPlane &control, bool hasEachItsOwn);
  /// For tensors of up to so many bytes, on the thread of this process's
  /// `index`th rank. All end at the same time.
  StatusOr<std::unique_ptr<CollectiveMover>>
  create(World &world, int index, int64_t maxBytes,
         double timeoutSeconds) const;

private:
  std::optional<DeviceFactory> factory;
  std::string properties;
  std::vector<int> gpus; ///< of each rank of this process
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_COLLECTIVEMOVER_H
