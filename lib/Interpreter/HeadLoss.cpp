//===- HeadLoss.cpp - Head and loss on parts of a vocabulary ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HeadLoss.h"

#include "MatrixProduct.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Interpreter/Interpreter.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

/// h·tableᵀ + bias for each part, [tokens, rows]; entries of padding are −∞.
static Tensor computeLogits(const HeadPart &part) {
  int64_t rows = part.table.getNumRows(), hidden = part.table.getNumCols();
  int64_t tokens = part.h.getNumElements() / hidden;
  Tensor logits = Tensor::zeros({tokens, rows});
  addProduct({part.h, tokens, hidden, false}, {part.table, hidden, rows, true},
             logits);
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t row = 0; row < part.bias.getNumElements(); ++row)
      logits[token * rows + row] += part.bias[row];
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t row = part.vocabulary.real; row < rows; ++row)
      logits[token * rows + row] = -std::numeric_limits<double>::infinity();
  return logits;
}

/// Checks that padding of the hidden dimension adds nothing to logits.
static LogicalResult
checkContraction(const HeadPart &part,
                 llvm::function_ref<InFlightDiagnostic()> emitError) {
  int64_t rows = part.table.getNumRows(), hidden = part.table.getNumCols();
  int64_t bad = findContributingPadding(
      {part.h, part.h.getNumElements() / hidden, hidden, false},
      {part.table, hidden, rows, true}, part.paddedHidden);
  if (bad >= 0)
    return emitError() << "contracts over padding that is not zero in either "
                          "h or the table, at hidden element "
                       << bad;
  return success();
}

static LogicalResult
checkPart(const HeadPart &part, int64_t total,
          llvm::function_ref<InFlightDiagnostic()> emitError) {
  for (int64_t i = 0; i < part.targets.getNumElements(); ++i) {
    if (part.targets[i] >= total)
      return emitError() << "expected targets below " << total
                         << ", the rows of the table; found "
                         << static_cast<int64_t>(part.targets[i]);
    if (part.paddedTokens[i] && part.targets[i] >= 0)
      return emitError() << "expected a negative target for padded token " << i
                         << ", found " << static_cast<int64_t>(part.targets[i]);
  }
  return checkContraction(part, emitError);
}

FailureOr<std::vector<HeadResult>> mlir::optimus::computeHeadLoss(
    ArrayRef<HeadPart> parts, int64_t total,
    llvm::function_ref<InFlightDiagnostic()> emitError) {
  SmallVector<Tensor> logits;
  for (const HeadPart &part : parts) {
    if (failed(checkPart(part, total, emitError)))
      return failure();
    logits.push_back(computeLogits(part));
  }

  double lossSum = 0, realCount = 0;
  const Tensor &targets = parts.front().targets;
  for (int64_t token = 0; token < targets.getNumElements(); ++token) {
    double max = -std::numeric_limits<double>::infinity();
    for (const Tensor &part : logits)
      for (int64_t row = 0; row < part.getNumCols(); ++row)
        max = std::max(max, part[token * part.getNumCols() + row]);
    double sum = 0, targetLogit = 0;
    for (auto [part, x] : llvm::zip_equal(parts, logits)) {
      double partSum = 0;
      for (int64_t row = 0; row < x.getNumCols(); ++row) {
        double logit = x[token * x.getNumCols() + row];
        partSum += std::exp(logit - max);
        if (row < part.vocabulary.real &&
            part.vocabulary.offset + row == targets[token])
          targetLogit += logit - max;
      }
      sum += partSum;
    }
    bool real = targets[token] >= 0;
    if (real) {
      lossSum += std::log(sum) - targetLogit;
      realCount += 1;
    }
    // Logits become their gradients.
    for (auto [part, x] : llvm::zip_equal(parts, logits))
      for (int64_t row = 0; row < x.getNumCols(); ++row) {
        double &element = x[token * x.getNumCols() + row];
        bool chosen = row < part.vocabulary.real &&
                      part.vocabulary.offset + row == targets[token];
        element = real ? std::exp(element - max) / sum - chosen : 0;
      }
  }

  std::vector<HeadResult> results;
  for (auto [part, dlogits] : llvm::zip_equal(parts, logits)) {
    HeadResult &result = results.emplace_back();
    result.lossSum = lossSum;
    result.realCount = realCount;
    result.dh = Tensor::zeros(part.h.shape);
    result.dtable = Tensor::zeros(part.table.shape);
    int64_t tokens = dlogits.getNumRows(), rows = dlogits.getNumCols();
    int64_t hidden = part.table.getNumCols();
    addProduct({dlogits, tokens, rows, false},
               {part.table, rows, hidden, false}, result.dh);
    addProduct({dlogits, rows, tokens, true}, {part.h, tokens, hidden, false},
               result.dtable);
    result.dbias = Tensor::zeros(rows);
    for (int64_t token = 0; token < tokens; ++token)
      for (int64_t row = 0; row < rows; ++row)
        result.dbias[row] += dlogits[token * rows + row];
  }
  return results;
}

FailureOr<HeadResult> mlir::optimus::computeHeadLoss(Operation *op,
                                                     Frame &frame) {
  Value h = op->getOperand(0), table = op->getOperand(1),
        targets = op->getOperand(2);
  HeadPart part{frame.get(h),
                frame.get(table),
                frame.get(targets),
                op->getNumOperands() > 3 ? frame.get(op->getOperand(3))
                                         : Tensor(),
                frame.getExtent(table, 0),
                frame.getPadding(targets, 0, frame.get(targets).shape.size()),
                frame.getPadding(table, 1, 2)};
  FailureOr<std::vector<HeadResult>> results =
      computeHeadLoss(part, getWholeShape(table.getType())[0],
                      [&] { return frame.emitError(); });
  if (failed(results))
    return failure();
  return std::move(results->front());
}

namespace {

LogicalResult executeLocally(HeadOp op, Frame &frame) {
  HeadPart part{frame.get(op.getH()),
                frame.get(op.getTable()),
                /*targets=*/Tensor(),
                op.getBias() ? frame.get(op.getBias()) : Tensor(),
                frame.getExtent(op.getTable(), 0),
                /*paddedTokens=*/{},
                frame.getPadding(op.getTable(), 1, 2)};
  if (failed(checkContraction(part, [&] { return frame.emitError(); })))
    return failure();
  Tensor &logits = frame.result(op.getLogits());
  SmallVector<int64_t> shape = logits.shape;
  logits = computeLogits(part);
  logits.shape = std::move(shape);
  return success();
}

LogicalResult executeLocally(BestOp op, Frame &frame) {
  const Tensor &logits = frame.get(op.getLogits());
  Tensor &result = frame.result(op.getResult());
  const int64_t vocabulary = logits.getNumCols();
  const auto count = static_cast<int64_t>(op.getCount());
  for (int64_t row = 0; row < logits.getNumElements() / vocabulary; ++row) {
    std::vector<std::pair<double, int64_t>> order; // the highest first
    for (int64_t token = 0; token < vocabulary; ++token) {
      double logit = logits[row * vocabulary + token];
      if (std::isnan(logit))
        logit = HUGE_VAL;
      if (logit != -HUGE_VAL)
        order.emplace_back(-logit, token);
    }
    llvm::sort(order);
    for (int64_t i = 0; i < count; ++i) {
      const bool isThere = i < static_cast<int64_t>(order.size());
      result[row * 2 * count + i] = isThere ? -order[i].first : -HUGE_VAL;
      result[row * 2 * count + count + i] = isThere ? order[i].second : -1;
    }
  }
  return success();
}

LogicalResult executeLocally(LogProbabilitiesOp op, Frame &frame) {
  const Tensor &logits = frame.get(op.getLogits());
  const Tensor &targets = frame.get(op.getTargets());
  Tensor &result = frame.result(op.getResult());
  const int64_t vocabulary = logits.getNumCols();
  for (int64_t token = 0; token < targets.getNumElements(); ++token) {
    const auto target = static_cast<int64_t>(targets[token]);
    if (target >= vocabulary)
      return frame.emitError()
             << "expected targets below " << vocabulary << ", found " << target;
    if (target < 0)
      continue;
    const auto row = logits.elements.begin() + token * vocabulary;
    const double max = *std::max_element(row, row + vocabulary);
    double sum = 0;
    for (int64_t entry = 0; entry < vocabulary; ++entry)
      sum += std::exp(row[entry] - max);
    result[token] = row[target] - max - std::log(sum);
  }
  return success();
}

LogicalResult executeLocally(HeadLossOp op, Frame &frame) {
  FailureOr<HeadResult> result = computeHeadLoss(op, frame);
  if (failed(result))
    return failure();
  frame.result(op.getLossSum())[0] = result->lossSum;
  frame.result(op.getRealCount())[0] = result->realCount;
  return success();
}

LogicalResult executeLocally(HeadLossGradOp op, Frame &frame) {
  FailureOr<HeadResult> result = computeHeadLoss(op, frame);
  if (failed(result))
    return failure();
  frame.result(op.getLossSum())[0] = result->lossSum;
  frame.result(op.getRealCount())[0] = result->realCount;
  frame.result(op.getDh()) = std::move(result->dh);
  frame.result(op.getDtable()) = std::move(result->dtable);
  if (op.getDbias())
    frame.result(op.getDbias()) = std::move(result->dbias);
  return success();
}

} // namespace

void mlir::optimus::attachHeadLoss(MLIRContext &context) {
  LocalModel<HeadOp, executeLocally>::attach(context);
  LocalModel<BestOp, executeLocally>::attach(context);
  LocalModel<LogProbabilitiesOp, executeLocally>::attach(context);
  LocalModel<HeadLossOp, executeLocally>::attach(context);
  LocalModel<HeadLossGradOp, executeLocally>::attach(context);
}
