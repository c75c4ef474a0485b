//===- LowerElementwise.cpp - One element at a time -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
struct AddLowering : LoweringModel<AddLowering, AddOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0, 1};
  }
  void lower(AddOp op, Lowering &lowering) const {
    int64_t cols = getNumElements(op.getRhs());
    int64_t rows = getNumElements(op.getLhs()) / cols;
    lowering.launch(lowering.getKernels().add(rows, cols), op);
  }
};

struct MulLowering : LoweringModel<MulLowering, MulOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0, 1};
  }
  void lower(MulOp op, Lowering &lowering) const {
    int64_t cols = getNumElements(op.getRhs());
    int64_t rows = getNumElements(op.getLhs()) / cols;
    lowering.launch(lowering.getKernels().mul(rows, cols), op);
  }
};

struct SumLeadingLowering : LoweringModel<SumLeadingLowering, SumLeadingOp> {
  void lower(SumLeadingOp op, Lowering &lowering) const {
    int64_t cols = getNumElements(op.getResult());
    int64_t rows = getNumElements(op.getInput()) / cols;
    lowering.launch(lowering.getKernels().sumLeading(rows, cols), op);
  }
};

struct GeluLowering : LoweringModel<GeluLowering, GeluOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0};
  }
  void lower(GeluOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().gelu(getNumElements(op.getResult()),
                                               op.getExact()),
                    op);
  }
};

struct GeluWithSlopeLowering
    : LoweringModel<GeluWithSlopeLowering, GeluWithSlopeOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0};
  }
  void lower(GeluWithSlopeOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().geluWithSlope(
                        getNumElements(op.getResult()), op.getExact()),
                    op);
  }
};

struct CastLowering : LoweringModel<CastLowering, CastOp> {
  void lower(CastOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().cast(
                        getNumElements(op.getResult()),
                        getElementTypeOrSelf(op.getInput().getType()),
                        getElementTypeOrSelf(op.getResult().getType())),
                    op);
  }
};

struct SqrtLowering : LoweringModel<SqrtLowering, SqrtOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0};
  }
  void lower(SqrtOp op, Lowering &lowering) const {
    lowering.launch(lowering.getKernels().sqrt(getNumElements(op.getResult())),
                    op);
  }
};

struct SwigluLowering : LoweringModel<SwigluLowering, SwigluOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0, 1};
  }
  void lower(SwigluOp op, Lowering &lowering) const {
    lowering.launch(
        lowering.getKernels().swiglu(getNumElements(op.getResult())), op);
  }
};

struct SwigluGradLowering : LoweringModel<SwigluGradLowering, SwigluGradOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0, 1, 2};
  }
  void lower(SwigluGradOp op, Lowering &lowering) const {
    lowering.launch(
        lowering.getKernels().swigluGrad(getNumElements(op.getDy())), op);
  }
};

struct DropoutLowering : LoweringModel<DropoutLowering, DropoutOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0};
  }
  void lower(DropoutOp op, Lowering &lowering) const {
    Type type = op.getX().getType();
    ArrayRef<int64_t> local = cast<RankedTensorType>(type).getShape();
    SmallVector<int64_t> whole = ccl::getGlobalShape(type);
    // The stream, then where this rank's part begins: an addend for each
    // dimension that is sharded.
    SmallVector<Value> scalars = {lowering.createConstant(op.getStream())};
    int64_t stride = 1;
    for (int64_t dim = local.size() - 1; dim >= 0; --dim) {
      if (!ccl::getDimAxes(type, dim).empty())
        scalars.push_back(lowering.createPartOffset(type, dim, stride));
      stride *= whole[dim];
    }
    lowering.launch(
        lowering.getKernels().dropout(local, whole, scalars.size() - 1,
                                      op.getRate().convertToDouble()),
        op, scalars);
  }
};
} // namespace

void mlir::optimus::attachElementwiseLowerings(MLIRContext &context) {
  attachModels<AddLowering, MulLowering, SumLeadingLowering, GeluLowering,
               GeluWithSlopeLowering, CastLowering, SqrtLowering,
               SwigluLowering, SwigluGradLowering, DropoutLowering>(context);
}
