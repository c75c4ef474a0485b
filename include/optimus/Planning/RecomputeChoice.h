//===- RecomputeChoice.h - What to recompute within a budget ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program as a chooser of what to recompute sees it: operations in order, the
// bytes of their values, and what each takes. It knows no IR.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PLANNING_RECOMPUTECHOICE_H
#define OPTIMUS_PLANNING_RECOMPUTECHOICE_H

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace mlir::optimus {

/// A forward, the operation that makes the loss, and a backward.
struct RecomputeProgram {
  struct Op {
    double seconds = 0;
    /// Values, by number.
    std::vector<unsigned> operands, results;
    /// Pairs of a result and an operand: the result may take the place of the
    /// operand if the operand's live range ends here.
    std::vector<std::pair<unsigned, unsigned>> places;
    /// Whether it may run again; only operations of the forward do.
    bool isRepeatable = false;
    /// Bytes that are alive while it runs beside those of `bytes`.
    int64_t others = 0;
    /// Operations with one number, those of equal layers, are kept together as
    /// far as they fit. Without a number one stands alone.
    std::optional<unsigned> kind = {};
  };

  std::vector<Op> ops;
  /// The operations before the one that makes the loss.
  unsigned numForward = 0;
  /// The bytes of each value; 0 outside of the counted memory.
  std::vector<int64_t> bytes;
  /// Values that statistics of rows are; they are not worth a choice. May be
  /// shorter: the others are none.
  std::vector<bool> statistics = {};
  /// Values that the forward makes, and again whatever runs again and needs
  /// them, as gathered parameters. May be shorter, too.
  std::vector<bool> refetched = {};
  /// How many bytes a second values can be stored elsewhere and fetched again;
  /// 0 where they cannot.
  double storeRate = 0, fetchRate = 0;
  /// What a copy takes however small it is.
  double copySeconds = 0;

  bool canOffload() const { return storeRate > 0 && fetchRate > 0; }
};

/// A flag for each value.
using RepeatedValues = std::vector<bool>;

/// The recomputed values, and the offloaded ones, which lie elsewhere from
/// their last use of the forward to their first one of the backward; none is
/// both.
struct ValueChoice {
  RepeatedValues repeated;
  /// May be shorter: the others are not.
  RepeatedValues offloaded = {};
};

struct RecomputeCost {
  int64_t peakBytes = 0;
  /// The time of the recomputation, plus the excess of the forward's stores,
  /// and of the backward's fetches, over the computation meanwhile.
  double seconds = 0;
};

/// What a program needs by a choice.
RecomputeCost getCost(const RecomputeProgram &program, ValueChoice choice);

/// Recomputes and offloads more than `start` until no more than `budget` bytes
/// are alive at once: step by step, the value that saves the most bytes at the
/// peak for its time, on its own or recomputed together with the values it is
/// made from. Then keeps the values for which recomputation or offloading turns
/// out needless, longest first. Nothing where that finds no way.
std::optional<ValueChoice> chooseValues(const RecomputeProgram &program,
                                        int64_t budget, ValueChoice start);

/// The same without a budget, as far as it goes: what has the lowest peak.
ValueChoice chooseLeast(const RecomputeProgram &program, ValueChoice start);

} // namespace mlir::optimus

#endif // OPTIMUS_PLANNING_RECOMPUTECHOICE_H
