//===- ComputeCosts.h - What computing takes --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_COMPUTECOSTS_H
#define OPTIMUS_ANALYSIS_COMPUTECOSTS_H

#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Analysis/OperandReuse.h"
#include "optimus/Dialect/Optimus/IR/Work.h"

namespace mlir::optimus {

/// Prices the computations of a rank from measurements: on threads with a core
/// each, or on a GPU.
class ComputeCosts {
public:
  ComputeCosts(ComputeProfile profile, bool isGpu)
      : profile(std::move(profile)), isGpu(isGpu) {}

  const ComputeProfile &getProfile() const { return profile; }

  /// A product of factors of a type, f32 where it is null, whose operands are
  /// in a cache.
  double getGemmSeconds(const Work &product, Type factors) const;

  /// The same, of `bytes` that it reads and writes: a GPU does both at once.
  double getGemmSeconds(const Work &product, Type factors, double bytes) const;

  /// A copy of bytes that no cache has.
  double getCopySeconds(double bytes) const;

  bool isForGpu() const { return isGpu; }

  /// A command that touches `traffic`.
  double getSeconds(exec::CommandOpInterface command,
                    ArrayRef<OperandTraffic> traffic) const;

private:
  const ProductRates &getRates(Type factors) const;
  double getAttentionSeconds(const Work &work,
                             const AttentionRates &rates) const;
  double getPackSeconds(const Work &work,
                        ArrayRef<OperandTraffic> traffic) const;
  double getLaunchSeconds(exec::LaunchOp launch,
                          ArrayRef<OperandTraffic> traffic) const;
  double getEpilogueSeconds(exec::GemmOp gemm) const;
  double getColdSeconds(ArrayRef<OperandTraffic> traffic) const;
  double getTrafficSeconds(ArrayRef<OperandTraffic> traffic) const;
  double getTrafficSeconds(exec::LaunchOp launch,
                           ArrayRef<OperandTraffic> traffic) const;
  double getFetchSeconds(double bytes, double reuseBytes) const;
  double getBytesPerSecond(double reuseBytes) const;

  ComputeProfile profile;
  /// A GPU reads and writes memory while it multiplies, and what products add
  /// is part of them.
  bool isGpu;
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_COMPUTECOSTS_H
