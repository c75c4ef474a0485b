//===- Checks.cpp - What must hold after an operation -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checks.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/APFloat.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::ShardLayout;

LogicalResult mlir::optimus::checkReplicas(Operation *op, StringRef name,
                                           Value value, const Ranks &ranks) {
  for (int64_t rank = 0; rank < ranks.getNumRanks(); ++rank) {
    int64_t first = ranks.getFirstReplica(value.getType(), rank);
    if (first == rank)
      continue;
    double distance =
        getDistance(ranks.get(value, rank), ranks.get(value, first));
    if (distance != 0)
      return op->emitOpError()
             << name << " differs by " << distance << " between "
             << ranks.describe(first) << " and " << ranks.describe(rank)
             << ", which hold the same part by its type " << value.getType();
  }
  return success();
}

LogicalResult mlir::optimus::checkPadding(Operation *op, StringRef name,
                                          Value value, const Ranks &ranks) {
  ShardLayout layout = ranks.getLayout(value.getType());
  if (!layout.hasPadding(ranks.getMesh()))
    return success();
  for (int64_t rank = 0; rank < ranks.getNumRanks(); ++rank) {
    // What is left when the real elements are taken out must be zero.
    Tensor rest = ranks.get(value, rank);
    layout.forEachRun(
        ranks.getMesh(), rank, [&](const optimus_support::ShardRun &run) {
          std::fill_n(rest.elements.begin() + run.localOffset, run.count, 0.0);
        });
    for (auto [index, element] : llvm::enumerate(rest.elements))
      if (element != 0)
        return op->emitOpError()
               << name << " holds " << element << " in padding, at element "
               << index << " of " << ranks.describe(rank)
               << "; expected exactly 0";
  }
  return success();
}

// The parts add up in another order than the whole. That changes a sum of n
// terms by at most n·2^-53 of Σ|terms|; with n up to 10^4 and terms that
// cancel to a thousandth it is 1e-9 of the sum. A wrong part or a partial sum
// that counts twice is off by far more.
static constexpr double kReordering = 1e-9;

/// How far apart it may put two values that their parts are stored in a format
/// narrower than f32: each is off by up to 2^-p of itself, with p bits of
/// precision, and so is what they are put together to.
static double getNarrowing(Value value, const Ranks &ranks) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(value));
  if (!element || element.getWidth() >= 32)
    return 0;
  double magnitude = 0;
  for (int64_t rank = 0; rank < ranks.getNumRanks(); ++rank)
    magnitude += getMagnitude(ranks.get(value, rank));
  return std::ldexp(magnitude, -llvm::APFloat::semanticsPrecision(
                                   element.getFloatSemantics()));
}

static LogicalResult expectClose(Operation *op, const Twine &name,
                                 const Tensor &found, const Tensor &expected,
                                 double narrowing) {
  double distance = getDistance(found, expected);
  // What cancels completely leaves rounding errors of its terms.
  if (distance <= kReordering * getMagnitude(expected) + 1e-12 + narrowing)
    return success();
  int64_t worst = 0;
  double largest = -1;
  for (int64_t i = 0; i < found.getNumElements(); ++i) {
    double d = std::abs(found[i] - expected[i]);
    if (!(d <= largest)) {
      largest = d;
      worst = i;
    }
  }
  InFlightDiagnostic error = op->emitOpError();
  error << name << " does not mean on parts what it means on whole tensors: "
        << "put together, element " << worst << " of [";
  llvm::interleaveComma(found.shape, error);
  return error << "] is " << found[worst] << "; expected " << expected[worst];
}

LogicalResult mlir::optimus::checkSerialSemantics(Operation *op,
                                                  const Ranks &ranks,
                                                  ArrayRef<Tensor> expected) {
  for (auto [index, result] : llvm::enumerate(op->getResults()))
    if (failed(expectClose(op, "result " + Twine(index), ranks.assemble(result),
                           expected[index], getNarrowing(result, ranks))))
      return failure();
  return success();
}

LogicalResult mlir::optimus::checkIdentity(Operation *op, const Ranks &ranks) {
  Value result = op->getResult(0), operand = op->getOperand(0);
  return expectClose(op, "the collective", ranks.assemble(result),
                     ranks.assemble(operand), getNarrowing(result, ranks));
}
