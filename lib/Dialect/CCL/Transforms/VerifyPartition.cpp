//===- VerifyPartition.cpp - Parts mean what whole tensors mean -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/CCL/Transforms/Passes.h"
#include "optimus/Dialect/CCL/Transforms/Proof.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Threading.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"

#include <atomic>
#include <set>

#define DEBUG_TYPE "optimus-verify-partition"

namespace mlir::ccl {
#define GEN_PASS_DEF_KEEPSERIALPASS
#define GEN_PASS_DEF_VERIFYPARTITIONPASS
#include "optimus/Dialect/CCL/Transforms/Passes.h.inc"
} // namespace mlir::ccl

using namespace mlir;
using namespace mlir::ccl;
using namespace mlir::optimus;

namespace {
using AxisSet = std::set<StringRef>;

/// Holds one operation against its rule.
class RuleCheck {
public:
  explicit RuleCheck(Operation *op)
      : op(op), rule(cast<ShardingRuleOpInterface>(op).getShardingRule()) {}

  LogicalResult run() {
    if (failed(checkFactors()))
      return failure();
    for (auto [number, result] : llvm::enumerate(op->getResults()))
      if (failed(checkResult(number, result)))
        return failure();
    return success();
  }

private:
  struct FactorState {
    int64_t size = 0;
    SmallVector<StringRef> axes;
    bool isKnown = false;
  };

  LogicalResult checkFactors();
  LogicalResult checkFactor(int64_t factor, Type type, int64_t dim,
                            Twine where);
  LogicalResult checkResult(unsigned number, Value result);
  /// The place of this operand in the sum of a result.
  Contribution getContribution(OpOperand &operand) {
    auto sum = dyn_cast<SumOpInterface>(op);
    return sum ? sum.getContribution(operand) : Contribution::Factor;
  }

  /// The axes that shard a factor of an operand missing in a result. What
  /// stands alone is not added up.
  AxisSet getLostAxes(ArrayRef<int64_t> operandFactors,
                      ArrayRef<int64_t> resultFactors) {
    AxisSet lost;
    for (int64_t factor : operandFactors)
      if (!llvm::is_contained(resultFactors, factor) &&
          !rule.factors[factor].standsAlone)
        lost.insert(factors[factor].axes.begin(), factors[factor].axes.end());
    return lost;
  }

  Operation *op;
  ShardingRule rule;
  SmallVector<FactorState> factors;
};
} // namespace

static AxisSet getUnreduced(Type type) {
  LocalAttr local = getLocal(type);
  if (!local)
    return {};
  SmallVector<StringRef> axes = local.getSharding().getUnreducedAxes();
  return AxisSet(axes.begin(), axes.end());
}

static std::string toString(const AxisSet &axes) {
  return ("{" + Twine(llvm::join(axes, ", ")) + "}").str();
}

LogicalResult RuleCheck::checkFactor(int64_t factor, Type type, int64_t dim,
                                     Twine where) {
  FactorState &state = factors[factor];
  int64_t size = getGlobalShape(type)[dim];
  SmallVector<StringRef> axes = getDimAxes(type, dim);
  if (state.isKnown && size != state.size)
    return op->emitOpError("V1: expected dimension ")
           << dim << " of " << where << " to be of " << state.size
           << " elements in all, found " << size;
  if (state.isKnown && axes != state.axes)
    return op->emitOpError("V1: expected dimension ")
           << dim << " of " << where << " to be sharded by {"
           << llvm::join(state.axes, ", ") << "} as elsewhere, found {"
           << llvm::join(axes, ", ") << '}';
  state = {size, axes, true};
  FactorKind kind = rule.factors[factor].kind;
  bool mustBeWhole = kind == FactorKind::Reduced || kind == FactorKind::Whole;
  if (mustBeWhole && !axes.empty() && !rule.factors[factor].standsAlone)
    return op->emitOpError("V2: expected dimension ")
           << dim << " of " << where << " to be whole, found it sharded by {"
           << llvm::join(axes, ", ") << '}';
  return success();
}

LogicalResult RuleCheck::checkFactors() {
  factors.resize(rule.factors.size());
  for (auto [number, dims] : llvm::enumerate(rule.operands))
    for (auto [dim, factor] : llvm::enumerate(dims))
      if (failed(checkFactor(factor, op->getOperand(number).getType(), dim,
                             "operand " + Twine(number))))
        return failure();
  for (auto [number, dims] : llvm::enumerate(rule.results))
    for (auto [dim, factor] : llvm::enumerate(dims))
      if (failed(checkFactor(factor, op->getResult(number).getType(), dim,
                             "result " + Twine(number))))
        return failure();
  return success();
}

LogicalResult RuleCheck::checkResult(unsigned number, Value result) {
  ArrayRef<int64_t> resultFactors = rule.results[number];
  AxisSet found = getUnreduced(result.getType());
  // The factors make one term of the sum together.
  AxisSet term;
  bool hasTerm = false;
  for (OpOperand &operand : op->getOpOperands()) {
    AxisSet unreduced = getUnreduced(operand.get().getType());
    Contribution contribution = getContribution(operand);
    if (!unreduced.empty() && contribution != Contribution::Linear)
      return op->emitOpError("V4: expected operand ")
             << operand.getOperandNumber()
             << " to be complete, found it unreduced over "
             << toString(unreduced);
    AxisSet lost =
        getLostAxes(rule.operands[operand.getOperandNumber()], resultFactors);
    if (contribution == Contribution::Factor) {
      hasTerm = true;
      term.merge(lost);
      continue;
    }
    unreduced.merge(lost);
    if (unreduced != found)
      return op->emitOpError(
                 "V4: expected every operand to be a partial sum over ")
             << toString(found) << ", as result " << number
             << " is, found operand " << operand.getOperandNumber()
             << " to be one over " << toString(unreduced);
  }
  if (hasTerm && term != found)
    return op->emitOpError("V3: expected result ")
           << number << " to be unreduced over " << toString(term)
           << ", found it unreduced over " << toString(found);
  return success();
}

/// All ranks have the same constant: as a partial sum it would be counted once
/// for each of them.
static LogicalResult checkConstant(Operation *op) {
  AxisSet unreduced = getUnreduced(op->getResult(0).getType());
  if (unreduced.empty() || matchPattern(op, m_AnyZeroFloat()))
    return success();
  return op->emitOpError("V3: expected a constant to be complete, or zero; "
                         "found it unreduced over ")
         << toString(unreduced);
}

/// Whether the function is given the same partial sums and goes on with them.
static bool continuesArgument(OpOperand &result) {
  auto function = cast<func::FuncOp>(result.getOwner()->getParentOp());
  for (BlockArgument argument : function.getArguments()) {
    auto donates = function.getArgAttrOfType<IntegerAttr>(
        argument.getArgNumber(), OptimusDialect::kDonates);
    if (donates && donates.getInt() == result.getOperandNumber())
      return argument.getType() == result.get().getType();
  }
  return false;
}

static LogicalResult checkReturn(func::ReturnOp op) {
  for (OpOperand &operand : op->getOpOperands()) {
    AxisSet unreduced = getUnreduced(operand.get().getType());
    if (!unreduced.empty() && !continuesArgument(operand))
      return op.emitOpError("V5: expected result ")
             << operand.getOperandNumber()
             << " of the function to be complete; the reduction over "
             << toString(unreduced) << " is missing";
  }
  return success();
}

namespace {
class VerifyPartitionPass
    : public ccl::impl::VerifyPartitionPassBase<VerifyPartitionPass> {
public:
  using VerifyPartitionPassBase::VerifyPartitionPassBase;
  VerifyPartitionPass() = default;
  VerifyPartitionPass(std::shared_ptr<SerialProgram> kept,
                      const VerifyPartitionPassOptions &options)
      : VerifyPartitionPassBase(options), serialProgram(std::move(kept)) {}

  LogicalResult initialize(MLIRContext *context) override {
    if (serial.empty())
      return success();
    serialProgram = std::make_shared<SerialProgram>();
    serialProgram->module = parseSourceFile<ModuleOp>(serial, context);
    return success(bool(serialProgram->module));
  }

  void runOnOperation() override {
    SmallVector<func::FuncOp> functions = getFunctions(getOperation());
    auto check = [&](func::FuncOp function) { return checkShards(function); };
    if (failed(checkEach(functions, check)) || failed(checkValues(functions)))
      signalPassFailure();
  }

private:
  static SmallVector<func::FuncOp> getFunctions(ModuleOp module) {
    return llvm::filter_to_vector(
        module.getOps<func::FuncOp>(),
        [](func::FuncOp function) { return !function.isExternal(); });
  }

  /// All of them, so that every failure is named.
  LogicalResult checkEach(ArrayRef<func::FuncOp> functions,
                          function_ref<LogicalResult(func::FuncOp)> check) {
    std::atomic<bool> allHold = true;
    parallelForEach(&getContext(), functions, [&](func::FuncOp function) {
      if (failed(check(function)))
        allHold = false;
    });
    return success(allHold);
  }

  /// Each operation by itself: V1 to V6.
  LogicalResult checkShards(func::FuncOp function) {
    if (failed(checkSymbolicValues(function)))
      return failure();
    LDBG() << "@" << function.getSymName() << ": each operation by its rule";
    for (Operation &op : function.front()) {
      if (auto returnOp = dyn_cast<func::ReturnOp>(op))
        return checkReturn(returnOp);
      bool isConstant = op.hasTrait<OpTrait::ConstantLike>();
      if (!isConstant && !isa<ShardingRuleOpInterface>(op))
        continue;
      ++numChecked;
      if ((getMesh(&op) && failed(verifyLocalTypes(&op))) ||
          failed(isConstant ? checkConstant(&op) : RuleCheck(&op).run()))
        return failure();
    }
    return success();
  }

  /// All of them together, against the serial program: V7 and V8.
  LogicalResult checkValues(ArrayRef<func::FuncOp> functions) {
    if (!serialProgram)
      return success();
    ModuleOp other = serialProgram->module.get();
    if (!other) {
      getOperation().emitWarning(
          "values are not compared with those of the serial program, since "
          "compilation starts after it was partitioned; name it with --serial");
      return success();
    }
    for (func::FuncOp expected : getFunctions(other))
      if (!getOperation().lookupSymbol<func::FuncOp>(expected.getSymName()))
        return getOperation().emitError("V7: expected a function @")
               << expected.getSymName() << " as in the serial program";
    return checkEach(functions, [&](func::FuncOp function) {
      return checkFunction(
          function, other.lookupSymbol<func::FuncOp>(function.getSymName()));
    });
  }

  LogicalResult checkFunction(func::FuncOp function, func::FuncOp expected) {
    if (!expected || expected.isExternal())
      return function.emitOpError("V7: expected a function of this name in the "
                                  "serial program, found none");
    if (failed(checkSymbolicValues(expected)) ||
        failed(proveEqual(expected, function)))
      return failure();
    ++numProven;
    LDBG() << "@" << function.getSymName() << ": equal to the serial program";
    return success();
  }

  std::shared_ptr<SerialProgram> serialProgram;
};

class KeepSerialPass : public ccl::impl::KeepSerialPassBase<KeepSerialPass> {
public:
  KeepSerialPass() = default;
  explicit KeepSerialPass(std::shared_ptr<SerialProgram> kept)
      : kept(std::move(kept)) {}

  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (kept && !kept->module)
      kept->module = getOperation().clone();
    LDBG("optimus-keep-serial")
        << (kept ? "kept the serial program" : "nobody asks for it");
  }

private:
  std::shared_ptr<SerialProgram> kept;
};
} // namespace

std::unique_ptr<Pass>
ccl::createKeepSerialPass(std::shared_ptr<SerialProgram> kept) {
  return std::make_unique<KeepSerialPass>(std::move(kept));
}

std::unique_ptr<Pass>
ccl::createVerifyPartitionPass(std::shared_ptr<SerialProgram> kept,
                               const VerifyPartitionPassOptions &options) {
  return std::make_unique<VerifyPartitionPass>(std::move(kept), options);
}
