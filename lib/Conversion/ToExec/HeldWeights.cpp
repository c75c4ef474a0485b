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
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "optimus-support/WeightBlocks.h"

using namespace mlir;
using namespace mlir::optimus;

HeldWeights::HeldWeights(func::FuncOp function, exec::Blocks blocks)
    : function(function),
      blocks(llvm::is_contained(kGenerationKinds, getEntryKind(function))
                 ? blocks
                 : exec::Blocks::None) {}

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

Value HeldWeights::getParameter(Value b) const {
  Value weight = blocks == exec::Blocks::None ? b : stripCasts(b);
  return isParameter(weight) ? weight : Value();
}

bool HeldWeights::isTableOfBlocks(Value table) const {
  if (blocks == exec::Blocks::None || !isParameter(table))
    return false;
  func::FuncOp owner = function;
  auto dims = owner.getArgAttrOfType<ArrayAttr>(
      cast<BlockArgument>(table).getArgNumber(), OptimusDialect::kDims);
  return dims && !dims.empty() &&
         dims[0] == StringAttr::get(table.getContext(), "vocabulary");
}

bool HeldWeights::isUnread(Operation *op) const {
  return blocks != exec::Blocks::None && isa<CastOp>(op) &&
         getParameter(op->getResult(0)) &&
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
  if (blocks == exec::Blocks::None)
    return success();
  auto verifyOne = [&](Operation *op) -> LogicalResult {
    auto lookup = dyn_cast<EmbeddingOp>(op);
    OpOperand *operand = lookup ? &lookup.getTableMutable() : findWeight(op);
    if (!operand)
      return success();
    Value weight = operand->get();
    if (findMove(weight))
      return tellOfMove(op, blocks);
    Value parameter = getParameter(weight);
    if (!parameter || (lookup && !isTableOfBlocks(parameter)))
      return success();
    if (auto matmul = dyn_cast<ccl::MatmulOp>(op)) {
      FailureOr<ccl::ProductForm> form = ccl::getProductForm(matmul);
      if (failed(form) || form->stationary != ccl::ProductForm::B)
        return tellOfMove(op, blocks);
    }
    const int64_t summed = getSummed(op, parameter);
    if (summed % optimus_support::kBlockElements == 0)
      return success();
    return op->emitOpError()
           << "sums " << summed
           << " elements on a rank; expected a multiple of "
           << optimus_support::kBlockElements << " with weights of "
           << exec::stringifyBlocks(blocks)
           << ", whose blocks lie on one rank each: use other extents or fewer "
              "ranks";
  };
  WalkResult result = function.walk([&](Operation *op) {
    return failed(verifyOne(op)) ? WalkResult::interrupt()
                                 : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
