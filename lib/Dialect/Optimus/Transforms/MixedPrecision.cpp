//===- MixedPrecision.cpp - Narrow element types where they do no harm ----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainedParameters.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-mixed-precision"

namespace mlir::optimus {
#define GEN_PASS_DEF_MIXEDPRECISIONPASS
#include "optimus/Dialect/Optimus/Transforms/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value));
}

static Precision getPrecision(OpOperand &operand) {
  auto op = dyn_cast<PrecisionOpInterface>(operand.getOwner());
  return op ? op.getOperandPrecision(operand.getOperandNumber())
            : Precision::Full;
}

static Precision getPrecision(OpResult result) {
  auto op = dyn_cast<PrecisionOpInterface>(result.getOwner());
  return op ? op.getResultPrecision(result.getResultNumber())
            : Precision::Full;
}

namespace {
/// Narrows one function of straight-line code.
class Narrowing {
public:
  Narrowing(func::FuncOp function, FloatType narrow, bool narrowsGradients)
      : function(function), narrow(narrow),
        wide(Float32Type::get(function.getContext())),
        narrowsGradients(narrowsGradients) {}

  void run() {
    Block &block = function.front();
    narrowCaches();
    // Readers come after what they read.
    for (Operation &op : llvm::reverse(block))
      chooseResults(op);
    for (Operation &op : block)
      for (OpOperand &operand : op.getOpOperands())
        convert(operand);
    if (!caches.empty())
      function.setType(
          FunctionType::get(function.getContext(), block.getArgumentTypes(),
                            block.getTerminator()->getOperandTypes()));
  }

  int64_t numNarrowed = 0, numCasts = 0;

private:
  /// Keys and values of a text are kept as attention reads them.
  void narrowCaches() {
    for (BlockArgument argument : function.getArguments()) {
      BufferAttr buffer = getArgumentBuffer(function, argument.getArgNumber());
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!buffer || buffer.getLifetime() != Lifetime::Sequence ||
          buffer.getReset() != Reset::Sequence || buffer.getOf() || !type ||
          type.getRank() < 3 || !isFloat(argument))
        continue;
      argument.setType(withElement(type, narrow));
      caches.insert(argument.getArgNumber());
      ++numNarrowed;
    }
  }

  /// Whether an operand is returned in the buffer of a cache.
  bool isCache(OpOperand &operand) const {
    if (caches.empty() ||
        !operand.getOwner()->hasTrait<OpTrait::IsTerminator>())
      return false;
    std::optional<unsigned> donor =
        getDonor(function, operand.getOperandNumber());
    return donor && caches.contains(*donor);
  }

  /// Whether an operand is as the results of its operation are.
  static bool follows(Precision precision) {
    return precision == Precision::Same || precision == Precision::SameOrFull;
  }

  /// Whether a reader of a result needs it in f32.
  bool isReadWide(OpResult result) {
    return llvm::any_of(result.getUses(), [&](OpOperand &use) {
      if (isCache(use))
        return false;
      Precision precision = getPrecision(use);
      return precision == Precision::Full ||
             (follows(precision) && wideOps.contains(use.getOwner()));
    });
  }

  /// Gives the results of an operation their types, and notes whether its
  /// `Same` operands and results are f32.
  void chooseResults(Operation &op) {
    if (llvm::any_of(op.getResults(), [&](OpResult result) {
          return getPrecision(result) == Precision::Same && isReadWide(result);
        }))
      wideOps.insert(&op);
    for (OpResult result : op.getResults()) {
      if (!isFloat(result))
        continue;
      Precision precision = getPrecision(result);
      if (precision == Precision::Narrow ||
          (precision == Precision::Same && !wideOps.contains(&op)) ||
          (precision == Precision::Any &&
           (!isReadWide(result) || (narrowsGradients && isProduct(&op))))) {
        result.setType(withElement(result.getType(), narrow));
        ++numNarrowed;
        LDBG() << narrow << ": result " << result.getResultNumber() << " of "
               << op.getName() << ", " << describeLocation(op.getLoc());
      } else {
        LDBG() << "f32: result " << result.getResultNumber() << " of "
               << op.getName() << ", " << describeLocation(op.getLoc())
               << (isReadWide(result) ? ", for a reader" : "");
      }
    }
  }

  /// Gives an operand the type that its operation needs.
  void convert(OpOperand &operand) {
    Precision precision = getPrecision(operand);
    if (!isFloat(operand.get()) || isCache(operand) ||
        precision == Precision::Any ||
        (precision == Precision::SameOrFull &&
         getElementTypeOrSelf(operand.get()) == wide))
      return;
    bool isWide =
        precision == Precision::Full ||
        (follows(precision) && wideOps.contains(operand.getOwner()));
    Type type = withElement(operand.get().getType(), isWide ? wide : narrow);
    if (type != operand.get().getType())
      operand.set(getCast(operand, type));
  }

  /// The operand as `type`, cast where a value is first needed so.
  Value getCast(OpOperand &operand, Type type) {
    Value &known = casts[operand.get()];
    if (!known) {
      Operation *reader = operand.getOwner();
      OpBuilder builder(reader);
      known = CastOp::create(builder, getCastLoc(operand), type, operand.get());
      GradientAccumulator::copyRole(operand.get(), known);
      ++numCasts;
      LDBG() << "cast to " << type << " for " << reader->getName() << ", "
             << describeLocation(reader->getLoc());
    }
    return known;
  }

  /// A cast computes a part of what the value is: of a parameter, by its name.
  Location getCastLoc(OpOperand &operand) {
    Location reader = operand.getOwner()->getLoc();
    auto argument = dyn_cast<BlockArgument>(operand.get());
    if (!argument)
      return withPart(operand.get().getLoc(), "cast");
    StringAttr name = getParameterName(argument);
    Location loc = name ? withPath(argument.getLoc(), name) : reader;
    return withPhase(withPart(loc, "cast"), getPhase(reader));
  }

  static Type withElement(Type type, Type element) {
    return cast<ShapedType>(type).clone(element);
  }

  func::FuncOp function;
  FloatType narrow, wide;
  /// Whether a product is narrow for a reader in f32, too.
  bool narrowsGradients;
  llvm::DenseSet<unsigned> caches; ///< numbers of arguments
  llvm::DenseSet<Operation *> wideOps;
  llvm::DenseMap<Value, Value> casts;
};

/// Parameters that nothing trains. Where all functions read the narrow value
/// alone, the parameter is an argument of the narrow type: the model has no
/// other.
///
///   %w: tensor<8x8xf32>, %v = optimus.cast %w -> %v: tensor<8x8xbf16>
class FrozenParameters {
public:
  FrozenParameters(FloatType narrow) : narrow(narrow) {}

  /// Returns how many there are.
  int64_t run(ArrayRef<func::FuncOp> functions, const LossFunction &loss,
              ArrayRef<int64_t> trained) {
    llvm::MapVector<StringRef, SmallVector<BlockArgument>> frozen;
    for (int64_t index = 0; index < loss.numParams; ++index)
      if (!llvm::is_contained(trained, index))
        frozen[loss.getParamName(index)];
    for (func::FuncOp function : functions)
      for (BlockArgument argument : function.getArguments())
        if (StringAttr name = getParameterName(argument))
          if (auto *known = frozen.find(name); known != frozen.end())
            known->second.push_back(argument);
    int64_t count = 0;
    for (auto &[name, arguments] : frozen) {
      if (!llvm::all_of(arguments, [&](auto one) { return isNarrow(one); }))
        continue;
      LDBG() << narrow << ": frozen parameter " << name;
      llvm::for_each(arguments, [&](auto one) { setNarrow(one); });
      ++count;
    }
    for (func::FuncOp function : functions)
      function.setType(FunctionType::get(
          function.getContext(), function.front().getArgumentTypes(),
          function.getFunctionType().getResults()));
    return count;
  }

private:
  bool isNarrow(BlockArgument argument) const {
    return llvm::all_of(argument.getUsers(), [&](Operation *user) {
      auto cast = dyn_cast<CastOp>(user);
      return cast && getElementTypeOrSelf(cast.getType()) == narrow;
    });
  }
  void setNarrow(BlockArgument argument) const {
    for (Operation *user : llvm::make_early_inc_range(argument.getUsers())) {
      user->getResult(0).replaceAllUsesWith(argument);
      user->erase();
    }
    argument.setType(cast<ShapedType>(argument.getType()).clone(narrow));
  }

  FloatType narrow;
};

class MixedPrecisionPass
    : public mlir::optimus::impl::MixedPrecisionPassBase<MixedPrecisionPass> {
public:
  using MixedPrecisionPassBase::MixedPrecisionPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    if (llvm::is_contained({"f32", "bf16", "f16"}, type))
      return success();
    return emitError(UnknownLoc::get(context))
           << "unknown type '" << type << "'; known are f32, bf16, f16";
  }

  void runOnOperation() override {
    if (type == "f32")
      return;
    SmallVector<func::FuncOp> functions;
    FailureOr<LossFunction> loss = failure();
    FailureOr<SmallVector<int64_t>> trained = failure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (getEntry(function))
        functions.push_back(function);
    if (!LossFunction::isWithout(getOperation())) {
      loss = LossFunction::find(getOperation());
      if (failed(loss))
        return signalPassFailure();
      auto grad = getOperation().lookupSymbol<func::FuncOp>("grad");
      if (!grad) {
        getOperation().emitError(
            "expected a function @grad; run --optimus-differentiate first");
        return signalPassFailure();
      }
      trained = findTrained(*loss, grad);
      if (failed(trained))
        return signalPassFailure();
      functions.append({loss->function, grad});
    }
    FloatType narrow = type == "bf16"
                           ? FloatType(BFloat16Type::get(&getContext()))
                           : FloatType(Float16Type::get(&getContext()));
    for (func::FuncOp function : functions) {
      Narrowing narrowing(function, narrow, gradients);
      narrowing.run();
      numNarrowed += narrowing.numNarrowed;
      numCasts += narrowing.numCasts;
    }
    if (succeeded(trained))
      numNarrowed += FrozenParameters(narrow).run(functions, *loss, *trained);
  }
};
} // namespace
