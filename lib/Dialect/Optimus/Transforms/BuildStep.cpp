//===- BuildStep.cpp - The functions a model library exports --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LossFunction.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::optimus {
#define GEN_PASS_DEF_BUILDSTEPPASS
#include "optimus/Dialect/Optimus/Transforms/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

/// The run-time scalars of AdamW, in the order of the step's arguments.
static constexpr StringLiteral kScalars[] = {
    "lr",    "weight_decay", "clip",        "beta1",
    "beta2", "epsilon",      "beta1_power", "beta2_power"};

/// The optimizer's moments, in the order of the step's arguments.
static constexpr StringLiteral kMoments[] = {"exp_avg", "exp_avg_sq"};

namespace {

/// Builds `@train_step`, whose body begins with that of `@grad`.
class TrainStepBuilder {
public:
  TrainStepBuilder(LossFunction loss, func::FuncOp grad)
      : loss(loss), grad(grad), builder(grad.getContext()) {}

  func::FuncOp build();
  int64_t getNumDecayed() const { return numDecayed; }

private:
  /// Appends an argument to the function under construction.
  BlockArgument addArgument(Type type, Location loc, DictionaryAttr attrs);
  void addArguments();
  /// Updates parameter `index`.
  AdamWOp update(int64_t index, Value gradient, Value scale);
  /// Weight decay is for matrices and embeddings. Their shape is that of the
  /// checkpoint: a vector may be cut into several dimensions in the program.
  bool decays(int64_t index);
  /// The role of what the optimizer keeps of parameter `index`, which may lie
  /// otherwise than the parameter; null where that has none.
  StringAttr getStateRole(int64_t index);

  DictionaryAttr getBinding(const Twine &binding) {
    return builder.getDictionaryAttr(builder.getNamedAttr(
        OptimusDialect::kBinding, builder.getStringAttr(binding)));
  }

  LossFunction loss;
  func::FuncOp grad;
  OpBuilder builder;
  Block *block = nullptr;
  SmallVector<DictionaryAttr> argAttrs;
  SmallVector<BlockArgument> params, inputs;
  SmallVector<BlockArgument> moments[std::size(kMoments)];
  SmallVector<BlockArgument> scalars;
  int64_t numDecayed = 0;
};

BlockArgument TrainStepBuilder::addArgument(Type type, Location loc,
                                            DictionaryAttr attrs) {
  argAttrs.push_back(attrs);
  return block->addArgument(type, loc);
}

void TrainStepBuilder::addArguments() {
  auto donates = [&](int64_t result) {
    return builder.getNamedAttr(OptimusDialect::kDonates,
                                builder.getI64IntegerAttr(result));
  };
  int64_t n = loss.numParams;
  for (int64_t i = 0; i < n; ++i) {
    NamedAttrList attrs(grad.getArgAttrDict(i));
    attrs.set(donates(i).getName(), donates(i).getValue());
    BlockArgument arg = grad.getArgument(i);
    params.push_back(addArgument(arg.getType(), arg.getLoc(),
                                 attrs.getDictionary(builder.getContext())));
  }
  for (auto [m, moment] : llvm::enumerate(kMoments))
    for (int64_t i = 0; i < n; ++i) {
      NamedAttrList attrs;
      for (StringRef shared :
           {OptimusDialect::kDims, OptimusDialect::kSharding})
        if (Attribute attr = grad.getArgAttr(i, shared))
          attrs.set(shared, attr);
      if (StringAttr role = getStateRole(i))
        attrs.set(OptimusDialect::kRole, role);
      attrs.set(OptimusDialect::kBinding,
                builder.getStringAttr(moment + ":" + loss.getParamName(i)));
      attrs.append(donates((m + 1) * n + i));
      BlockArgument arg = grad.getArgument(i);
      moments[m].push_back(
          addArgument(arg.getType(), arg.getLoc(),
                      attrs.getDictionary(builder.getContext())));
    }
  for (int64_t i = n; i < n + loss.numInputs; ++i) {
    BlockArgument arg = grad.getArgument(i);
    inputs.push_back(
        addArgument(arg.getType(), arg.getLoc(), grad.getArgAttrDict(i)));
  }
  auto scalarType = RankedTensorType::get({}, builder.getF32Type());
  for (StringRef scalar : kScalars)
    scalars.push_back(
        addArgument(scalarType, grad.getLoc(), getBinding("scalar:" + scalar)));
}

bool TrainStepBuilder::decays(int64_t index) {
  if (auto shape = grad.getArgAttrOfType<DenseI64ArrayAttr>(
          index, OptimusDialect::kHfShape))
    return shape.size() >= 2;
  return cast<RankedTensorType>(params[index].getType()).getRank() >= 2;
}

StringAttr TrainStepBuilder::getStateRole(int64_t index) {
  auto role = grad.getArgAttrOfType<StringAttr>(index, OptimusDialect::kRole);
  if (!role)
    return {};
  return builder.getStringAttr(OptimusDialect::kStateRole + role.getValue());
}

AdamWOp TrainStepBuilder::update(int64_t index, Value gradient, Value scale) {
  auto scalar = [&](StringRef name) -> Value {
    return scalars[llvm::find(kScalars, name) - std::begin(kScalars)];
  };
  Value param = params[index];
  Type type = param.getType();
  bool decay = decays(index);
  numDecayed += decay;
  auto op = AdamWOp::create(
      builder, param.getLoc(), type, type, type, param, gradient,
      moments[0][index], moments[1][index], scale, scalar("lr"),
      scalar("weight_decay"), scalar("beta1"), scalar("beta2"),
      scalar("epsilon"), scalar("beta1_power"), scalar("beta2_power"), decay);
  for (Value result : op.getResults())
    GradientAccumulator::copyRole(moments[0][index], result);
  return op;
}

func::FuncOp TrainStepBuilder::build() {
  int64_t n = loss.numParams;
  auto step = func::FuncOp::create(grad.getLoc(), "train_step",
                                   builder.getFunctionType({}, {}));
  block = step.addEntryBlock();
  addArguments();
  // Updates take their roles from the arguments' attributes.
  step.setType(builder.getFunctionType(block->getArgumentTypes(), {}));
  step.setAllArgAttrs(argAttrs);

  IRMapping mapping;
  mapping.map(grad.getArguments().take_front(n), params);
  mapping.map(grad.getArguments().drop_front(n), inputs);
  builder.setInsertionPointToEnd(block);
  Block &body = grad.front();
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> values; // loss_sum, real_count, gradients
  for (Value operand : body.getTerminator()->getOperands())
    values.push_back(mapping.lookup(operand));
  // From here on gradients lie as the optimizer's state does.
  SmallVector<Value> gradients;
  for (auto [index, gradient] :
       llvm::enumerate(ArrayRef(values).drop_front(2))) {
    gradients.push_back(ReshardOp::create(builder, gradient.getLoc(),
                                          gradient.getType(), gradient));
    GradientAccumulator::copyRole(moments[0][index], gradients.back());
  }

  Location loc = grad.getLoc();
  Type scalarType = values[0].getType();
  Value norm = GlobalNormOp::create(builder, loc, scalarType, gradients);
  auto clip =
      ClipOp::create(builder, loc, scalarType, scalarType, norm, values[1],
                     scalars[llvm::find(kScalars, "clip") - kScalars]);
  SmallVector<Value> results(3 * n);
  for (int64_t i = 0; i < n; ++i) {
    AdamWOp op = update(i, gradients[i], clip.getScale());
    results[i] = op.getNewParam();
    results[n + i] = op.getNewExpAvg();
    results[2 * n + i] = op.getNewExpAvgSq();
  }
  results.append({values[0], values[1], clip.getMeanNorm()});
  func::ReturnOp::create(builder, loc, results);

  step.setType(builder.getFunctionType(block->getArgumentTypes(),
                                       TypeRange(ValueRange(results))));
  SmallVector<DictionaryAttr> resultAttrs;
  for (int64_t i = 0; i < n; ++i)
    resultAttrs.push_back(getBinding("param:" + loss.getParamName(i)));
  for (StringRef moment : kMoments)
    for (int64_t i = 0; i < n; ++i)
      resultAttrs.push_back(getBinding(moment + ":" + loss.getParamName(i)));
  for (StringRef name : {"loss_sum", "real_count", "grad_norm"})
    resultAttrs.push_back(getBinding(name));
  step.setAllResultAttrs(resultAttrs);
  return step;
}

class BuildStepPass
    : public mlir::optimus::impl::BuildStepPassBase<BuildStepPass> {
public:
  using BuildStepPassBase::BuildStepPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (optimizer != "adamw") {
      module.emitError("unknown optimizer '")
          << optimizer << "'; known optimizers: adamw";
      return signalPassFailure();
    }
    FailureOr<LossFunction> loss = LossFunction::find(module);
    if (failed(loss))
      return signalPassFailure();
    FailureOr<func::FuncOp> grad = findGrad(*loss);
    if (failed(grad))
      return signalPassFailure();
    SymbolTable symbols(module);
    for (StringRef name : {"train_step", "eval_step", "grad_step"})
      if (Operation *existing = symbols.lookup(name)) {
        existing->emitError("@")
            << name << " exists already; this pass makes it";
        return signalPassFailure();
      }

    setInputBindings(*loss, loss->function);
    setInputBindings(*loss, *grad);
    TrainStepBuilder builder(*loss, *grad);
    auto end = module.getBody()->end();
    symbols.insert(builder.build(), end);
    func::FuncOp eval =
        copyAs(loss->function, "eval_step", {"loss_sum", "real_count"});
    symbols.insert(eval, end);
    if (failed(takeExpectedValues(*loss, eval)))
      return signalPassFailure();
    SmallVector<std::string> gradResults = {"loss_sum", "real_count"};
    for (int64_t i = 0; i < loss->numParams; ++i)
      gradResults.push_back(("grad:" + loss->getParamName(i)).str());
    symbols.insert(copyAs(*grad, "grad_step", gradResults), end);
    numUpdates += loss->numParams;
    numDecayed += builder.getNumDecayed();
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
