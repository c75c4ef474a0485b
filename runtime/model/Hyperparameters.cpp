//===- Hyperparameters.cpp - What a run is trained with -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Hyperparameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numbers>

namespace optrt {

namespace {

/// From `high` at step `first` down to `low` at step `last`, and on.
struct Fall {
  int64_t first, last;
  double high, low;

  double progress(int64_t step) const {
    return std::min(1.0, static_cast<double>(step - first) /
                             static_cast<double>(last - first));
  }
  double cosine(int64_t step) const {
    return low + 0.5 * (1 + std::cos(std::numbers::pi * progress(step))) *
                     (high - low);
  }
  double line(int64_t step) const {
    return low + (1 - progress(step)) * (high - low);
  }
};

} // namespace

double LearningRate::lowest() const {
  if (!std::isinf(minimum))
    return minimum;
  return schedule == Schedule::InverseSqrt ? 0.0 : 0.1 * peak;
}

/// After the warm-up.
double LearningRate::withoutDecay(int64_t step) const {
  if (schedule != Schedule::InverseSqrt)
    return peak;
  // Without a warm-up the first step has the peak.
  double first = static_cast<double>(std::max<int64_t>(warmup, 1));
  return std::max(lowest(),
                  peak * std::sqrt(first / static_cast<double>(step)));
}

double LearningRate::at(int64_t step, int64_t steps) const {
  if (step < warmup)
    return peak * static_cast<double>(step) / static_cast<double>(warmup);
  const bool isAtTheEnd =
      schedule == Schedule::Wsd || schedule == Schedule::InverseSqrt;
  int64_t length = decaySteps;
  if (length == 0 && schedule == Schedule::Wsd)
    length = (steps + 9) / 10;
  int64_t first = warmup;
  int64_t last = steps;
  if (isAtTheEnd)
    first = std::max(warmup, steps - length);
  else if (length > 0)
    last = warmup + length;
  if (schedule == Schedule::Constant || last <= first || step < first)
    return withoutDecay(step);
  const Fall fall{first, last, withoutDecay(first), lowest()};
  return schedule == Schedule::Cosine ? fall.cosine(step) : fall.line(step);
}

Status checkHyperparameters(const Hyperparameters &hyperparameters) {
  const LearningRate &rate = hyperparameters.rate;
  if (std::isinf(rate.minimum) || rate.minimum <= rate.peak)
    return okStatus();
  return invalidArgument(concat("min-lr: expected at most lr, which is ",
                                RealNumber::print(rate.peak), ", found ",
                                RealNumber::print(rate.minimum)));
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
  std::string text;
  for (const char *const &name : kNames)
    text += concat(&name == kNames                 ? ""
                   : &name + 1 == std::end(kNames) ? " or "
                                                   : ", ",
                   name);
  return text;
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
