//===- HeldWeights.cpp - How a function's weights are held ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HeldWeights.h"

#include "Lowering.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "optimus-support/WeightBlocks.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::optimus;

static bool generates(func::FuncOp function) {
  return llvm::is_contained(kGenerationKinds, getEntryKind(function));
}

HeldWeights::HeldWeights(func::FuncOp function, exec::Blocks fewBits,
                         const llvm::StringSet<> &rounded)
    : function(function),
      fewBits(generates(function) ? fewBits : exec::Blocks::None),
      rounded(rounded) {}

/// The operand that is a weight, of products and heads.
static OpOperand *findWeight(Operation *op) {
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return &matmul.getBMutable();
  if (auto matmul = dyn_cast<ccl::MatmulOp>(op))
    return &matmul.getBMutable();
  if (auto head = dyn_cast<HeadOp>(op))
    return &head.getTableMutable();
  return nullptr;
}

/// The parameter that a tensor is rounded from.
static Value stripCasts(Value tensor) {
  while (auto cast = tensor.getDefiningOp<CastOp>())
    tensor = cast.getOperand();
  return tensor;
}

/// Whether an operand is a weight that a product reads where it lies.
static bool isStationary(OpOperand &use) {
  if (findWeight(use.getOwner()) != &use)
    return false;
  auto matmul = dyn_cast<ccl::MatmulOp>(use.getOwner());
  if (!matmul)
    return true;
  FailureOr<ccl::ProductForm> form = ccl::getProductForm(matmul);
  return succeeded(form) && form->stationary == ccl::ProductForm::B;
}

llvm::StringSet<> HeldWeights::findRounded(ModuleOp module) {
  llvm::StringSet<> rounded, otherwise;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    if (!generates(function))
      continue;
    function.walk([&](CastOp cast) {
      Value parameter = cast.getOperand();
      if (!isParameter(parameter))
        return;
      const bool isRead = getElementTypeOrSelf(parameter).isF32() &&
                          getElementTypeOrSelf(cast.getResult()).isBF16() &&
                          llvm::all_of(cast->getUses(), isStationary);
      (isRead ? rounded : otherwise).insert(getParameterName(parameter));
    });
  }
  for (StringRef name : otherwise.keys())
    rounded.erase(name);
  return rounded;
}

exec::Blocks HeldWeights::getBlocks(Value b) const {
  Value weight = stripCasts(b);
  if (!isParameter(weight))
    return exec::Blocks::None;
  if (fewBits != exec::Blocks::None)
    return fewBits;
  return weight != b && generates(function) &&
                 rounded.contains(getParameterName(weight))
             ? exec::Blocks::BF16
             : exec::Blocks::None;
}

Value HeldWeights::getParameter(Value b) const {
  Value weight = getBlocks(b) == exec::Blocks::None ? b : stripCasts(b);
  return isParameter(weight) ? weight : Value();
}

bool HeldWeights::isTableOfBlocks(Value table) const {
  if (fewBits == exec::Blocks::None || !isParameter(table))
    return false;
  func::FuncOp owner = function;
  auto dims = owner.getArgAttrOfType<ArrayAttr>(
      cast<BlockArgument>(table).getArgNumber(), OptimusDialect::kDims);
  return dims && !dims.empty() &&
         dims[0] == StringAttr::get(table.getContext(), "vocabulary");
}

bool HeldWeights::isUnread(Operation *op) const {
  return isa<CastOp>(op) && getBlocks(op->getResult(0)) != exec::Blocks::None &&
         llvm::all_of(op->getUses(), [](OpOperand &use) {
           return findWeight(use.getOwner()) == &use;
         });
}

/// What the parameter of a weight goes through, if ranks move it.
static Operation *findMove(Value tensor) {
  Operation *move = nullptr;
  for (Operation *op = tensor.getDefiningOp();
       op && op->getNumOperands() == 1 &&
       (isa<CastOp>(op) || isa<ccl::CCLDialect>(op->getDialect()));
       op = tensor.getDefiningOp()) {
    if (!isa<CastOp>(op))
      move = op;
    tensor = op->getOperand(0);
  }
  return isParameter(tensor) ? move : nullptr;
}

/// The elements that a product sums on a rank, k of B [k,n].
static int64_t getSummed(Operation *op, Value weight) {
  auto type = cast<RankedTensorType>(weight.getType());
  auto extentOf = [&](ArrayRef<int64_t> shape) {
    return ShapedType::getNumElements(shape);
  };
  auto ofProduct = [&](auto matmul) {
    const int64_t contracting = matmul.getContracting();
    return extentOf(matmul.getTransposeB()
                        ? type.getShape().take_back(contracting)
                        : type.getShape().take_front(contracting));
  };
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return ofProduct(matmul);
  if (auto matmul = dyn_cast<ccl::MatmulOp>(op))
    return ofProduct(matmul);
  return type.getShape().back();
}

static LogicalResult tellOfMove(Operation *op, exec::Blocks blocks) {
  return op->emitOpError()
         << "moves a weight between ranks; expected weights of "
         << exec::stringifyBlocks(blocks)
         << " to stay where they lie: compile with --strategy megatron, or for "
            "one rank";
}

LogicalResult HeldWeights::verify() {
  if (fewBits == exec::Blocks::None)
    return success();
  auto verifyOne = [&](Operation *op) -> LogicalResult {
    auto lookup = dyn_cast<EmbeddingOp>(op);
    OpOperand *operand = lookup ? &lookup.getTableMutable() : findWeight(op);
    if (!operand)
      return success();
    Value weight = operand->get();
    if (findMove(weight))
      return tellOfMove(op, fewBits);
    Value parameter = getParameter(weight);
    if (!parameter || (lookup && !isTableOfBlocks(parameter)))
      return success();
    if (!lookup && !isStationary(*operand))
      return tellOfMove(op, fewBits);
    const int64_t summed = getSummed(op, parameter);
    if (summed % optimus_support::kBlockElements == 0)
      return success();
    return op->emitOpError()
           << "sums " << summed
           << " elements on a rank; expected a multiple of "
           << optimus_support::kBlockElements << " with weights of "
           << exec::stringifyBlocks(fewBits)
           << ", whose blocks lie on one rank each: use other extents or fewer "
              "ranks";
  };
  WalkResult result = function.walk([&](Operation *op) {
    return failed(verifyOne(op)) ? WalkResult::interrupt()
                                 : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
