//===- ComputePrices.h - What computing takes -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_COMPUTEPRICES_H
#define OPTIMUS_PRICES_COMPUTEPRICES_H

#include "optimus/Prices/CommandWork.h"
#include "optimus/Prices/MachineProfile.h"

#include <memory>
#include <span>

namespace optimus_prices {

/// Prices the computations of a rank, in seconds, from measurements: on threads
/// with a core each, or on a GPU.
class ComputePrices {
public:
  /// Kernels of one task are priced by one thread's measurements, if there are
  /// any.
  ComputePrices(ComputeProfile profile, bool isGpu,
                std::shared_ptr<const ComputePrices> ofOneThread = nullptr)
      : profile(std::move(profile)), isGpu(isGpu),
        ofOneThread(std::move(ofOneThread)) {}

  const ComputeProfile &getProfile() const { return profile; }
  bool isForGpu() const { return isGpu; }
  /// Whether it counts which operands of a kernel are read along columns.
  bool knowsColumns() const { return !profile.columns.empty(); }

  /// A product whose operands are in a cache.
  double getGemmSeconds(const Work &product,
                        optimus_support::ElementType factors) const;

  /// The same, of `bytes` that it reads and writes: a GPU does both at once.
  double getGemmSeconds(const Work &product,
                        optimus_support::ElementType factors,
                        double bytes) const;

  /// The rate of a large product of such factors.
  double getPeak(optimus_support::ElementType factors) const {
    return getRates(factors).flopsPerSecond;
  }

  /// A copy of bytes that no cache has.
  double getCopySeconds(double bytes) const;

  double getSeconds(const CommandWork &command,
                    std::span<const Touch> touches) const;

  /// Whether a product, attention or packing of just this shape was timed.
  bool hasPoint(const CommandWork &command) const;

  /// How much longer operands are fetched than if each had been used
  /// `nearBytes` ago.
  double getFarSeconds(std::span<const Touch> touches, double nearBytes) const;

private:
  const ProductRates &getRates(optimus_support::ElementType factors) const;
  double getAttentionSeconds(const Work &work,
                             const AttentionRates &rates) const;
  double getPackSeconds(const Work &work, std::span<const Touch> touches) const;
  double getKernelSeconds(const CommandWork &command,
                          std::span<const Touch> touches) const;
  double getEpilogueSeconds(const CommandWork &command) const;
  double getColdSeconds(optimus_support::ElementType factors,
                        std::span<const Touch> touches) const;
  double getTrafficSeconds(std::span<const Touch> touches) const;
  double getKernelTrafficSeconds(std::span<const Touch> touches) const;
  double getFetchSeconds(double bytes, double reuseBytes) const;
  double getBytesPerSecond(double reuseBytes) const;

  ComputeProfile profile;
  /// A GPU reads and writes memory while it multiplies, and what products add
  /// is part of them.
  bool isGpu;
  std::shared_ptr<const ComputePrices> ofOneThread;
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_COMPUTEPRICES_H
