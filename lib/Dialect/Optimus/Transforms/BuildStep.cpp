//===- BuildStep.cpp - The functions a model library exports --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionBuilder.h"
#include "TrainedParameters.h"
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
  UpdateBuilder(LossFunction loss, func::FuncOp grad, ArrayRef<int64_t> trained,
                StepBuffers buffers, const OptimizerForm &form)
      : loss(loss), grad(grad), trained(trained), buffers(buffers), form(form) {
  }

  func::FuncOp buildTrain();
  func::FuncOp buildUpdate();
  int64_t getNumDecayed() const { return numDecayed; }

private:
  /// Adds trained parameters and their states, which are updated; among them
  /// frozen parameters where the function computes gradients.
  void addState(StepFunctionBuilder &f, bool withFrozen);
  void addScalars(StepFunctionBuilder &f) {
    for (StringRef scalar : form.scalars)
      scalars.push_back(f.addScalar(buffers.getScalar(scalar)));
  }
  /// Updates everything and adds the results, the gradient's norm last.
  void updateAll(StepFunctionBuilder &f, ArrayRef<Value> gradients,
                 Value count);
  /// Updates the trained parameter at `place` among these: the new parameter,
  /// then its new states.
  SmallVector<Value> update(OpBuilder &builder, size_t place, Value gradient,
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
  ArrayRef<int64_t> trained;
  StepBuffers buffers;
  const OptimizerForm &form;
  SmallVector<BlockArgument> params, scalars;
  /// Of parameters, those that are updated.
  SmallVector<BlockArgument> updated;
  SmallVector<SmallVector<BlockArgument>> states; // [state][place]
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

void UpdateBuilder::addState(StepFunctionBuilder &f, bool withFrozen) {
  int64_t numResults = 0;
  params.clear();
  updated.clear();
  states.clear();
  scalars.clear();
  for (int64_t i = 0; i < loss.numParams; ++i)
    if (llvm::is_contained(trained, i)) {
      params.push_back(f.addShared(i, numResults++));
      updated.push_back(params.back());
    } else if (withFrozen) {
      params.push_back(f.addShared(i));
    }
  for (StringRef state : form.states) {
    states.emplace_back();
    for (int64_t i : trained)
      states.back().push_back(
          f.addTensor(i, buffers.getState(state, f.getParamName(i)),
                      getStateRole(i), numResults++));
  }
}

SmallVector<Value> UpdateBuilder::update(OpBuilder &builder, size_t place,
                                         Value gradient, Value scale) {
  int64_t index = trained[place];
  bool decay = decays(index);
  numDecayed += decay;
  LDBG() << form.name << " updates " << describeLocation(getUpdateLoc(index))
         << (decay ? " with" : " without") << " weight decay";
  SmallVector<Value> kept;
  for (ArrayRef<BlockArgument> state : states)
    kept.push_back(state[place]);
  return form.build(
      builder, {.loc = getUpdateLoc(index),
                .param = updated[place],
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
  for (auto [place, gradient] : llvm::enumerate(gradients)) {
    resharded.push_back(ReshardOp::create(
        f.builder, withPart(getUpdateLoc(trained[place]), "gradient"),
        gradient));
    GradientAccumulator::copyRole(states[0][place], resharded.back());
  }
  auto getLoc = [&](StringRef path) {
    return withPhase(withPath(grad.getLoc(), path), ProgramPhase::Optimizer);
  };
  Value norm = GlobalNormOp::create(f.builder, getLoc("grad_norm"), resharded);
  auto clip =
      ClipOp::create(f.builder, getLoc("clip"), norm, count, getScalar("clip"));
  SmallVector<SmallVector<Value>> results;
  for (auto [place, gradient] : llvm::enumerate(resharded))
    results.push_back(update(f.builder, place, gradient, clip.getScale()));
  for (size_t part = 0; part <= form.states.size(); ++part)
    for (const SmallVector<Value> &values : results)
      f.addResult(values[part]);
  meanNorm = clip.getMeanNorm();
}

func::FuncOp UpdateBuilder::buildTrain() {
  StepFunctionBuilder f(loss, grad, buffers, getFunctionName(EntryKind::Train));
  addState(f, /*withFrozen=*/true);
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
  addState(f, /*withFrozen=*/false);
  SmallVector<Value> gradients;
  for (int64_t i : trained)
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
                             ArrayRef<int64_t> trained, StepBuffers buffers) {
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
  for (int64_t i : trained)
    sums.push_back(f.addSum(i, sums.size()));
  f.finishArguments();
  SmallVector<Value> values = f.cloneGrad(params, inputs);
  for (auto [index, sum, value] : llvm::enumerate(sums, values)) {
    // At once: until then a gradient takes memory beside its sum.
    OpBuilder::InsertionGuard guard(f.builder);
    f.builder.setInsertionPointAfterValue(value);
    Location loc = index < 2
                       ? value.getLoc()
                       : withPhase(getParamLoc(loss, grad, trained[index - 2]),
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
    FailureOr<LossFunction> loss =
        LossFunction::find(module, LossFunction::Params::Narrowed);
    if (failed(loss))
      return signalPassFailure();
    SmallVector<func::FuncOp> entries;
    for (auto function : module.getOps<func::FuncOp>())
      if (getEntry(function))
        entries.push_back(function);
    auto grad = module.lookupSymbol<func::FuncOp>("grad");
    if (!grad) {
      module.emitError(
          "expected a function @grad; run --optimus-differentiate first");
      return signalPassFailure();
    }
    FailureOr<SmallVector<int64_t>> trained = findTrained(*loss, grad);
    if (failed(trained))
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
    setInputBindings(*loss, grad);
    StepBuffers buffers(&getContext(), accumulate);
    UpdateBuilder builder(*loss, grad, *trained, buffers, *form);
    auto end = module.getBody()->end();
    auto insert = [&](func::FuncOp function, EntryKind kind) {
      setEntry(function, kind);
      symbols.insert(function, end);
    };
    insert(builder.buildTrain(), EntryKind::Train);
    numUpdates += trained->size();
    numDecayed += builder.getNumDecayed();
    SmallVector<BufferAttr> results = {buffers.getLossSum(),
                                       buffers.getRealCount()};
    func::FuncOp eval = copyAs(loss->function, EntryKind::Eval, results);
    symbols.insert(eval, end);
    if (failed(takeExpectedValues(eval)))
      return signalPassFailure();
    for (int64_t i : *trained)
      results.push_back(buffers.getGradient(
          StringAttr::get(&getContext(), loss->getParamName(i))));
    func::FuncOp gradStep = copyAs(grad, EntryKind::Grad, results);
    updateResultAttrs(gradStep, [&](unsigned index, NamedAttrList &attributes) {
      constexpr unsigned kFirst = LossFunction::kNumResults;
      if (index < kFirst || index >= kFirst + trained->size())
        return;
      if (Attribute dims = grad.getArgAttr((*trained)[index - kFirst],
                                           OptimusDialect::kDims))
        attributes.set(OptimusDialect::kDims, dims);
    });
    symbols.insert(gradStep, end);
    if (accumulate) {
      insert(buildAccumulate(*loss, grad, *trained, buffers),
             EntryKind::Accumulate);
      insert(builder.buildUpdate(), EntryKind::Update);
    }
    // After the steps, which are as they are without other entries.
    for (func::FuncOp function : entries)
      function->moveBefore(module.getBody(), module.getBody()->end());
    if (!keepSources) {
      symbols.erase(loss->function);
      symbols.erase(grad);
    }
    nameAllValues();
  }

private:
  void nameAllValues() {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        nameValues(block);
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
