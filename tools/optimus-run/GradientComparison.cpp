//===- GradientComparison.cpp - Whether gradients agree -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GradientComparison.h"

#include <algorithm>
#include <cmath>

namespace optimus_run {

namespace {

/// Each operation's error exceeds lambda times its expected one with a
/// probability of 2 exp(-lambda^2 / 2), 0.07 %; all of them together never do.
constexpr double kLambda = 4;
/// A program that loses more of its whole gradient than this is unstable,
/// whoever is to blame: in f32, and in a narrower format.
constexpr double kMostLost = 1e-3, kMostLostNarrow = 0.1;

double norm(std::span<const float> values) {
  double sum = 0;
  for (float value : values)
    sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

double normOfDifference(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i != a.size(); ++i) {
    double difference = static_cast<double>(a[i]) - b[i];
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

/// What a relative error of an operation is relative to: the tensor, or, where
/// terms cancel or errors grow on their way, more.
double errorScale(const ComputedTensor &tensor) {
  double response = normOfDifference(tensor.values, tensor.perturbed);
  double perOperation =
      response /
      (tensor.unit * std::sqrt(static_cast<double>(
                         std::max<int64_t>(1, tensor.numPerturbed))));
  return std::max(norm(tensor.values), perOperation);
}

double wholeNorm(std::span<const TensorPair> pairs,
                 ComputedTensor TensorPair::*side) {
  double squared = 0;
  for (const TensorPair &pair : pairs)
    squared += std::pow(norm((pair.*side).values), 2);
  return std::sqrt(squared);
}

} // namespace

double TensorComparison::ofBound() const {
  return relativeDifference == 0 ? 0 : relativeDifference / bound;
}

std::vector<TensorComparison>
compareTensors(std::span<const TensorPair> pairs) {
  const bool isNarrow = std::any_of(
      pairs.begin(), pairs.end(), [](const TensorPair &pair) {
        return std::max(pair.a.unit, pair.b.unit) > kUnitRoundoff;
      });
  const double most = (isNarrow ? kMostLostNarrow : kMostLost) *
                      std::min(wholeNorm(pairs, &TensorPair::a),
                               wholeNorm(pairs, &TensorPair::b));
  std::vector<TensorComparison> results;
  for (const TensorPair &pair : pairs) {
    TensorComparison result;
    result.name = pair.name;
    for (std::size_t i = 0; i != pair.a.values.size(); ++i) {
      double difference =
          std::abs(static_cast<double>(pair.a.values[i]) - pair.b.values[i]);
      // Written so that a NaN stays.
      if (!(difference <= result.maxDifference))
        result.maxDifference = difference;
    }
    double reference = std::max(norm(pair.a.values), norm(pair.b.values));
    double scale = std::max(errorScale(pair.a), errorScale(pair.b));
    double bound =
        std::min(most, kLambda * kUnitRoundoff * scale *
                           std::hypot(pair.a.rounding, pair.b.rounding));
    double difference = normOfDifference(pair.a.values, pair.b.values);
    // Both are zero where there is nothing to relate to.
    if (reference != 0) {
      result.relativeDifference = difference / reference;
      result.bound = bound / reference;
      result.amplification = scale / reference;
    }
    // The bound of a NaN is one too, or 0.
    result.same = difference <= bound;
    results.push_back(std::move(result));
  }
  return results;
}

} // namespace optimus_run
