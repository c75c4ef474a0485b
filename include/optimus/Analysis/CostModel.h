//===- CostModel.h - What a device program costs ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Predicts times from a machine profile. A rank computes one command after the
// other and each mesh axis carries one collective after the other, in the order
// in which they are started; see docs/cost-model.md.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_COSTMODEL_H
#define OPTIMUS_ANALYSIS_COSTMODEL_H

#include "optimus/Analysis/CommandWork.h"
#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Analysis/MeasuredCosts.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Prices/MachinePrices.h"
#include "optimus/Prices/StepTimeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

using optimus_prices::ExposedCollectives;
using optimus_prices::RankGroup;
using optimus_prices::StepPrediction;

/// Those that differ in their coordinate on an axis only.
RankGroup getRankGroup(MeshOp mesh, StringRef axis);

/// Prices what passes ask about: programs of commands, and parts of them that
/// are still to be made. For one thread.
class CostModel {
public:
  /// Prices programs for a mesh of `numRanks` ranks. What was `measured` of a
  /// command, if anything, is its price; the other commands follow the links
  /// and the rate of products found in that run.
  CostModel(MachineProfile profile, int64_t numRanks,
            std::shared_ptr<const MeasuredCosts> measured = nullptr);

  /// The measured time of a command, waits excepted.
  std::optional<double> getMeasured(exec::CommandOpInterface command) const {
    return measured ? measured->getSeconds(command) : std::nullopt;
  }

  /// A product C[m,n] = op(A)[m,k]·op(B)[k,n] of factors of a type, f32 where
  /// none is given, which reads and writes `bytes`.
  double getGemmSeconds(int64_t m, int64_t n, int64_t k, bool transA,
                        bool transB, Type factors = {}, double bytes = 0) const;

  /// A copy of bytes that no cache has.
  double getCopySeconds(double bytes) const {
    return prices.getCopySeconds(bytes);
  }

  /// Whether copies pack the columns of a matrix for a collective, which moves
  /// nothing else.
  bool packsColumns() const { return prices.isForGpu(); }

  /// A collective of `bytes`, the whole tensor.
  double getCollectiveSeconds(exec::CollectiveKind kind, RankGroup group,
                              double bytes) const;

  /// A command other than a collective or a wait, whose operands no cache has.
  double getComputeSeconds(exec::CommandOpInterface command) const;

  /// A collective of a program, from its start to its end.
  double getSeconds(exec::CollectiveStartOp start) const;

  /// What carries the collectives of a mesh axis, one after the other: its
  /// own link, or "" where all axes share one.
  StringRef getLink(StringRef axis) const {
    return prices.axesShareLink() ? "" : axis;
  }

  /// A program in its present order.
  StepPrediction predictStep(func::FuncOp function) const;

  /// Calls that follow each other, each in its present order, and are repeated:
  /// where the last ones carry collectives, the first ones begin with them.
  SmallVector<StepPrediction> predictCalls(ArrayRef<func::FuncOp> calls) const;

private:
  friend class StepPredictor;
  std::shared_ptr<const MeasuredCosts> measured;
  optimus_prices::MachinePrices prices;
  mutable KernelWorks kernels;
};

/// Predicts calls command by command. What a command is in any order can be
/// described before, once for several.
class StepPredictor {
public:
  explicit StepPredictor(const CostModel &costs)
      : costs(costs), distances(costs.prices.getRanksOfCore()) {}

  struct Command {
    exec::CommandOpInterface command;
    /// Of a collective, and of what was measured.
    std::optional<double> seconds;
    optimus_prices::CommandWork work;
    TouchedBases touched;
  };
  /// Of a command other than a wait.
  static Command describe(const CostModel &costs,
                          exec::CommandOpInterface command);

  void advance(const Command &described);
  /// Waits for a collective.
  void wait(Operation *start);
  /// Ends the call. The next one begins at once, with what is under way.
  StepPrediction endCall();

private:
  const CostModel &costs;
  optimus_prices::StepTimeline timeline;
  optimus_prices::ReuseDistances distances;
  /// Those of the command, with how far back they were there.
  SmallVector<optimus_prices::Touch> touches;
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_COSTMODEL_H
