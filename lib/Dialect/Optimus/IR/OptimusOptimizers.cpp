//===- OptimusOptimizers.cpp - Forms of optimizers, SGD and LAMB *- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Einsums.h"
#include "ShapeChecks.h"
#include "optimus/Dialect/Optimus/IR/Meanings.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

using namespace mlir;
using namespace mlir::optimus;

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

static constexpr StringRef names[] = {"adamw", "lamb", "sgd"};
static constexpr StringRef moments[] = {"exp_avg", "exp_avg_sq"};
static constexpr StringRef momentum[] = {"momentum_buffer"};
static constexpr StringRef adaptiveScalars[] = {
    "lr",    "weight_decay", "clip",        "beta1",
    "beta2", "epsilon",      "beta1_power", "beta2_power"};
static constexpr StringRef momentumScalars[] = {"lr", "weight_decay", "clip",
                                                "momentum"};

/// The results of an update, which lie as the optimizer's state does.
static SmallVector<Value> placeAsState(Operation *op,
                                       const ParameterUpdate &update) {
  for (Value result : op->getResults())
    GradientAccumulator::copyRole(update.states[0], result);
  return SmallVector<Value>(op->getResults());
}

static SmallVector<Value> buildAdamW(OpBuilder &builder,
                                     const ParameterUpdate &update) {
  auto scalar = update.getScalar;
  return placeAsState(
      AdamWOp::create(builder, update.loc, update.param, update.gradient,
                      update.states[0], update.states[1], update.scale,
                      scalar("lr"), scalar("weight_decay"), scalar("beta1"),
                      scalar("beta2"), scalar("epsilon"), scalar("beta1_power"),
                      scalar("beta2_power"), update.decay),
      update);
}

static SmallVector<Value> buildLamb(OpBuilder &builder,
                                    const ParameterUpdate &update) {
  auto scalar = update.getScalar;
  auto direction = LambDirectionOp::create(
      builder, withPart(update.loc, "direction"), update.param, update.gradient,
      update.states[0], update.states[1], update.scale, scalar("weight_decay"),
      scalar("beta1"), scalar("beta2"), scalar("epsilon"),
      scalar("beta1_power"), scalar("beta2_power"), update.decay);
  placeAsState(direction, update);
  // Vectors, which begin with zeros or ones, move as Adam moves them.
  SmallVector<Value> norms;
  if (update.decay)
    for (Value tensor : {update.param, Value(direction.getDirection())})
      norms.push_back(
          GlobalNormOp::create(builder, withPart(update.loc, "norm"), tensor));
  SmallVector<Value> updated = placeAsState(
      LambUpdateOp::create(builder, update.loc, update.param,
                           direction.getDirection(), scalar("lr"), norms),
      update);
  updated.append({direction.getNewExpAvg(), direction.getNewExpAvgSq()});
  return updated;
}

static SmallVector<Value> buildSgd(OpBuilder &builder,
                                   const ParameterUpdate &update) {
  auto scalar = update.getScalar;
  return placeAsState(
      SgdOp::create(builder, update.loc, update.param, update.gradient,
                    update.states[0], update.scale, scalar("lr"),
                    scalar("weight_decay"), scalar("momentum"), update.decay),
      update);
}

static constexpr OptimizerForm forms[] = {
    {names[0], moments, adaptiveScalars, buildAdamW},
    {names[1], moments, adaptiveScalars, buildLamb},
    {names[2], momentum, momentumScalars, buildSgd},
};

ArrayRef<StringRef> mlir::optimus::getKnownOptimizers() { return names; }

const OptimizerForm *mlir::optimus::lookupOptimizer(StringRef name) {
  for (const OptimizerForm &form : forms)
    if (form.name == name)
      return &form;
  return nullptr;
}

bool mlir::optimus::isOptimizerState(StringRef name) {
  return llvm::any_of(forms, [&](const OptimizerForm &form) {
    return llvm::is_contained(form.states, name);
  });
}

//===----------------------------------------------------------------------===//
// SGD and LAMB
//===----------------------------------------------------------------------===//

/// C1: every tensor has the shape of the parameter.
static LogicalResult
expectShapes(Operation *op, Value param,
             ArrayRef<std::pair<StringRef, Value>> values) {
  for (auto [name, value] : values)
    if (failed(expectShape(op, "C1", name, value, shapeOf(param))))
      return failure();
  return success();
}

/// Tensors are elementwise, scalars are what they are on every rank.
static ShardingRule updateRule(Operation *op, Value param) {
  std::string dims;
  for (size_t i = 0; i < shapeOf(param).size(); ++i)
    dims.push_back('a' + i);
  std::string spec;
  auto add = [&](ValueRange values) {
    for (auto [number, value] : llvm::enumerate(values)) {
      if (number)
        spec += ',';
      // A parameter that is a scalar has no letters either.
      if (!shapeOf(value).empty())
        spec += dims;
    }
  };
  add(op->getOperands());
  spec += "->";
  add(op->getResults());
  return ShardingRule::fromEinsum(op, spec);
}

LogicalResult SgdOp::verify() {
  return expectShapes(*this, getParam(),
                      {{"grad", getGrad()},
                       {"momentum_buffer", getMomentumBuffer()},
                       {"new_param", getNewParam()},
                       {"new_momentum_buffer", getNewMomentumBuffer()}});
}
ShardingRule SgdOp::getShardingRule() { return updateRule(*this, getParam()); }

LogicalResult LambDirectionOp::verify() {
  return expectShapes(*this, getParam(),
                      {{"grad", getGrad()},
                       {"exp_avg", getExpAvg()},
                       {"exp_avg_sq", getExpAvgSq()},
                       {"direction", getDirection()},
                       {"new_exp_avg", getNewExpAvg()},
                       {"new_exp_avg_sq", getNewExpAvgSq()}});
}
ShardingRule LambDirectionOp::getShardingRule() {
  return updateRule(*this, getParam());
}

LogicalResult LambUpdateOp::verify() {
  if (getNorms().size() != 0 && getNorms().size() != 2)
    return emitOpError("C2: expected the norms of param and direction, or "
                       "neither; found ")
           << getNorms().size();
  return expectShapes(
      *this, getParam(),
      {{"direction", getDirection()}, {"new_param", getNewParam()}});
}
ShardingRule LambUpdateOp::getShardingRule() {
  return updateRule(*this, getParam());
}

//===----------------------------------------------------------------------===//
// Norms, clipping, AdamW
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

LogicalResult AdamWOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getParam());
  std::pair<StringRef, Value> values[] = {{"grad", getGrad()},
                                          {"exp_avg", getExpAvg()},
                                          {"exp_avg_sq", getExpAvgSq()},
                                          {"new_param", getNewParam()},
                                          {"new_exp_avg", getNewExpAvg()},
                                          {"new_exp_avg_sq", getNewExpAvgSq()}};
  for (auto [name, value] : values)
    if (failed(expectShape(*this, "C1", name, value, shape)))
      return failure();
  return success();
}

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

ShardingRule AdamWOp::getShardingRule() {
  std::string all = letters(rankOf(getParam()), 'a');
  return ShardingRule::fromEinsum(*this, all + "," + all + "," + all + "," +
                                             all + ",,,,,,,,->" + all + "," +
                                             all + "," + all);
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

static const Term *makeSumOfSquares(Meanings &meanings, ValueRange inputs,
                                    Value like) {
  RankedTensorType type = meanings.getType(like);
  SmallVector<const Term *> squares;
  for (Value input : inputs)
    squares.push_back(meanings.make(SumSquaresOp::getOperationName(),
                                    meanings.get(input), type));
  return meanings.add(squares, type);
}

void SumSquaresOp::setMeanings(Meanings &meanings) {
  meanings.use(Lemma::NormOfSquares);
  meanings.set(getSum(), makeSumOfSquares(meanings, getInputs(), getSum()));
}

void GlobalNormOp::setMeanings(Meanings &meanings) {
  meanings.use(Lemma::NormOfSquares);
  meanings.set(getNorm(),
               meanings.make(SqrtOp::getOperationName(),
                             makeSumOfSquares(meanings, getInputs(), getNorm()),
                             meanings.getType(getNorm())));
}

void ReshardOp::setMeanings(Meanings &meanings) {
  meanings.use(Lemma::Reshard);
  meanings.set(getResult(), meanings.get(getInput()));
}
