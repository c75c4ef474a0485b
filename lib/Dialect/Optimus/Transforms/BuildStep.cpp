//===- BuildStep.cpp - The functions a model library exports --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LossFunction.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"

namespace mlir::optimus {
#define GEN_PASS_DEF_BUILDSTEPPASS
#include "optimus/Dialect/Optimus/Transforms/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

/// What the runtime passes or receives somewhere, as an attribute.
static DictionaryAttr getBinding(MLIRContext *context, const Twine &binding) {
  Builder b(context);
  return b.getDictionaryAttr(b.getNamedAttr(OptimusDialect::kBinding,
                                            b.getStringAttr(binding)));
}

namespace {

/// Builds a function that may donate arguments to results.
class FunctionBuilder {
public:
  FunctionBuilder(LossFunction loss, func::FuncOp grad, StringRef name)
      : loss(loss), grad(grad), builder(grad.getContext()),
        function(func::FuncOp::create(grad.getLoc(), name,
                                      builder.getFunctionType({}, {}))),
        block(function.addEntryBlock()) {
    builder.setInsertionPointToEnd(block);
  }

  /// An argument; with `donates` result `result` takes its buffer.
  BlockArgument addArgument(Type type, Location loc, NamedAttrList attrs,
                            std::optional<int64_t> donates = std::nullopt) {
    if (donates)
      attrs.set(OptimusDialect::kDonates, builder.getI64IntegerAttr(*donates));
    argAttrs.push_back(attrs.getDictionary(builder.getContext()));
    return block->addArgument(type, loc);
  }
  /// The sum of the gradients of parameter `index` over microbatches.
  BlockArgument addSum(int64_t index,
                       std::optional<int64_t> donates = std::nullopt) {
    auto role = grad.getArgAttrOfType<StringAttr>(index, OptimusDialect::kRole);
    if (role)
      role = builder.getStringAttr(kSumRole + role.getValue());
    return addTensor(index, "grad", role, donates);
  }
  /// An argument that belongs to parameter `index`, lies as its role says and
  /// is bound as "KIND:NAME".
  BlockArgument addTensor(int64_t index, StringRef kind, StringAttr role,
                          std::optional<int64_t> donates);
  /// The argument of `@grad` itself.
  BlockArgument addShared(int64_t index,
                          std::optional<int64_t> donates = std::nullopt) {
    BlockArgument arg = grad.getArgument(index);
    return addArgument(arg.getType(), arg.getLoc(), grad.getArgAttrDict(index),
                       donates);
  }
  BlockArgument addScalar(const Twine &binding,
                          std::optional<int64_t> donates = std::nullopt) {
    return addArgument(RankedTensorType::get({}, builder.getF32Type()),
                       grad.getLoc(), getBinding(grad.getContext(), binding),
                       donates);
  }
  /// To be called once all arguments are there: operations take their roles
  /// from the arguments' attributes.
  void finishArguments() {
    function.setType(builder.getFunctionType(block->getArgumentTypes(), {}));
    function.setAllArgAttrs(argAttrs);
  }
  /// Clones the body of `@grad`; returns loss_sum, real_count and gradients.
  SmallVector<Value> cloneGrad(ArrayRef<BlockArgument> params,
                               ArrayRef<BlockArgument> inputs);
  void addResult(Value value, const Twine &binding) {
    results.push_back(value);
    resultAttrs.push_back(getBinding(grad.getContext(), binding));
  }
  func::FuncOp finish() {
    func::ReturnOp::create(builder, grad.getLoc(), results);
    function.setType(builder.getFunctionType(block->getArgumentTypes(),
                                             TypeRange(ValueRange(results))));
    function.setAllResultAttrs(resultAttrs);
    return function;
  }

  LossFunction loss;
  func::FuncOp grad;
  OpBuilder builder;

private:
  func::FuncOp function;
  Block *block;
  SmallVector<DictionaryAttr> argAttrs, resultAttrs;
  SmallVector<Value> results;
};

BlockArgument FunctionBuilder::addTensor(int64_t index, StringRef kind,
                                         StringAttr role,
                                         std::optional<int64_t> donates) {
  NamedAttrList attrs;
  for (StringRef shared : {OptimusDialect::kHfShape, OptimusDialect::kDims,
                           OptimusDialect::kSharding})
    if (Attribute attr = grad.getArgAttr(index, shared))
      attrs.set(shared, attr);
  if (role)
    attrs.set(OptimusDialect::kRole, role);
  attrs.set(OptimusDialect::kBinding,
            builder.getStringAttr(kind + ":" + loss.getParamName(index)));
  BlockArgument arg = grad.getArgument(index);
  return addArgument(arg.getType(), arg.getLoc(), attrs, donates);
}

SmallVector<Value> FunctionBuilder::cloneGrad(ArrayRef<BlockArgument> params,
                                              ArrayRef<BlockArgument> inputs) {
  IRMapping mapping;
  mapping.map(grad.getArguments().take_front(loss.numParams), params);
  mapping.map(grad.getArguments().drop_front(loss.numParams), inputs);
  Block &body = grad.front();
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> values;
  for (Value operand : body.getTerminator()->getOperands())
    values.push_back(mapping.lookup(operand));
  return values;
}

/// Builds `@train_step`, whose body begins with that of `@grad`, or `@update`,
/// which is given what that computes.
class UpdateBuilder {
public:
  UpdateBuilder(LossFunction loss, func::FuncOp grad, const OptimizerForm &form)
      : loss(loss), grad(grad), form(form) {}

  func::FuncOp buildTrainStep();
  func::FuncOp buildUpdate();
  int64_t getNumDecayed() const { return numDecayed; }

private:
  /// Adds parameters and states, which are updated.
  void addState(FunctionBuilder &f);
  void addScalars(FunctionBuilder &f) {
    for (StringRef scalar : form.scalars)
      scalars.push_back(f.addScalar("scalar:" + scalar));
  }
  /// Updates everything and adds the results, the gradient's norm last.
  void updateAll(FunctionBuilder &f, ArrayRef<Value> gradients, Value count);
  /// Updates parameter `index`: the new parameter, then its new states.
  SmallVector<Value> update(OpBuilder &builder, int64_t index, Value gradient,
                            Value scale);
  SmallVector<Value> updateLamb(OpBuilder &builder, int64_t index,
                                Value gradient, Value scale, bool decay);
  Value getScalar(StringRef name) {
    return scalars[llvm::find(form.scalars, name) - form.scalars.begin()];
  }
  /// Weight decay is for matrices and embeddings. Their shape is that of the
  /// checkpoint: a vector may be cut into several dimensions in the program.
  bool decays(int64_t index);
  /// The role of what the optimizer keeps of parameter `index`, which may lie
  /// otherwise than the parameter; null where that has none.
  StringAttr getStateRole(int64_t index);

  LossFunction loss;
  func::FuncOp grad;
  const OptimizerForm &form;
  SmallVector<BlockArgument> params, scalars;
  SmallVector<SmallVector<BlockArgument>> states; // [state][parameter]
  Value meanNorm;
  int64_t numDecayed = 0;
};

bool UpdateBuilder::decays(int64_t index) {
  if (auto shape = grad.getArgAttrOfType<DenseI64ArrayAttr>(
          index, OptimusDialect::kHfShape))
    return shape.size() >= 2;
  return cast<RankedTensorType>(grad.getArgument(index).getType()).getRank() >=
         2;
}

StringAttr UpdateBuilder::getStateRole(int64_t index) {
  auto role = grad.getArgAttrOfType<StringAttr>(index, OptimusDialect::kRole);
  if (!role)
    return {};
  return StringAttr::get(grad.getContext(),
                         OptimusDialect::kStateRole + role.getValue());
}

void UpdateBuilder::addState(FunctionBuilder &f) {
  int64_t n = loss.numParams, numResults = 0;
  params.clear();
  states.clear();
  scalars.clear();
  for (int64_t i = 0; i < n; ++i)
    params.push_back(f.addShared(i, numResults++));
  for (StringRef state : form.states) {
    states.emplace_back();
    for (int64_t i = 0; i < n; ++i)
      states.back().push_back(
          f.addTensor(i, state, getStateRole(i), numResults++));
  }
}

SmallVector<Value> UpdateBuilder::updateLamb(OpBuilder &builder, int64_t index,
                                             Value gradient, Value scale,
                                             bool decay) {
  Value param = params[index];
  Location loc = param.getLoc();
  auto direction = LambDirectionOp::create(
      builder, loc, param, gradient, states[0][index], states[1][index], scale,
      getScalar("weight_decay"), getScalar("beta1"), getScalar("beta2"),
      getScalar("epsilon"), getScalar("beta1_power"), getScalar("beta2_power"),
      decay);
  for (Value result : direction.getResults())
    GradientAccumulator::copyRole(states[0][index], result);
  // Vectors, which begin with zeros or ones, move as Adam moves them.
  SmallVector<Value> norms;
  if (decay)
    for (Value tensor : {param, Value(direction.getDirection())})
      norms.push_back(GlobalNormOp::create(builder, loc, tensor));
  Value updated = LambUpdateOp::create(
      builder, loc, param, direction.getDirection(), getScalar("lr"), norms);
  GradientAccumulator::copyRole(states[0][index], updated);
  return {updated, direction.getNewExpAvg(), direction.getNewExpAvgSq()};
}

SmallVector<Value> UpdateBuilder::update(OpBuilder &builder, int64_t index,
                                         Value gradient, Value scale) {
  Value param = params[index];
  bool decay = decays(index);
  numDecayed += decay;
  if (form.name == "lamb")
    return updateLamb(builder, index, gradient, scale, decay);
  Operation *op;
  if (form.name == "sgd")
    op = SgdOp::create(builder, param.getLoc(), param, gradient,
                       states[0][index], scale, getScalar("lr"),
                       getScalar("weight_decay"), getScalar("momentum"), decay);
  else
    op = AdamWOp::create(
        builder, param.getLoc(), param, gradient, states[0][index],
        states[1][index], scale, getScalar("lr"), getScalar("weight_decay"),
        getScalar("beta1"), getScalar("beta2"), getScalar("epsilon"),
        getScalar("beta1_power"), getScalar("beta2_power"), decay);
  for (Value result : op->getResults())
    GradientAccumulator::copyRole(states[0][index], result);
  return SmallVector<Value>(op->getResults());
}

void UpdateBuilder::updateAll(FunctionBuilder &f, ArrayRef<Value> gradients,
                              Value count) {
  // From here on gradients lie as the optimizer's state does.
  SmallVector<Value> resharded;
  for (auto [index, gradient] : llvm::enumerate(gradients)) {
    resharded.push_back(
        ReshardOp::create(f.builder, gradient.getLoc(), gradient));
    GradientAccumulator::copyRole(states[0][index], resharded.back());
  }
  Location loc = grad.getLoc();
  Value norm = GlobalNormOp::create(f.builder, loc, resharded);
  auto clip = ClipOp::create(f.builder, loc, norm, count, getScalar("clip"));
  SmallVector<SmallVector<Value>> updated;
  for (auto [index, gradient] : llvm::enumerate(resharded))
    updated.push_back(update(f.builder, index, gradient, clip.getScale()));
  for (size_t part = 0; part <= form.states.size(); ++part)
    for (auto [index, values] : llvm::enumerate(updated))
      f.addResult(values[part],
                  (part ? form.states[part - 1] : StringRef("param")) + ":" +
                      loss.getParamName(index));
  meanNorm = clip.getMeanNorm();
}

func::FuncOp UpdateBuilder::buildTrainStep() {
  FunctionBuilder f(loss, grad, "train_step");
  addState(f);
  SmallVector<BlockArgument> inputs;
  for (int64_t i = 0; i < loss.numInputs; ++i)
    inputs.push_back(f.addShared(loss.numParams + i));
  addScalars(f);
  f.finishArguments();
  SmallVector<Value> values = f.cloneGrad(params, inputs);
  updateAll(f, ArrayRef(values).drop_front(2), values[1]);
  f.addResult(values[0], "loss_sum");
  f.addResult(values[1], "real_count");
  f.addResult(meanNorm, "grad_norm");
  return f.finish();
}

func::FuncOp UpdateBuilder::buildUpdate() {
  FunctionBuilder f(loss, grad, "update");
  addState(f);
  SmallVector<Value> gradients;
  for (int64_t i = 0; i < loss.numParams; ++i)
    gradients.push_back(f.addSum(i));
  Value count = f.addScalar("real_count");
  addScalars(f);
  f.finishArguments();
  updateAll(f, gradients, count);
  f.addResult(meanNorm, "grad_norm");
  return f.finish();
}

/// `@accumulate`: what `@grad` computes of a microbatch, added to the sums of
/// those before.
func::FuncOp buildAccumulate(LossFunction loss, func::FuncOp grad) {
  FunctionBuilder f(loss, grad, "accumulate");
  int64_t n = loss.numParams;
  SmallVector<BlockArgument> params, inputs, sums;
  for (int64_t i = 0; i < n; ++i)
    params.push_back(f.addShared(i));
  for (int64_t i = 0; i < loss.numInputs; ++i)
    inputs.push_back(f.addShared(n + i));
  sums.push_back(f.addScalar("loss_sum", 0));
  sums.push_back(f.addScalar("real_count", 1));
  for (int64_t i = 0; i < n; ++i)
    sums.push_back(f.addSum(i, 2 + i));
  f.finishArguments();
  SmallVector<Value> values = f.cloneGrad(params, inputs);
  for (auto [index, sum, value] : llvm::enumerate(sums, values)) {
    Value total = AddOp::create(f.builder, value.getLoc(), sum, value);
    GradientAccumulator::copyRole(sum, total);
    if (index < 2)
      f.addResult(total, index ? "real_count" : "loss_sum");
    else
      f.addResult(total, "grad:" + loss.getParamName(index - 2));
  }
  return f.finish();
}

class BuildStepPass
    : public mlir::optimus::impl::BuildStepPassBase<BuildStepPass> {
public:
  using BuildStepPassBase::BuildStepPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const OptimizerForm *form = lookupOptimizer(optimizer);
    if (!form) {
      module.emitError("unknown optimizer '")
          << optimizer << "'; known optimizers: "
          << llvm::join(getKnownOptimizers(), ", ");
      return signalPassFailure();
    }
    FailureOr<LossFunction> loss = LossFunction::find(module);
    if (failed(loss))
      return signalPassFailure();
    FailureOr<func::FuncOp> grad = findGrad(*loss);
    if (failed(grad))
      return signalPassFailure();
    SymbolTable symbols(module);
    for (StringRef name :
         {"train_step", "eval_step", "grad_step", "accumulate", "update"})
      if (Operation *existing = symbols.lookup(name)) {
        existing->emitError("@")
            << name << " exists already; this pass makes it";
        return signalPassFailure();
      }

    setInputBindings(*loss, loss->function);
    setInputBindings(*loss, *grad);
    UpdateBuilder builder(*loss, *grad, *form);
    auto end = module.getBody()->end();
    symbols.insert(builder.buildTrainStep(), end);
    numUpdates += loss->numParams;
    numDecayed += builder.getNumDecayed();
    func::FuncOp eval =
        copyAs(loss->function, "eval_step", {"loss_sum", "real_count"});
    symbols.insert(eval, end);
    if (failed(takeExpectedValues(*loss, eval)))
      return signalPassFailure();
    SmallVector<std::string> gradResults = {"loss_sum", "real_count"};
    for (int64_t i = 0; i < loss->numParams; ++i)
      gradResults.push_back(("grad:" + loss->getParamName(i)).str());
    symbols.insert(copyAs(*grad, "grad_step", gradResults), end);
    if (accumulate) {
      symbols.insert(buildAccumulate(*loss, *grad), end);
      symbols.insert(builder.buildUpdate(), end);
    }
    if (keepSources)
      return;
    symbols.erase(loss->function);
    symbols.erase(*grad);
  }

private:
  /// `@grad`, with the arguments of `@loss` and a gradient for each parameter.
  FailureOr<func::FuncOp> findGrad(LossFunction loss) {
    auto grad = getOperation().lookupSymbol<func::FuncOp>("grad");
    if (!grad)
      return getOperation().emitError(
          "expected a function @grad; run --optimus-differentiate first");
    FunctionType lossType = loss.function.getFunctionType();
    SmallVector<Type> results(lossType.getResults());
    llvm::append_range(results,
                       lossType.getInputs().take_front(loss.numParams));
    auto expected =
        FunctionType::get(&getContext(), lossType.getInputs(), results);
    if (grad.getFunctionType() != expected || !grad.getBody().hasOneBlock())
      return grad.emitError("expected the type ")
             << expected << ", found " << grad.getFunctionType();
    return grad;
  }

  static void setInputBindings(LossFunction loss, func::FuncOp function) {
    Builder builder(function.getContext());
    for (int64_t i = 0; i < loss.numInputs; ++i)
      function.setArgAttr(loss.numParams + i, OptimusDialect::kBinding,
                          builder.getStringAttr(LossFunction::kInputs[i]));
  }

  /// Makes of a copy of `@loss` what it is on average: no random numbers are
  /// drawn, nor is the argument they depend on left.
  static LogicalResult takeExpectedValues(LossFunction loss,
                                          func::FuncOp eval) {
    for (Operation &op : llvm::make_early_inc_range(eval.front())) {
      auto stochastic = dyn_cast<StochasticOpInterface>(op);
      if (!stochastic)
        continue;
      op.getResult(0).replaceAllUsesWith(stochastic.getExpectedValue());
      op.erase();
    }
    if (!loss.hasRandom())
      return success();
    unsigned random = loss.numParams + loss.numInputs - 1;
    for (Operation *user : eval.getArgument(random).getUsers())
      return user->emitOpError("uses the random words of @loss, but evaluation "
                               "draws no numbers and the operation does not "
                               "say what it is on average");
    return eval.eraseArgument(random);
  }

  static func::FuncOp copyAs(func::FuncOp function, StringRef name,
                             ArrayRef<std::string> resultBindings) {
    func::FuncOp copy = function.clone();
    copy.setName(name);
    copy.setPublic();
    for (auto [index, binding] : llvm::enumerate(resultBindings))
      copy.setResultAttr(index, OptimusDialect::kBinding,
                         StringAttr::get(function.getContext(), binding));
    return copy;
  }
};

} // namespace
