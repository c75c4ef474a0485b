//===- GradientComparison.h - Whether gradients agree -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_GRADIENTCOMPARISON_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_GRADIENTCOMPARISON_H

#include <span>
#include <string>
#include <vector>

namespace optimus_run {

inline constexpr double kUnitRoundoff = 0x1p-24; ///< of f32

/// What one program computed of a tensor.
struct ComputedTensor {
  std::span<const float> values;
  /// The same with all parameters moved by one unit in the last place of the
  /// program's precision.
  std::span<const float> perturbed;
  /// The manifest's: the relative rounding error in units of u = 2^-24, if
  /// every operation handed on relative errors as they are.
  double rounding = 0;
  /// How many parameters were moved.
  int64_t numPerturbed = 1;
  /// The unit roundoff of what was moved: 2^-24 in f32.
  double unit = kUnitRoundoff;
};

struct TensorPair {
  std::string name;
  ComputedTensor a, b; ///< of equal size
};

/// Norms are relative to the larger of the two tensors' norms.
struct TensorComparison {
  std::string name;
  double maxDifference = 0;      ///< of an element
  double relativeDifference = 0; ///< norm of the difference
  double bound = 0;              ///< what rounding explains of it
  /// Relative error of the result for one of an operation: 1, or what was
  /// measured by moving the parameters.
  double amplification = 1;
  bool same = true;

  /// Difference / bound; 0 where there is no difference.
  double ofBound() const;
};

/// Compares tensor by tensor, in norms, with a bound for each:
///
///     lambda u sqrt(Ra^2 + Rb^2) max(|a|, ra / (u' sqrt(P)), same of b)
///
/// R is the compiler's bound on rounding errors, in units of u = 2^-24; r is
/// the norm of the change from moving P parameters by one unit u' of the
/// program's precision; and lambda = 4 (Higham and Mary, "A new approach to
/// probabilistic rounding error analysis", 2019). At most a thousandth of the
/// norm of all tensors together is put down to rounding in f32, and at most a
/// tenth in narrower formats. See docs/equivalence.md. A NaN or infinity is a
/// difference.
std::vector<TensorComparison> compareTensors(std::span<const TensorPair> pairs);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_GRADIENTCOMPARISON_H
