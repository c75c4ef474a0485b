//===- GradientComparison.h - Whether gradients agree -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_GRADIENTCOMPARISON_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_GRADIENTCOMPARISON_H

#include "optimus-runtime/Manifest.h"

#include <span>
#include <string>
#include <vector>

namespace optimus_run {

/// How far two f32 programs of the same model may differ, relative to the norm
/// of what they compute, by rounding alone.
///
/// A dot product of length K rounds K times. The errors are of either sign, so
/// its relative error is about u sqrt(K), with u = 2^-24, in the norm over many
/// of them (Higham and Mary, "A new approach to probabilistic rounding error
/// analysis", 2019, prove lambda u sqrt(K) with high probability). A gradient
/// has gone through a chain of products, at most three for each matrix of the
/// model (one forward, one backward; a third makes the weight's gradient), each
/// of which passes the error of the ones before on and adds its own.
/// Independent errors add in squares, over n = 3 * matrices products and over
/// both programs: lambda u sqrt(2 n K). The factor lambda = 4 covers the
/// elementwise steps between the products and the probability.
///
/// K is the longest contraction: the tokens of the batch (in a weight's
/// gradient) or the largest extent of a parameter.
double roundingBound(const optrt::Manifest &manifest);

struct TensorComparison {
  std::string name;
  double maxDifference = 0;      ///< of an element
  double relativeDifference = 0; ///< norm of the difference / reference
  double bound = 0;
  bool same = true;
};

struct TensorPair {
  std::string name;
  std::span<const float> a, b; ///< of equal size
};

/// Compares tensor by tensor, in norms. The reference is the tensor's norm, or,
/// where that is larger, a thousandth of the norm of all tensors together: in a
/// gradient that small, what was added up has cancelled, and its rounding
/// errors are in proportion to what was added. A NaN or infinity is a
/// difference.
std::vector<TensorComparison> compareTensors(std::span<const TensorPair> pairs,
                                             double bound);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_GRADIENTCOMPARISON_H
