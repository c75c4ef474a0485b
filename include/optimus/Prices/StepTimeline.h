//===- StepTimeline.h - When a rank computes and waits ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_STEPTIMELINE_H
#define OPTIMUS_PRICES_STEPTIMELINE_H

#include "optimus/Prices/CollectivePrices.h"

#include <span>
#include <unordered_map>

namespace optimus_prices {

/// What a rank waits for, of one kind of collective on one mesh axis.
struct ExposedCollectives {
  std::string_view axis;
  CollectiveKind kind;
  /// How many are waited for, and for how long all of them.
  int64_t count = 0;
  double seconds = 0;
  /// Of these seconds, what passes because the axis still carries earlier ones,
  /// and because nothing is computed between start and wait. For the rest, what
  /// is computed there is too short.
  double queuedSeconds = 0, idleSeconds = 0;
};

/// Collectives that a call starts and a later one waits for.
struct CarriedCollectives {
  int64_t count = 0;
  /// All of them, one after the other.
  double seconds = 0;
  /// Until when they go on behind the end of the call.
  double afterSeconds = 0;
  /// What the call waits for those of earlier ones.
  double exposedSeconds = 0;
};

/// One call of a function on one rank.
struct StepPrediction {
  /// What the rank computes.
  double computeSeconds = 0;
  /// All collectives, one after the other.
  double commSeconds = 0;
  /// What it spends waiting for collectives: at most the above.
  double exposedSeconds = 0;
  /// The same by axis and kind, what takes longest first.
  std::vector<ExposedCollectives> exposed;
  /// Part of both.
  CarriedCollectives carried;
  /// The computing commands by kind ("gemm"), longest first.
  std::vector<std::pair<std::string_view, double>> parts;

  double getSeconds() const { return computeSeconds + exposedSeconds; }
};

/// The commands of one rank in their order, among ranks that do the same at the
/// same time: a link carries one collective after the other while the rank
/// computes. Names must outlive the prediction.
class StepTimeline {
public:
  /// A command of a kind, which nothing goes on beside but collectives.
  void compute(double seconds, std::string_view kind);
  /// Starts collective `id`, which goes over a link.
  void start(uint64_t id, std::string_view axis, CollectiveKind kind,
             double seconds, std::string_view link);
  /// Until collective `id` has ended.
  void wait(uint64_t id);
  /// Starts one that a later call waits for, by a number.
  void carry(uint32_t number, std::string_view axis, CollectiveKind kind,
             double seconds, std::string_view link);
  /// Until that one has ended, if it is under way.
  void waitCarried(uint32_t number);

  /// Ends the call. The next one begins at once, with what is under way.
  StepPrediction endCall();

private:
  /// A collective under way.
  struct Transfer {
    std::string_view axis;
    CollectiveKind kind;
    double queued, finish;
    /// What had been computed when it was started.
    double computed;
  };

  Transfer send(std::string_view axis, CollectiveKind kind, double seconds,
                std::string_view link);
  /// Returns for how long.
  double waitFor(const Transfer &transfer);

  double now = 0, computed = 0;
  std::unordered_map<std::string_view, double> linkFree;
  std::unordered_map<uint64_t, Transfer> transfers;
  std::unordered_map<uint32_t, Transfer> carried;
  StepPrediction result;
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_STEPTIMELINE_H
