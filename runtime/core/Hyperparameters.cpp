//===- Hyperparameters.cpp - What a run is trained with -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Hyperparameters.h"

#include "optimus-runtime/Status.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numbers>

namespace optrt {

double LearningRate::at(int64_t step, int64_t steps) const {
  if (step < warmup)
    return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (schedule == Schedule::Constant || steps <= warmup)
    return peak;
  double progress = std::min(1.0, static_cast<double>(step - warmup) /
                                      static_cast<double>(steps - warmup));
  double floor = 0.1 * peak;
  return floor +
         0.5 * (1 + std::cos(std::numbers::pi * progress)) * (peak - floor);
}

std::string WholeNumber::expected() const {
  return concat("a whole number from ", least, " to ", most);
}

std::optional<int64_t> WholeNumber::parse(const std::string &text) const {
  int64_t value = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !contains(value))
    return std::nullopt;
  return value;
}

std::string WholeNumber::print(int64_t value) { return std::to_string(value); }

std::string RealNumber::expected() const { return what; }

bool RealNumber::contains(double value) const {
  if (hasNone && value == std::numeric_limits<double>::infinity())
    return true;
  value = static_cast<float>(value);
  return least <= value && value <= most;
}

std::optional<double> RealNumber::parse(const std::string &text) const {
  if (hasNone && text == "none")
    return std::numeric_limits<double>::infinity();
  char *stop = nullptr;
  double value = std::strtod(text.c_str(), &stop);
  // Only its name means infinity.
  if (text.empty() || stop != text.c_str() + text.size() ||
      !std::isfinite(value) || !contains(value))
    return std::nullopt;
  return value;
}

std::string RealNumber::print(double value) {
  if (std::isinf(value))
    return "none";
  char text[32];
  return {text, std::to_chars(text, std::end(text), value).ptr};
}

std::string ScheduleName::expected() const {
  return concat(kNames[0], " or ", kNames[1]);
}

std::optional<LearningRate::Schedule>
ScheduleName::parse(const std::string &text) const {
  auto found = std::find(std::begin(kNames), std::end(kNames), text);
  if (found == std::end(kNames))
    return std::nullopt;
  return static_cast<LearningRate::Schedule>(found - std::begin(kNames));
}

std::string ScheduleName::print(LearningRate::Schedule value) {
  return kNames[static_cast<int>(value)];
}

std::string HyperparameterInfo::flag() const {
  std::string text = std::string("--") + name;
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

std::vector<std::pair<HyperparameterInfo, std::string>>
listHyperparameters(const Hyperparameters &hyperparameters) {
  std::vector<std::pair<HyperparameterInfo, std::string>> list;
  forEachHyperparameter(
      [&](const HyperparameterInfo &info, const auto &values,
          const auto &field) { list.emplace_back(info, values.print(field)); },
      hyperparameters);
  return list;
}

} // namespace optrt
