//===- BuildStep.cpp - The functions a model library exports --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionBuilder.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-build-step"

namespace mlir::optimus {
#define GEN_PASS_DEF_BUILDSTEPPASS
#include "optimus/Dialect/Optimus/Transforms/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

/// The name of the function of a kind that this pass makes, for people.
static std::string getFunctionName(EntryKind kind) {
  std::string name = stringifyEntryKind(kind).str();
  bool isWholeStep = kind == EntryKind::Train || kind == EntryKind::Eval ||
                     kind == EntryKind::Grad;
  return isWholeStep ? name + "_step" : name;
}

namespace {

/// Builds the step, whose body begins with `@grad`'s, or its update, with the
/// results of `@grad` as arguments.
class UpdateBuilder {
public:
  UpdateBuilder(LossFunction loss, func::FuncOp grad, StepBuffers buffers,
                const OptimizerForm &form)
      : loss(loss), grad(grad), buffers(buffers), form(form) {}

  func::FuncOp buildTrain();
  func::FuncOp buildUpdate();
  int64_t getNumDecayed() const { return numDecayed; }

private:
  /// Adds parameters and states, which are updated.
  void addState(StepFunctionBuilder &f);
  void addScalars(StepFunctionBuilder &f) {
    for (StringRef scalar : form.scalars)
      scalars.push_back(f.addScalar(buffers.getScalar(scalar)));
  }
  /// Updates everything and adds the results, the gradient's norm last.
  void updateAll(StepFunctionBuilder &f, ArrayRef<Value> gradients,
                 Value count);
  /// Updates parameter `index`: the new parameter, then its new states.
  SmallVector<Value> update(OpBuilder &builder, int64_t index, Value gradient,
                            Value scale);
  Value getScalar(StringRef name) {
    return scalars[llvm::find(form.scalars, name) - form.scalars.begin()];
  }
  /// Weight decay is for matrices and embeddings. Their shape is that of the
  /// checkpoint: a vector may be cut into several dimensions in the program.
  bool decays(int64_t index);
  /// The role of the optimizer's state for parameter `index`, which may lie
  /// otherwise than the parameter; null where that has none.
  StringAttr getStateRole(int64_t index);
  /// The location of what updates parameter `index`.
  Location getUpdateLoc(int64_t index) {
    return withPhase(getParamLoc(loss, grad, index), ProgramPhase::Optimizer);
  }

  LossFunction loss;
  func::FuncOp grad;
  StepBuffers buffers;
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

void UpdateBuilder::addState(StepFunctionBuilder &f) {
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
          f.addTensor(i, buffers.getState(state, f.getParamName(i)),
                      getStateRole(i), numResults++));
  }
}

SmallVector<Value> UpdateBuilder::update(OpBuilder &builder, int64_t index,
                                         Value gradient, Value scale) {
  bool decay = decays(index);
  numDecayed += decay;
  LDBG() << form.name << " updates " << describeLocation(getUpdateLoc(index))
         << (decay ? " with" : " without") << " weight decay";
  SmallVector<Value> kept;
  for (ArrayRef<BlockArgument> state : states)
    kept.push_back(state[index]);
  return form.build(
      builder, {.loc = getUpdateLoc(index),
                .param = params[index],
                .gradient = gradient,
                .states = kept,
                .scale = scale,
                .getScalar = [&](StringRef name) { return getScalar(name); },
                .decay = decay});
}

void UpdateBuilder::updateAll(StepFunctionBuilder &f, ArrayRef<Value> gradients,
                              Value count) {
  // From here on gradients lie as the optimizer's state does.
  SmallVector<Value> resharded;
  for (auto [index, gradient] : llvm::enumerate(gradients)) {
    resharded.push_back(ReshardOp::create(
        f.builder, withPart(getUpdateLoc(index), "gradient"), gradient));
    GradientAccumulator::copyRole(states[0][index], resharded.back());
  }
  auto getLoc = [&](StringRef path) {
    return withPhase(withPath(grad.getLoc(), path), ProgramPhase::Optimizer);
  };
  Value norm = GlobalNormOp::create(f.builder, getLoc("grad_norm"), resharded);
  auto clip =
      ClipOp::create(f.builder, getLoc("clip"), norm, count, getScalar("clip"));
  SmallVector<SmallVector<Value>> updated;
  for (auto [index, gradient] : llvm::enumerate(resharded))
    updated.push_back(update(f.builder, index, gradient, clip.getScale()));
  for (size_t part = 0; part <= form.states.size(); ++part)
    for (const SmallVector<Value> &values : updated)
      f.addResult(values[part]);
  meanNorm = clip.getMeanNorm();
}

func::FuncOp UpdateBuilder::buildTrain() {
  StepFunctionBuilder f(loss, grad, buffers, getFunctionName(EntryKind::Train));
  addState(f);
  SmallVector<BlockArgument> inputs;
  for (int64_t i = 0; i < loss.getNumInputs(); ++i)
    inputs.push_back(f.addShared(loss.numParams + i));
  addScalars(f);
  f.finishArguments();
  SmallVector<Value> values = f.cloneGrad(params, inputs);
  updateAll(f, ArrayRef(values).drop_front(2), values[1]);
  f.addResult(values[0], buffers.getLossSum());
  f.addResult(values[1], buffers.getRealCount());
  f.addResult(meanNorm, buffers.getOutput("grad_norm"));
  return f.finish();
}

func::FuncOp UpdateBuilder::buildUpdate() {
  StepFunctionBuilder f(loss, grad, buffers,
                        getFunctionName(EntryKind::Update));
  addState(f);
  SmallVector<Value> gradients;
  for (int64_t i = 0; i < loss.numParams; ++i)
    gradients.push_back(f.addSum(i));
  Value count = f.addScalar(buffers.getRealCount());
  addScalars(f);
  f.finishArguments();
  updateAll(f, gradients, count);
  f.addResult(meanNorm, buffers.getOutput("grad_norm"));
  return f.finish();
}

/// `@accumulate`: what `@grad` computes of a microbatch, added to the sums of
/// those before.
func::FuncOp buildAccumulate(LossFunction loss, func::FuncOp grad,
                             StepBuffers buffers) {
  StepFunctionBuilder f(loss, grad, buffers,
                        getFunctionName(EntryKind::Accumulate));
  int64_t n = loss.numParams;
  SmallVector<BlockArgument> params, inputs, sums;
  for (int64_t i = 0; i < n; ++i)
    params.push_back(f.addShared(i));
  for (int64_t i = 0; i < loss.getNumInputs(); ++i)
    inputs.push_back(f.addShared(n + i));
  sums.push_back(f.addScalar(buffers.getLossSum(), 0));
  sums.push_back(f.addScalar(buffers.getRealCount(), 1));
  for (int64_t i = 0; i < n; ++i)
    sums.push_back(f.addSum(i, 2 + i));
  f.finishArguments();
  SmallVector<Value> values = f.cloneGrad(params, inputs);
  for (auto [index, sum, value] : llvm::enumerate(sums, values)) {
    // At once: until then a gradient takes memory beside its sum.
    OpBuilder::InsertionGuard guard(f.builder);
    f.builder.setInsertionPointAfterValue(value);
    Location loc = index < 2 ? value.getLoc()
                             : withPhase(getParamLoc(loss, grad, index - 2),
                                         ProgramPhase::Backward);
    Value total =
        AddOp::create(f.builder, withPart(loc, "microbatches"), sum, value);
    GradientAccumulator::copyRole(sum, total);
    f.addResult(total);
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
          << optimizer
          << "'; known optimizers: " << llvm::join(getKnownOptimizers(), ", ");
      return signalPassFailure();
    }
    if (failed(takeExpectedValues(module)))
      return signalPassFailure();
    if (LossFunction::isWithout(module)) {
      nameAllValues();
      return;
    }
    FailureOr<LossFunction> loss = LossFunction::find(module);
    if (failed(loss))
      return signalPassFailure();
    SmallVector<func::FuncOp> entries;
    for (auto function : module.getOps<func::FuncOp>())
      if (getEntry(function))
        entries.push_back(function);
    FailureOr<func::FuncOp> grad = findGrad(*loss);
    if (failed(grad))
      return signalPassFailure();
    SymbolTable symbols(module);
    for (EntryKind kind : {EntryKind::Train, EntryKind::Eval, EntryKind::Grad,
                           EntryKind::Accumulate, EntryKind::Update})
      if (Operation *existing = symbols.lookup(getFunctionName(kind))) {
        existing->emitError("@")
            << getFunctionName(kind) << " exists already; this pass makes it";
        return signalPassFailure();
      }

    setInputBindings(*loss, loss->function);
    setInputBindings(*loss, *grad);
    StepBuffers buffers(&getContext(), accumulate);
    UpdateBuilder builder(*loss, *grad, buffers, *form);
    auto end = module.getBody()->end();
    auto insert = [&](func::FuncOp function, EntryKind kind) {
      setEntry(function, kind);
      symbols.insert(function, end);
    };
    insert(builder.buildTrain(), EntryKind::Train);
    numUpdates += loss->numParams;
    numDecayed += builder.getNumDecayed();
    SmallVector<BufferAttr> results = {buffers.getLossSum(),
                                       buffers.getRealCount()};
    func::FuncOp eval = copyAs(loss->function, EntryKind::Eval, results);
    symbols.insert(eval, end);
    if (failed(takeExpectedValues(eval)))
      return signalPassFailure();
    for (int64_t i = 0; i < loss->numParams; ++i)
      results.push_back(buffers.getOutput(
          "grad", StringAttr::get(&getContext(), loss->getParamName(i))));
    func::FuncOp gradStep = copyAs(*grad, EntryKind::Grad, results);
    updateResultAttrs(gradStep, [&](unsigned index, NamedAttrList &attributes) {
      constexpr unsigned kFirst = 2;
      if (index < kFirst || index >= kFirst + loss->numParams)
        return;
      if (Attribute dims =
              grad->getArgAttr(index - kFirst, OptimusDialect::kDims))
        attributes.set(OptimusDialect::kDims, dims);
    });
    symbols.insert(gradStep, end);
    if (accumulate) {
      insert(buildAccumulate(*loss, *grad, buffers), EntryKind::Accumulate);
      insert(builder.buildUpdate(), EntryKind::Update);
    }
    // After the steps, which are as they are without other entries.
    for (func::FuncOp function : entries)
      function->moveBefore(module.getBody(), module.getBody()->end());
    if (!keepSources) {
      symbols.erase(loss->function);
      symbols.erase(*grad);
    }
    nameAllValues();
  }

private:
  void nameAllValues() {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        nameValues(block);
  }

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
    for (int64_t i = 0; i < loss.getNumInputs(); ++i)
      function.setArgAttr(
          loss.numParams + i, OptimusDialect::kBinding,
          getInputBuffer(function.getContext(), loss.inputs[i]));
  }

  /// Makes of a function what it is on average: no random numbers are drawn,
  /// nor is the argument they depend on left.
  static LogicalResult takeExpectedValues(func::FuncOp function) {
    for (Operation &op : llvm::make_early_inc_range(function.front())) {
      auto stochastic = dyn_cast<StochasticOpInterface>(op);
      if (!stochastic)
        continue;
      LDBG() << "@" << function.getSymName() << ": expected value in place of "
             << op.getName();
      op.getResult(0).replaceAllUsesWith(stochastic.getExpectedValue());
      op.erase();
    }
    BufferAttr random = getInputBuffer(function.getContext(), "random");
    for (BlockArgument argument : function.getArguments()) {
      unsigned number = argument.getArgNumber();
      if (getArgumentBuffer(function, number) != random)
        continue;
      for (Operation *user : argument.getUsers())
        return user->emitOpError("uses the random words of @")
               << function.getSymName()
               << ", but outside of training no numbers are drawn and the "
                  "operation does not say what it is on average";
      return function.eraseArgument(number);
    }
    return success();
  }

  /// The same of what a builder wrote to be called outside of training.
  static LogicalResult takeExpectedValues(ModuleOp module) {
    for (EntryKind kind : {EntryKind::Eval, EntryKind::Forward})
      for (func::FuncOp function : findEntries(module, kind))
        if (function.getBody().hasOneBlock() &&
            failed(takeExpectedValues(function)))
          return failure();
    return success();
  }

  static func::FuncOp copyAs(func::FuncOp function, EntryKind kind,
                             ArrayRef<BufferAttr> results) {
    func::FuncOp copy = function.clone();
    copy.setName(getFunctionName(kind));
    copy.setPublic();
    setEntry(copy, kind);
    updateResultAttrs(copy, [&](unsigned index, NamedAttrList &attributes) {
      if (index < results.size())
        attributes.set(OptimusDialect::kBinding, results[index]);
    });
    return copy;
  }
};

} // namespace
