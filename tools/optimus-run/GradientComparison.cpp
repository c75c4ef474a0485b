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
#include <limits>

namespace optimus_run {

double roundingBound(const optrt::Manifest &manifest) {
  constexpr double kUnitRoundoff = 0x1p-24;
  constexpr double kLambda = 4;
  int64_t longest = manifest.batch * manifest.sequence;
  int64_t matrices = 1;
  for (const optrt::Param &param : manifest.params) {
    // The Hugging Face shape has heads and their dimensions in one.
    for (int64_t extent : param.hfShape)
      longest = std::max(longest, extent);
    matrices += param.hfShape.size() >= 2;
  }
  double products = 3 * static_cast<double>(matrices);
  return kLambda * kUnitRoundoff *
         std::sqrt(2 * products * static_cast<double>(longest));
}

namespace {

double norm(std::span<const float> values) {
  double sum = 0;
  for (float value : values)
    sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

} // namespace

std::vector<TensorComparison> compareTensors(std::span<const TensorPair> pairs,
                                             double bound) {
  double allSquared = 0;
  for (const TensorPair &pair : pairs)
    allSquared += std::pow(norm(pair.a), 2);
  double smallest = 1e-3 * std::sqrt(allSquared);

  std::vector<TensorComparison> results;
  for (const TensorPair &pair : pairs) {
    TensorComparison result;
    result.name = pair.name;
    result.bound = bound;
    double squared = 0;
    for (std::size_t i = 0; i != pair.a.size(); ++i) {
      double difference = std::abs(static_cast<double>(pair.a[i]) - pair.b[i]);
      squared += difference * difference;
      // Written so that a NaN stays.
      if (!(difference <= result.maxDifference))
        result.maxDifference = difference;
    }
    double reference = std::max(norm(pair.a), smallest);
    result.relativeDifference =
        squared == 0 ? 0 : std::sqrt(squared) / reference;
    result.same = result.relativeDifference <= bound;
    results.push_back(std::move(result));
  }
  return results;
}

} // namespace optimus_run
