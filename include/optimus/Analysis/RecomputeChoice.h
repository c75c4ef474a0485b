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

#ifndef OPTIMUS_ANALYSIS_RECOMPUTECHOICE_H
#define OPTIMUS_ANALYSIS_RECOMPUTECHOICE_H

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
    /// Results that may lie where an operand does that ends here, with it.
    std::vector<std::pair<unsigned, unsigned>> places;
    /// Whether it may run again; only operations of the forward do.
    bool isRepeatable = false;
    /// Bytes that are alive while it runs beside those of `bytes`.
    int64_t others = 0;
  };

  std::vector<Op> ops;
  /// The operations before the one that makes the loss.
  unsigned numForward = 0;
  /// The bytes of each value; 0 for what lies outside of what is counted.
  std::vector<int64_t> bytes;
};

/// The values that are recomputed.
using RepeatedValues = std::vector<bool>;

struct RecomputeCost {
  int64_t peakBytes = 0;
  /// What runs again.
  double seconds = 0;
};

/// What a program needs when these values are recomputed.
RecomputeCost getCost(const RecomputeProgram &program,
                      const RepeatedValues &repeated);

/// Recomputes more than `start` until no more than `budget` bytes are alive at
/// once: again and again what saves the most bytes at the peak for its time, on
/// its own or with what it is made from. Then keeps what need not be
/// recomputed, what takes longest first. Nothing where that finds no way.
std::optional<RepeatedValues> chooseRepeated(const RecomputeProgram &program,
                                             int64_t budget,
                                             RepeatedValues start);

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_RECOMPUTECHOICE_H
