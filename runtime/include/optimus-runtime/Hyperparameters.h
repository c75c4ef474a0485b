//===- Hyperparameters.h - What a run is trained with -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every hyperparameter is listed once, with its name, what it means and the
// values it may have: by forEachHyperparameter(). The command line, state.json
// and the comparison of ranks go by that list.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_HYPERPARAMETERS_H
#define OPTIMUS_RUNTIME_HYPERPARAMETERS_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace optrt {

/// Far from where steps times the batch's tokens overflow.
inline constexpr int64_t kMostSteps = 1'000'000'000'000;

struct LearningRate {
  enum class Schedule { Constant, Cosine, Linear, Wsd, InverseSqrt };

  double peak = 1e-3;
  Schedule schedule = Schedule::Constant;
  int64_t warmup = 0;
  /// What the rate falls to; infinite: a tenth of the peak, or with InverseSqrt
  /// 0.
  double minimum = std::numeric_limits<double>::infinity();
  int64_t decaySteps = 0; ///< in which it falls; 0: the schedule's own number

  /// The rate of step `step` (from 1) of a run of `steps`. It rises linearly
  /// over the warm-up's steps, so that step `warmup` has the peak. Then
  ///
  ///     Constant     it stays
  ///     Cosine       it falls along half a cosine to the minimum, in
  ///                  decaySteps or until the last step
  ///     Linear       it falls so along a line
  ///     Wsd          it stays, and falls along a line to the minimum in the
  ///                  last decaySteps, or the last tenth of the run
  ///     InverseSqrt  it is peak · √(warmup / step), at least the minimum, and
  ///                  in the last decaySteps falls from there along a line
  ///
  /// Wsd (warm-up, stable, decay) is that of MiniCPM, arXiv 2404.06395, section
  /// 4; InverseSqrt that of T5, with the decay of «Scaling Vision
  /// Transformers», arXiv 2106.04560, section 3.4.
  double at(int64_t step, int64_t steps) const;

  bool operator==(const LearningRate &) const = default;

private:
  double lowest() const;
  double withoutDecay(int64_t step) const;
};

struct Hyperparameters {
  int64_t steps = 100; ///< the number of the last one
  LearningRate rate;
  double weightDecay = 0.1;
  double clip = 1.0; ///< infinite: none
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.9;
  /// The global batch is this many times the library's.
  int64_t microbatches = 1;

  bool operator==(const Hyperparameters &) const = default;
};

/// The values that a hyperparameter may have. expected() says so in words;
/// parse() has nothing for a text that means none of them.
struct WholeNumber {
  int64_t least, most;

  std::string expected() const;
  bool contains(int64_t value) const { return least <= value && value <= most; }
  std::optional<int64_t> parse(const std::string &text) const;
  static std::string print(int64_t value);
};

/// In f32, in which the runtime computes.
struct RealNumber {
  const char *what;
  double least, most;
  bool hasNone = false; ///< "none" stands for infinity

  std::string expected() const;
  bool contains(double value) const;
  std::optional<double> parse(const std::string &text) const;
  /// So that reading it gives the same number.
  static std::string print(double value);
};

struct ScheduleName {
  static constexpr const char *kNames[] = {"constant", "cosine", "linear",
                                           "wsd", "inverse-sqrt"};

  std::string expected() const;
  static std::vector<std::string> names() {
    return {std::begin(kNames), std::end(kNames)};
  }
  std::optional<LearningRate::Schedule> parse(const std::string &text) const;
  static std::string print(LearningRate::Schedule value);
};

struct HyperparameterInfo {
  const char *name; ///< in state.json; as an option with "-" for "_"
  const char *help;

  std::string flag() const;
};

/// Calls visit(info, values, field of each of `h`) for every hyperparameter.
template <typename Visit, typename... H>
void forEachHyperparameter(const Visit &visit, H &...h) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  constexpr double kSmallest = std::numeric_limits<float>::min();
  constexpr RealNumber rate{"a number of at least 0", 0, kLargest};
  constexpr RealNumber positive{"a number above 0", kSmallest, kLargest};
  // The bias correction divides by one minus a power of beta.
  constexpr RealNumber beta{"a number of at least 0 and below 1", 0,
                            1 - 0x1p-24};
  constexpr RealNumber clip{"none or a number above 0", kSmallest, kLargest,
                            /*hasNone=*/true};
  constexpr RealNumber lowestRate{"none or a number of at least 0", 0, kLargest,
                                  /*hasNone=*/true};
  auto one = [&](const char *name, const char *help, const auto &values,
                 auto &...fields) {
    visit(HyperparameterInfo{name, help}, values, fields...);
  };
  one("steps", "Number of the last step, after --load too; 0 trains nothing",
      WholeNumber{0, kMostSteps}, h.steps...);
  one("lr", "Learning rate", rate, h.rate.peak...);
  one("schedule",
      "Learning rate after the warm-up: constant; cosine or linear: down to "
      "--min-lr; wsd: constant, then linear over the last tenth; "
      "inverse-sqrt: by the square root of warm-up over step",
      ScheduleName(), h.rate.schedule...);
  one("warmup", "Steps over which the learning rate rises from 0",
      WholeNumber{0, kMostSteps}, h.rate.warmup...);
  one("min_lr",
      "What the learning rate falls to; none: a tenth of --lr, with "
      "inverse-sqrt 0",
      lowestRate, h.rate.minimum...);
  one("decay_steps",
      "Steps in which the learning rate falls: after the warm-up, or with wsd "
      "and inverse-sqrt the last ones; 0: the schedule's own",
      WholeNumber{0, kMostSteps}, h.rate.decaySteps...);
  one("weight_decay", "Weight decay of matrices and embeddings", rate,
      h.weightDecay...);
  one("clip", "Largest norm of the gradient; none: whatever it is", clip,
      h.clip...);
  one("beta1", "First beta of AdamW, LAMB and Lion", beta, h.beta1...);
  one("beta2", "Second beta of AdamW, LAMB and Lion", beta, h.beta2...);
  one("epsilon", "Epsilon of AdamW, LAMB and Adagrad", positive, h.epsilon...);
  one("momentum", "SGD's momentum", beta, h.momentum...);
  one("microbatches",
      "Batches whose gradients a step adds up; more than 1 needs a library "
      "compiled with --accumulate",
      WholeNumber{1, int64_t(1) << 20}, h.microbatches...);
}

/// InvalidArgument for values that do not go together: a lowest learning rate
/// above --lr.
Status checkHyperparameters(const Hyperparameters &hyperparameters);

/// Name and value of each, for instance {"lr", "0.001"}.
std::vector<std::pair<HyperparameterInfo, std::string>>
listHyperparameters(const Hyperparameters &hyperparameters);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_HYPERPARAMETERS_H
