//===- LowerLocalOps.cpp - Operations on local tensors that become launches *-
// C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "optimus/Dialect/Optimus/IR/AttentionShape.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// The lowering of one operation, overloaded by its class.
class LocalOpLowering {
public:
  explicit LocalOpLowering(Lowering &lowering)
      : lowering(lowering), kernels(lowering.getKernels()) {}

  //===--------------------------------------------------------------------===//
  // Elementwise
  //===--------------------------------------------------------------------===//

  void lower(AddOp op) { lowerBroadcast(op, &KernelLibrary::add); }
  void lower(MulOp op) { lowerBroadcast(op, &KernelLibrary::mul); }

  void lower(SumLeadingOp op) {
    int64_t cols = getNumElements(op.getResult());
    int64_t rows = getNumElements(op.getInput()) / cols;
    launch(kernels.sumLeading(rows, cols), op);
  }

  void lower(GeluOp op) {
    launch(kernels.gelu(getNumElements(op.getResult()), op.getExact()), op);
  }
  void lower(GeluWithSlopeOp op) {
    launch(kernels.geluWithSlope(getNumElements(op.getResult()), op.getExact()),
           op);
  }
  void lower(DropoutOp op) {
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
    lowering.launch(kernels.dropout(local, whole, scalars.size() - 1,
                                    op.getRate().convertToDouble()),
                    {in(op.getX()), in(op.getRandom()), out(op.getResult())},
                    scalars);
  }
  void lower(SqrtOp op) {
    launch(kernels.sqrt(getNumElements(op.getResult())), op);
  }
  void lower(SwigluOp op) {
    launch(kernels.swiglu(getNumElements(op.getResult())), op);
  }
  void lower(SwigluGradOp op) {
    launch(kernels.swigluGrad(getNumElements(op.getDy())), op);
  }

  //===--------------------------------------------------------------------===//
  // Normalisation
  //===--------------------------------------------------------------------===//

  void lower(LayerNormOp op) {
    launch(kernels.layerNorm(getNumRows(op.getX()), getLastDim(op.getX()),
                             op.getEpsilon().convertToDouble()),
           op);
  }

  void lower(LayerNormGradOp op) {
    int64_t rows = getNumRows(op.getX()), cols = getLastDim(op.getX());
    // First the gradients of the parameters: dx may replace dy or x.
    lowering.launch(kernels.normParamGrad(rows, cols),
                    {in(op.getDy()), in(op.getX()), in(op.getMean()),
                     in(op.getRstd()), out(op.getDgamma()),
                     out(op.getDbeta())});
    SmallVector<KernelBuffer> buffers;
    for (Value operand : op->getOperands())
      buffers.push_back(in(operand));
    buffers.push_back(out(op.getDx()));
    lowering.launch(kernels.layerNormGrad(rows, cols, bool(op.getResidual())),
                    buffers);
  }

  void lower(RowMomentsOp op) {
    auto type = cast<RankedTensorType>(op.getX().getType());
    Value real = lowering.createRealExtent(type, type.getRank() - 1);
    launch(kernels.rowMoments(getNumRows(op.getX()), getLastDim(op.getX())), op,
           real);
  }

  void lower(MergeMomentsOp op) {
    launch(kernels.mergeMoments(getNumRows(op.getMoments()), op.getCounts(),
                                op.getEpsilon().convertToDouble()),
           op);
  }

  void lower(NormalizeOp op) {
    launch(kernels.normalize(getNumRows(op.getX()), getLastDim(op.getX())), op);
  }

  void lower(NormGradSumsOp op) {
    launch(kernels.normGradSums(getNumRows(op.getX()), getLastDim(op.getX())),
           op);
  }

  void lower(NormGradApplyOp op) {
    auto type = cast<RankedTensorType>(op.getX().getType());
    Value real = lowering.createRealExtent(type, type.getRank() - 1);
    launch(kernels.normGradApply(getNumRows(op.getX()), getLastDim(op.getX()),
                                 op.getSize(), bool(op.getResidual())),
           op, real);
  }

  void lower(NormParamGradOp op) {
    launch(kernels.normParamGrad(getNumRows(op.getX()), getLastDim(op.getX())),
           op);
  }

  void lower(RmsNormOp op) {
    launch(kernels.rmsNorm(getNumRows(op.getX()), getLastDim(op.getX()),
                           op.getEpsilon().convertToDouble()),
           op);
  }

  void lower(RmsNormGradOp op) {
    int64_t rows = getNumRows(op.getX()), cols = getLastDim(op.getX());
    // First the gradient of the parameter: dx may replace dy or x.
    lowering.launch(
        kernels.rmsParamGrad(rows, cols),
        {in(op.getDy()), in(op.getX()), in(op.getRstd()), out(op.getDgamma())});
    SmallVector<KernelBuffer> buffers;
    for (Value operand : op->getOperands())
      buffers.push_back(in(operand));
    buffers.push_back(out(op.getDx()));
    lowering.launch(kernels.rmsNormGrad(rows, cols, op.getSize().value_or(cols),
                                        bool(op.getSums()),
                                        bool(op.getResidual())),
                    buffers);
  }

  void lower(RowDotOp op) {
    launch(kernels.rowDot(getNumRows(op.getA()), getLastDim(op.getA()),
                          bool(op.getWeight())),
           op);
  }

  void lower(RmsRstdOp op) {
    launch(kernels.rmsRstd(getNumElements(op.getRstd()), op.getSize(),
                           op.getEpsilon().convertToDouble()),
           op);
  }

  void lower(RmsScaleOp op) {
    launch(kernels.rmsScale(getNumRows(op.getX()), getLastDim(op.getX())), op);
  }

  //===--------------------------------------------------------------------===//
  // Attention and embedding
  //===--------------------------------------------------------------------===//

  void lower(AttentionOp op) {
    AttentionShape shape(op.getInputs());
    exec::AttentionOp::create(
        lowering.builder, lowering.location,
        getPart(op.getInputs(), shape, AttentionShape::Q),
        getPart(op.getInputs(), shape, AttentionShape::K),
        getPart(op.getInputs(), shape, AttentionShape::V),
        lowering.getBuffer(op.getResult()), lowering.getBuffer(op.getLse()),
        op.getLengths() ? lowering.getBuffer(op.getLengths()) : Value(),
        shape.batch, shape.sequence, shape.getNumHeads(), shape.groups,
        shape.headDim, shape.getStride(AttentionShape::Q),
        shape.getStride(AttentionShape::K), op.getCausal(),
        /*id=*/IntegerAttr(), /*queue=*/StringAttr(),
        /*after=*/DenseI32ArrayAttr());
  }

  void lower(AttentionGradOp op) {
    AttentionShape shape(op.getInputs());
    exec::AttentionGradOp::create(
        lowering.builder, lowering.location, lowering.getBuffer(op.getDout()),
        getPart(op.getInputs(), shape, AttentionShape::Q),
        getPart(op.getInputs(), shape, AttentionShape::K),
        getPart(op.getInputs(), shape, AttentionShape::V),
        lowering.getBuffer(op.getOut()), lowering.getBuffer(op.getLse()),
        getPart(op.getDinputs(), shape, AttentionShape::Q),
        getPart(op.getDinputs(), shape, AttentionShape::K),
        getPart(op.getDinputs(), shape, AttentionShape::V),
        op.getLengths() ? lowering.getBuffer(op.getLengths()) : Value(),
        shape.batch, shape.sequence, shape.getNumHeads(), shape.groups,
        shape.headDim, shape.getStride(AttentionShape::Q),
        shape.getStride(AttentionShape::K), op.getCausal(),
        /*id=*/IntegerAttr(), /*queue=*/StringAttr(),
        /*after=*/DenseI32ArrayAttr());
  }

  void lower(RotaryOp op) {
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(op.getX().getType()).getShape();
    launch(kernels.rotary(shape[0], shape[1],
                          getNumRows(op.getX()) / (shape[0] * shape[1]),
                          shape.back(), op.getTheta().convertToDouble(),
                          op.getInverse()),
           op);
  }

  void lower(EmbeddingOp op) {
    launch(kernels.embedding(getNumElements(op.getTokens()),
                             getNumRows(op.getTable()),
                             getLastDim(op.getTable())),
           op, lowering.createPartOffset(op.getTable().getType(), 0));
  }

  void lower(EmbeddingGradOp op) {
    Value accumulate = op.getAccumulate();
    Value result = lowering.getBuffer(op.getResult());
    if (accumulate && !lowering.shareBuffer(accumulate, op.getResult()))
      lowering.copy(lowering.getBuffer(accumulate), result);
    lowering.launch(kernels.embeddingGrad(getNumElements(op.getTokens()),
                                          getNumRows(op.getResult()),
                                          getLastDim(op.getResult()),
                                          /*zero=*/!accumulate, op.getPad()),
                    {in(op.getDy()), in(op.getTokens()),
                     accumulate ? update(result) : write(result)},
                    lowering.createPartOffset(op.getResult().getType(), 0));
  }

  void lower(LengthsOp op) {
    launch(kernels.lengths(getNumRows(op.getTokens()),
                           getLastDim(op.getTokens()), op.getPadAttr().getInt(),
                           bool(op.getTargets())),
           op, lowering.createRealExtent(op.getTokens().getType(), 1));
  }

  void lower(RowOp op) {
    int64_t cols = getLastDim(op.getTable());
    lowering.copy(lowering.slice(lowering.getBuffer(op.getTable()),
                                 op.getIndex() * cols, cols),
                  lowering.getBuffer(op.getResult()));
  }

  void lower(RowGradOp op) {
    int64_t cols = getLastDim(op.getResult());
    int64_t extent = getNumElements(op.getResult());
    Value result = lowering.getBuffer(op.getResult());
    lowering.copy({}, {result, extent}, /*rows=*/1, extent);
    lowering.copy(lowering.getBuffer(op.getDy()),
                  lowering.slice(result, op.getIndex() * cols, cols));
  }

  //===--------------------------------------------------------------------===//
  // Optimizer
  //===--------------------------------------------------------------------===//

  void lower(SumSquaresOp op) { lowerSumSquares(op, op.getSum()); }

  void lower(GlobalNormOp op) {
    lowerSumSquares(op, op.getNorm());
    Value norm = lowering.getBuffer(op.getNorm());
    lowering.launch(kernels.sqrt(1), {read(norm), write(norm)});
  }

  void lower(ClipOp op) { launch(kernels.clip(), op); }

  void lower(AdamWOp op) {
    launch(kernels.adamw(getNumElements(op.getParam()), op.getDecay()), op);
  }
  void lower(SgdOp op) {
    launch(kernels.sgd(getNumElements(op.getParam()), op.getDecay()), op);
  }
  void lower(LambDirectionOp op) {
    launch(kernels.lambDirection(getNumElements(op.getParam()), op.getDecay()),
           op);
  }
  void lower(LambUpdateOp op) {
    launch(kernels.lambUpdate(getNumElements(op.getParam()),
                              !op.getNorms().empty()),
           op);
  }

private:
  /// The buffer of q, k or v, from the first element of that part on.
  Value getPart(ValueRange tensors, const AttentionShape &shape,
                AttentionShape::Part part) {
    Value tensor = tensors[shape.getOperand(part)];
    int64_t offset = shape.getOffset(part);
    return lowering.slice(lowering.getBuffer(tensor), offset,
                          getNumElements(tensor) - offset);
  }

  KernelBuffer in(Value tensor) { return read(lowering.getBuffer(tensor)); }
  KernelBuffer out(Value tensor) { return write(lowering.getBuffer(tensor)); }

  /// Launches a kernel on all operands, then all results.
  void launch(const KernelLaunch &kernel, Operation *op,
              ArrayRef<Value> scalars = {}) {
    SmallVector<KernelBuffer> buffers;
    for (Value operand : op->getOperands())
      buffers.push_back(in(operand));
    for (Value result : op->getResults())
      buffers.push_back(out(result));
    lowering.launch(kernel, buffers, scalars);
  }

  template <typename Op>
  void lowerBroadcast(Op op,
                      KernelLaunch (KernelLibrary::*kernel)(int64_t, int64_t)) {
    int64_t cols = getNumElements(op.getRhs());
    int64_t rows = getNumElements(op.getLhs()) / cols;
    launch((kernels.*kernel)(rows, cols), op);
  }

  /// Sums of squares of blocks of each operand, then their sum, all in f64.
  void lowerSumSquares(Operation *op, Value sum) {
    int64_t numPartials = 0;
    for (Value operand : op->getOperands())
      numPartials += KernelLibrary::getNumPartials(getNumElements(operand));
    Value partials = lowering.allocateWorkspace(
        numPartials, lowering.builder.getF64Type(), "partial sums");
    int64_t offset = 0;
    for (Value operand : op->getOperands()) {
      int64_t extent = getNumElements(operand);
      int64_t count = KernelLibrary::getNumPartials(extent);
      lowering.launch(
          kernels.sumSquares(extent),
          {in(operand), write(lowering.slice(partials, offset, count))});
      offset += count;
    }
    lowering.launch(kernels.sumPartials(numPartials),
                    {read(partials), out(sum)});
  }

  Lowering &lowering;
  KernelLibrary &kernels;
};
} // namespace

LogicalResult mlir::optimus::lowerLocalOp(Operation *op, Lowering &lowering) {
  LocalOpLowering local(lowering);
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<AddOp, MulOp, SumLeadingOp, DropoutOp, GeluOp, GeluWithSlopeOp,
            SqrtOp, SwigluOp, SwigluGradOp, RmsNormOp, RmsNormGradOp, RowDotOp,
            RmsRstdOp, RmsScaleOp, RotaryOp, LayerNormOp, LayerNormGradOp,
            RowMomentsOp, MergeMomentsOp, NormalizeOp, NormGradSumsOp,
            NormGradApplyOp, NormParamGradOp, AttentionOp, AttentionGradOp,
            EmbeddingOp, EmbeddingGradOp, LengthsOp, RowOp, RowGradOp,
            SumSquaresOp, GlobalNormOp, ClipOp, AdamWOp, SgdOp, LambDirectionOp,
            LambUpdateOp>([&](auto concrete) {
        local.lower(concrete);
        return success();
      })
      .Default([](Operation *unknown) {
        return unknown->emitOpError("has no lowering to the device program");
      });
}
