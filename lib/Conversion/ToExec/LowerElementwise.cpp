//===- LowerElementwise.cpp - One element at a time -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

#include "optimus/Dialect/Optimus/IR/Repetition.h"
#include "optimus/Kernels/ElementwiseBodyOpInterface.h"
#include "optimus/Kernels/ElementwiseKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// The lowering of every operation that has a scalar body.
struct ElementwiseLowering
    : ExecLoweringOpInterface::FallbackModel<ElementwiseLowering> {
  LogicalResult lowerToExec(Operation *op, Lowering &lowering) const {
    lowering.launch(kernels::elementwise(op), op);
    return success();
  }
  InPlaceOperands getInPlaceOperands(Operation *op, unsigned result) const {
    return getPlaces(kernels::elementwise(op), op, result);
  }
  std::optional<unsigned> getFirstGradient(Operation *) const {
    return std::nullopt;
  }
};

struct SumLeadingLowering : KernelModel<SumLeadingLowering, SumLeadingOp> {
  Kernel getKernel(SumLeadingOp op) const {
    int64_t cols = getNumElements(op.getResult());
    return kernels::SumLeading{.rows = getNumElements(op.getInput()) / cols,
                               .cols = cols};
  }
};

struct DropoutLowering : KernelModel<DropoutLowering, DropoutOp> {
  Kernel getKernel(DropoutOp op) const {
    Type type = op.getX().getType();
    ArrayRef<int64_t> local = cast<RankedTensorType>(type).getShape();
    return kernels::Dropout{
        .local = SmallVector<int64_t>(local),
        .whole = ccl::getGlobalShape(type),
        .addends = llvm::count_if(
            llvm::seq<int64_t>(local.size()),
            [&](int64_t dim) { return !ccl::getDimAxes(type, dim).empty(); }),
        .rate = op.getRate().convertToDouble()};
  }
  /// The stream, then where this rank's part begins: an addend for each
  /// dimension that is sharded.
  SmallVector<Value> getScalars(DropoutOp op, Lowering &lowering) const {
    Type type = op.getX().getType();
    SmallVector<int64_t> whole = ccl::getGlobalShape(type);
    SmallVector<Value> scalars = {lowering.createConstant(op.getStream())};
    int64_t stride = 1;
    for (int64_t dim = whole.size() - 1; dim >= 0; --dim) {
      if (!ccl::getDimAxes(type, dim).empty())
        scalars.push_back(lowering.createPartOffset(type, dim, stride));
      stride *= whole[dim];
    }
    return scalars;
  }
};

/// Of constants that are tensors a device program has these.
struct ConstantLowering : LoweringModel<ConstantLowering, arith::ConstantOp> {
  LogicalResult lower(arith::ConstantOp op, Lowering &lowering) const {
    auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
    if (elements && elements.isSplat() && elements.getElementType().isF32()) {
      lowering.launch(
          kernels::Splat{
              .n = elements.getNumElements(),
              .value = elements.getSplatValue<APFloat>().convertToDouble()},
          op);
      return success();
    }
    if (!isRepetition(op.getValue()))
      return op.emitOpError("has no lowering to the device program");
    auto type = cast<RankedTensorType>(op.getType());
    lowering.launch(kernels::Repetition{.rows = type.getDimSize(0),
                                        .cols = type.getDimSize(1)},
                    op);
    return success();
  }
};
} // namespace

void mlir::optimus::attachElementwiseLowerings(MLIRContext &context) {
  context.loadDialect<arith::ArithDialect>();
  attachModels<SumLeadingLowering, DropoutLowering, ConstantLowering>(context);
  // All of them: the look-up by dialect leaves some out, since its binary search
  // takes a three-way comparison for "less".
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<ElementwiseBodyOpInterface>())
      name.attachInterface<ElementwiseLowering>();
}
