//===- OptimusOptimizers.cpp - Forms of optimizers, norms ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Einsums.h"
#include "ShapeChecks.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::optimus;

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

/// The results of an update, which lie as the optimizer's state does.
static SmallVector<Value> placeAsState(Operation *op,
                                       const ParameterUpdate &update) {
  for (Value result : op->getResults())
    GradientAccumulator::copyRole(update.states[0], result);
  return SmallVector<Value>(op->getResults());
}

template <typename OpT>
static OpT createStep(OpBuilder &builder, Location location,
                      const ParameterUpdate &update) {
  SmallVector<Value> operands = {update.param, update.gradient};
  llvm::append_range(operands, update.states);
  operands.push_back(update.scale);
  for (StringRef name : ArrayRef(OpT::kNumbers).drop_front())
    operands.push_back(update.getScalar(name));
  auto step = OpT::create(builder, location, operands);
  step.setDecay(update.decay);
  return step;
}

template <typename OpT>
static SmallVector<Value> buildStep(OpBuilder &builder,
                                    const ParameterUpdate &update) {
  return placeAsState(createStep<OpT>(builder, update.loc, update), update);
}

static SmallVector<Value> buildLamb(OpBuilder &builder,
                                    const ParameterUpdate &update) {
  auto direction = createStep<LambDirectionOp>(
      builder, withPart(update.loc, "direction"), update);
  placeAsState(direction, update);
  // Vectors, which begin with zeros or ones, move as Adam moves them.
  SmallVector<Value> norms;
  if (update.decay)
    for (Value tensor : {update.param, Value(direction.getDirection())})
      norms.push_back(
          GlobalNormOp::create(builder, withPart(update.loc, "norm"), tensor));
  SmallVector<Value> updated =
      placeAsState(LambUpdateOp::create(builder, update.loc, update.param,
                                        direction.getDirection(),
                                        update.getScalar("lr"), norms),
                   update);
  updated.append({direction.getNewExpAvg(), direction.getNewExpAvgSq()});
  return updated;
}

/// The form of an optimizer that is one step: its names are the operation's,
/// and the clipping of gradients is every optimizer's third scalar.
template <typename OpT>
static OptimizerForm makeForm(StringRef name,
                              decltype(OptimizerForm::build) build) {
  static const SmallVector<StringRef> scalars = [] {
    auto names = llvm::to_vector(ArrayRef(OpT::kNumbers).drop_front());
    names.insert(names.begin() + 2, "clip");
    return names;
  }();
  return {name, ArrayRef(OpT::kTensors).drop_front(2), scalars, build};
}

static ArrayRef<OptimizerForm> getForms() {
  static const OptimizerForm forms[] = {
      makeForm<AdamWOp>("adamw", buildStep<AdamWOp>),
      makeForm<AdamWOp>("lamb", buildLamb),
      makeForm<SgdOp>("sgd", buildStep<SgdOp>),
      makeForm<AdagradOp>("adagrad", buildStep<AdagradOp>),
      makeForm<LionOp>("lion", buildStep<LionOp>),
  };
  return forms;
}

ArrayRef<StringRef> mlir::optimus::getKnownOptimizers() {
  static const SmallVector<StringRef> names = llvm::map_to_vector(
      getForms(), [](const OptimizerForm &form) { return form.name; });
  return names;
}

StringRef mlir::optimus::getOptimizerHelp() {
  static const std::string help =
      "The optimizer: " + llvm::join(getKnownOptimizers().drop_back(), ", ") +
      " or " + getKnownOptimizers().back().str();
  return help;
}

const OptimizerForm *mlir::optimus::lookupOptimizer(StringRef name) {
  for (const OptimizerForm &form : getForms())
    if (form.name == name)
      return &form;
  return nullptr;
}

bool mlir::optimus::isOptimizerState(StringRef name) {
  return llvm::any_of(getForms(), [&](const OptimizerForm &form) {
    return llvm::is_contained(form.states, name);
  });
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

LogicalResult optimus::detail::verifyStep(Operation *op,
                                          ArrayRef<StringRef> tensors,
                                          ArrayRef<StringRef> results) {
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  auto check = [&](auto names, auto values) {
    return llvm::all_of(llvm::zip_first(names, values), [&](auto named) {
      auto [name, value] = named;
      return succeeded(expectShape(op, "C1", name, value, shape));
    });
  };
  return success(check(tensors, op->getOperands()) &&
                 check(results, op->getResults()));
}

/// Tensors are elementwise, scalars are what they are on every rank.
ShardingRule optimus::detail::getStepRule(Operation *op) {
  std::string dims = letters(rankOf(op->getOperand(0)), 'a');
  auto list = [&](ValueRange values) {
    return llvm::join(llvm::map_range(values,
                                      [&](Value value) {
                                        // A parameter that is a scalar has no
                                        // letters either.
                                        return rankOf(value) == 0
                                                   ? std::string()
                                                   : dims;
                                      }),
                      ",");
  };
  return ShardingRule::fromEinsum(op, list(op->getOperands()) + "->" +
                                          list(op->getResults()));
}

LogicalResult LambUpdateOp::verify() {
  if (getNorms().size() != 0 && getNorms().size() != 2)
    return emitOpError("C2: expected the norms of param and direction, or "
                       "neither; found ")
           << getNorms().size();
  return optimus::detail::verifyStep(*this, kTensors, kResults);
}

//===----------------------------------------------------------------------===//
// Norms and clipping
//===----------------------------------------------------------------------===//

static LogicalResult verifyInputs(Operation *op) {
  if (op->getNumOperands() > 0)
    return success();
  return op->emitOpError("C1: expected one input at least, found none");
}

LogicalResult ReshardOp::verify() { return success(); }
LogicalResult SqrtOp::verify() { return success(); }
LogicalResult GlobalNormOp::verify() { return verifyInputs(*this); }
LogicalResult SumSquaresOp::verify() { return verifyInputs(*this); }
LogicalResult ClipOp::verify() { return success(); }

/// Every dimension of every operand is reduced on its own.
static ShardingRule allReducedRule(Operation *op) {
  ShardingRule rule;
  for (Value operand : op->getOperands()) {
    SmallVector<int64_t> &dims = rule.operands.emplace_back();
    for (int64_t size : shapeOf(operand)) {
      dims.push_back(rule.factors.size());
      rule.factors.push_back({size, FactorKind::Contracted});
    }
  }
  rule.results.resize(op->getNumResults());
  return rule;
}

ShardingRule SqrtOp::getShardingRule() { return elementwiseRule(*this); }
ShardingRule ReshardOp::getShardingRule() { return elementwiseRule(*this); }

ShardingRule GlobalNormOp::getShardingRule() {
  ShardingRule rule = allReducedRule(*this);
  for (Factor &factor : rule.factors)
    factor.kind = FactorKind::Reduced;
  return rule;
}

ShardingRule SumSquaresOp::getShardingRule() { return allReducedRule(*this); }
ShardingRule ClipOp::getShardingRule() {
  return ShardingRule::fromEinsum(*this, ",,->,");
}

//===----------------------------------------------------------------------===//
// Sums and roundings
//===----------------------------------------------------------------------===//

// Each input's squares are a term, but the square of a partial sum is not part
// of the square of the sum.
Contribution SumSquaresOp::getContribution(OpOperand &operand) {
  return Contribution::Nonlinear;
}

double ReshardOp::countRoundings(unsigned result) { return 0; }

//===----------------------------------------------------------------------===//
// On whole tensors
//===----------------------------------------------------------------------===//

static const Term *makeSumOfSquares(SymbolicValues &symbolic, ValueRange inputs,
                                    Value like) {
  RankedTensorType type = symbolic.getType(like);
  SmallVector<const Term *> squares;
  for (Value input : inputs)
    squares.push_back(symbolic.make(SumSquaresOp::getOperationName(),
                                    symbolic.get(input), type));
  return symbolic.add(squares, type);
}

void SumSquaresOp::setSymbolicValues(SymbolicValues &symbolic) {
  symbolic.use(Lemma::NormOfSquares);
  symbolic.set(getSum(), makeSumOfSquares(symbolic, getInputs(), getSum()));
}

void GlobalNormOp::setSymbolicValues(SymbolicValues &symbolic) {
  symbolic.use(Lemma::NormOfSquares);
  symbolic.set(getNorm(),
               symbolic.make(SqrtOp::getOperationName(),
                             makeSumOfSquares(symbolic, getInputs(), getNorm()),
                             symbolic.getType(getNorm())));
}

void ReshardOp::setSymbolicValues(SymbolicValues &symbolic) {
  symbolic.use(Lemma::Reshard);
  symbolic.set(getResult(), symbolic.get(getInput()));
}
