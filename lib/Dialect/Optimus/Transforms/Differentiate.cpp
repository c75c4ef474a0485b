//===- Differentiate.cpp - Adds the gradient of @loss ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainedParameters.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/Transforms/Role.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-differentiate"

namespace mlir::optimus {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#include "optimus/Dialect/Optimus/Transforms/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// The values that depend on some trained parameter.
class ActiveValues {
public:
  ActiveValues(Block &block, ArrayRef<int64_t> trained) {
    for (int64_t index : trained)
      active.insert(block.getArgument(index));
    for (Operation &op : block)
      if (isActive(op))
        active.insert(op.result_begin(), op.result_end());
  }

  bool isActive(Operation &op) const {
    return llvm::any_of(op.getOperands(),
                        [&](Value v) { return active.contains(v); });
  }

private:
  llvm::DenseSet<Value> active;
};

/// Marks new operations as the backward of the differentiated one.
struct MarkBackward : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op,
                               OpBuilder::InsertPoint previous) override {
    op->setLoc(withPhase(op->getLoc(), ProgramPhase::Backward));
  }
};

/// Gives each operation with several results, the first of which has a role,
/// a role for each.
void setResultRoles(Block &block) {
  for (Operation &op : block) {
    auto role = op.getAttrOfType<StringAttr>(OptimusDialect::kRole);
    if (!role || op.getNumResults() < 2 ||
        op.hasAttr(OptimusDialect::kResultRoles))
      continue;
    SmallVector<StringRef> roles(op.getNumResults());
    roles[0] = role.getValue();
    op.setAttr(OptimusDialect::kResultRoles,
               Builder(op.getContext()).getStrArrayAttr(roles));
  }
}

class DifferentiatePass
    : public mlir::optimus::impl::DifferentiatePassBase<DifferentiatePass> {
public:
  using DifferentiatePassBase::DifferentiatePassBase;

  void runOnOperation() override {
    if (LossFunction::isWithout(getOperation()))
      return;
    FailureOr<LossFunction> loss = LossFunction::find(getOperation());
    if (failed(loss))
      return signalPassFailure();
    SymbolTable symbols(getOperation());
    if (Operation *existing = symbols.lookup("grad")) {
      existing->emitError("@grad exists already; the module is differentiated");
      return signalPassFailure();
    }
    FailureOr<SmallVector<int64_t>> trained = chooseTrained(*loss, train);
    if (failed(trained))
      return signalPassFailure();
    inferRoles(loss->function);
    func::FuncOp grad = loss->function.clone();
    grad.setName("grad");
    symbols.insert(grad, std::next(loss->function->getIterator()));
    if (failed(differentiate(grad, *trained)))
      return signalPassFailure();
    nameGradients(*loss, grad, *trained);
    numFrozen += loss->numParams - trained->size();
  }

private:
  LogicalResult differentiate(func::FuncOp function,
                              ArrayRef<int64_t> trained) {
    Block &block = function.front();
    ActiveValues active(block, trained);
    setResultRoles(block);

    SmallVector<Operation *> forward;
    for (Operation &op : block.without_terminator())
      forward.push_back(&op);
    auto returnOp = cast<func::ReturnOp>(block.getTerminator());

    MarkBackward markBackward;
    OpBuilder builder(returnOp);
    builder.setListener(&markBackward);
    GradientAccumulator gradients(builder);
    Value lossSum = returnOp.getOperand(0);
    Value seed = arith::ConstantOp::create(
        builder, lossSum.getLoc(),
        DenseElementsAttr::get(cast<ShapedType>(lossSum.getType()), 1.0f));
    gradients.add(lossSum, seed);

    for (Operation *op : llvm::reverse(forward)) {
      SmallVector<Value> resultGradients;
      for (Value result : op->getResults())
        resultGradients.push_back(gradients.lookup(result));
      if (!active.isActive(*op) ||
          llvm::none_of(resultGradients, [](Value v) { return bool(v); })) {
        LDBG() << "no gradient: " << op->getName() << " of "
               << describeLocation(op->getLoc())
               << (active.isActive(*op) ? " does not reach the loss"
                                        : " depends on no trained parameter");
        continue;
      }
      LDBG() << "gradient: " << op->getName() << " of "
             << describeLocation(op->getLoc());
      auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
      if (!differentiable)
        return op->emitOpError("is not differentiable, and it is between a "
                               "parameter and the loss");
      gradients.enter(op);
      if (failed(differentiable.buildGradient(builder, resultGradients,
                                              gradients)))
        return failure();
      ++numVisited;
    }

    SmallVector<Value> results(returnOp.getOperands());
    for (int64_t index : trained) {
      BlockArgument param = block.getArgument(index);
      Value gradient = gradients.lookup(param);
      if (!gradient)
        return emitError(param.getLoc())
               << "the loss does not depend on parameter '"
               << function
                      .getArgAttrOfType<StringAttr>(index,
                                                    OptimusDialect::kParam)
                      .getValue()
               << "', so it has no gradient; use it or remove it";
      results.push_back(gradient);
    }
    returnOp.getOperandsMutable().assign(results);
    function.setType(FunctionType::get(
        &getContext(), function.getArgumentTypes(), TypeRange(results)));
    eraseDead(block);
    return success();
  }

  /// Erases replaced operations and unused gradients.
  void eraseDead(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op)) {
        LDBG() << "dead: " << op.getName() << " of "
               << describeLocation(op.getLoc());
        op.erase();
        ++numErased;
      }
  }
};

} // namespace
