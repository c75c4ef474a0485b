//===- LowerHeadLoss.cpp - Head and loss in chunks of tokens ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// For each chunk of tokens: logits = h·tableᵀ; e = exp(logits − row maximum);
// the loss from Σe and the target's logit; dlogits in place of e; then the
// chunk's addend to dtable, and its rows of dh, which may replace those of h.
// Where an axis shards the vocabulary, maxima and sums are reduced over it.
// Logits are f32; where h and the table are narrow, dlogits are rounded to
// their element type before they are multiplied. Some targets round logits,
// too, and have one buffer for both.
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

#include "optimus/Kernels/ElementwiseKernels.h"
#include "optimus/Kernels/HeadLossKernels.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// The four operations in one form.
struct HeadLoss {
  Value h, table, targets, lossSum, realCount;
  Value bias;              ///< null where there is none
  Value dh, dtable, dbias; ///< null without gradient
  int64_t chunk;
  StringRef axis; ///< empty where the vocabulary is whole
};

class HeadLossLowering {
public:
  HeadLossLowering(const HeadLoss &op, Lowering &lowering)
      : op(op), lowering(lowering), numTokens(getNumElements(op.targets)),
        vocab(getNumRows(op.table)), hidden(getLastDim(op.table)),
        localHidden(getLastDim(op.h)), isGathered(localHidden != hidden),
        chunk(std::min(lowering.getTarget().getLossChunk(op.chunk, vocab),
                       numTokens)),
        elements(getElementTypeOrSelf(op.h.getType())) {}

  void run() {
    first = lowering.createPartOffset(op.table.getType(), 0);
    real = lowering.createRealExtent(op.table.getType(), 0);
    isNarrow = lowering.getTarget().narrowsLogits() && !elements.isF32() &&
               op.axis.empty();
    logits = lowering.allocateWorkspace(
        chunk * vocab,
        isNarrow ? elements : Float32Type::get(op.h.getContext()), "logits");
    sums = lowering.allocateWorkspace(chunk * 2, "softmax sums");
    losses = lowering.allocateWorkspace(numTokens, "token losses");
    if (!op.axis.empty())
      maxima = lowering.allocateWorkspace(chunk, "softmax maxima");
    if (isGathered) {
      gathered =
          lowering.allocateWorkspace(chunk * hidden, elements, "gathered h");
      if (op.dh)
        partial = lowering.allocateWorkspace(
            chunk * hidden, getElementTypeOrSelf(op.dh), "partial dh");
    }
    if (op.dh && !elements.isF32() && !isNarrow)
      narrow =
          lowering.allocateWorkspace(chunk * vocab, elements, "narrow dlogits");
    for (int64_t begin = 0; begin < numTokens; begin += chunk)
      lowerChunk(begin, std::min(chunk, numTokens - begin));
    lowering.launch(
        kernels::SumTokens{numTokens},
        {{"losses", losses}, {"sum", lowering.getBuffer(op.lossSum)}});
    lowering.launch(kernels::CountReal{numTokens},
                    {{"targets", lowering.getBuffer(op.targets)},
                     {"count", lowering.getBuffer(op.realCount)}});
  }

private:
  /// Rows [begin, begin + rows) of a tensor over tokens.
  Value getRows(Value tensor, int64_t begin, int64_t rows, int64_t cols) {
    return lowering.slice(lowering.getBuffer(tensor), begin * cols,
                          rows * cols);
  }

  void lowerChunk(int64_t begin, int64_t rows) {
    Value h = getRows(op.h, begin, rows, localHidden);
    if (isGathered) {
      Value whole = lowering.slice(gathered, 0, rows * hidden);
      lowering.collective({exec::CollectiveKind::AllGather,
                           op.axis,
                           {h, localHidden},
                           {whole, hidden},
                           rows,
                           localHidden});
      h = whole;
    }
    Value table = lowering.getBuffer(op.table);
    Value chunkLogits = lowering.slice(logits, 0, rows * vocab);
    Gemm product{rows,        vocab,           hidden,
                 {h, hidden}, {table, hidden}, {chunkLogits, vocab}};
    product.transB = true;
    product.isWeightB = isParameter(op.table);
    if (op.bias)
      product.bias = lowering.getBuffer(op.bias);
    lowering.gemm(product);

    Value targets = getRows(op.targets, begin, rows, 1);
    Value chunkSums = lowering.slice(sums, 0, rows * 2);
    lowerSoftmax(chunkLogits, chunkSums, targets, rows);
    lowering.launch(kernels::TokenLoss{rows},
                    {{"sums", chunkSums},
                     {"targets", targets},
                     {"losses", lowering.slice(losses, begin, rows)}});
    if (op.dh)
      lowerGradient(begin, rows, h, chunkLogits, chunkSums, targets);
  }

  void allReduce(Value buffer, exec::Reduction reduction) {
    int64_t extent = cast<MemRefType>(buffer.getType()).getNumElements();
    Collective reduce{exec::CollectiveKind::AllReduce,
                      op.axis,
                      {buffer, extent},
                      {buffer, extent},
                      1,
                      extent};
    reduce.reduction = reduction;
    lowering.collective(reduce);
  }

  void lowerSoftmax(Value chunkLogits, Value chunkSums, Value targets,
                    int64_t rows) {
    if (op.axis.empty()) {
      bool hasGrad = op.dh != nullptr;
      Kernel kernel = isNarrow
                          ? Kernel(kernels::SoftmaxOnce{rows, vocab, hasGrad})
                          : Kernel(kernels::SoftmaxSums{rows, vocab, hasGrad});
      lowering.launch(
          kernel,
          {{"logits", chunkLogits}, {"targets", targets}, {"sums", chunkSums}},
          {first, real});
      return;
    }
    Value chunkMaxima = lowering.slice(maxima, 0, rows);
    lowering.launch(kernels::RowMax{.rows = rows, .cols = vocab},
                    {{"logits", chunkLogits}, {"max", chunkMaxima}}, real);
    allReduce(chunkMaxima, exec::Reduction::Max);
    lowering.launch(kernels::ExpSum{.rows = rows, .cols = vocab},
                    {{"logits", chunkLogits},
                     {"max", chunkMaxima},
                     {"targets", targets},
                     {"sums", chunkSums}},
                    {first, real});
    allReduce(chunkSums, exec::Reduction::Sum);
  }

  void lowerGradient(int64_t begin, int64_t rows, Value h, Value chunkLogits,
                     Value chunkSums, Value targets) {
    // With the vocabulary whole, lowerSoftmax has done it.
    if (!op.axis.empty())
      lowering.launch(
          kernels::LogitsGrad{.rows = rows, .cols = vocab},
          {{"logits", chunkLogits}, {"sums", chunkSums}, {"targets", targets}},
          first);
    Value dlogits = chunkLogits;
    if (narrow) {
      dlogits = lowering.slice(narrow, 0, rows * vocab);
      lowering.convert(chunkLogits, dlogits);
    }
    Gemm dtable{vocab,       hidden,
                rows,        {dlogits, vocab},
                {h, hidden}, {lowering.getBuffer(op.dtable), hidden}};
    dtable.transA = true;
    dtable.accumulate = begin > 0;
    lowering.gemm(dtable);

    if (op.dbias)
      lowerBiasGradient(begin, rows, chunkLogits);

    Value dh = getRows(op.dh, begin, rows, localHidden);
    Value wholeDh = isGathered ? lowering.slice(partial, 0, rows * hidden) : dh;
    Gemm product{rows,
                 hidden,
                 vocab,
                 {dlogits, vocab},
                 {lowering.getBuffer(op.table), hidden},
                 {wholeDh, hidden}};
    product.isWeightB = isParameter(op.table);
    lowering.gemm(product);
    if (isGathered)
      lowering.collective({exec::CollectiveKind::ReduceScatter,
                           op.axis,
                           {wholeDh, hidden},
                           {dh, localHidden},
                           rows,
                           localHidden});
    else if (!op.axis.empty())
      allReduce(dh, exec::Reduction::Sum);
  }

  /// Adds the sums of a chunk's columns to what other chunks made.
  void lowerBiasGradient(int64_t begin, int64_t rows, Value dlogits) {
    Value dbias = lowering.getBuffer(op.dbias);
    kernels::SumLeading sumRows{.rows = rows, .cols = vocab};
    if (begin == 0) {
      lowering.launch(sumRows, {{"x", dlogits}, {"result", dbias}});
      return;
    }
    if (!biasAddend)
      biasAddend = lowering.allocateWorkspace(vocab, "bias addend");
    lowering.launch(sumRows, {{"x", dlogits}, {"result", biasAddend}});
    lowering.launch(
        kernels::elementwise<AddOp>(lowering.getContext(), {vocab, vocab}),
        {{"operand0", dbias}, {"operand1", biasAddend}, {"result0", dbias}});
  }

  const HeadLoss &op;
  Lowering &lowering;
  int64_t numTokens, vocab, hidden, localHidden;
  bool isGathered;
  int64_t chunk;
  /// Of h and the table.
  Type elements;
  Value first, real;
  Value logits, maxima, sums, losses, gathered, partial, biasAddend;
  /// Whether logits and dlogits have the elements of h and the table.
  bool isNarrow = false;
  /// dlogits as they are multiplied, where they are rounded for that.
  Value narrow;
};
} // namespace

/// What all four have.
template <typename OpT>
static HeadLoss describe(OpT op) {
  HeadLoss form;
  form.h = op.getH();
  form.table = op.getTable();
  form.targets = op.getTargets();
  form.bias = op.getBias();
  form.lossSum = op.getLossSum();
  form.realCount = op.getRealCount();
  form.chunk = op.getChunk();
  return form;
}

/// What both gradients have.
template <typename OpT>
static HeadLoss describeGradient(OpT op) {
  HeadLoss form = describe(op);
  form.dh = op.getDh();
  form.dtable = op.getDtable();
  form.dbias = op.getDbias();
  return form;
}

static LogicalResult lowerHeadLoss(Operation *op, const HeadLoss &form,
                                   Lowering &lowering) {
  if (form.chunk <= 0)
    return op->emitOpError() << "chunk must be positive, found " << form.chunk;
  int64_t localHidden = getLastDim(form.h), hidden = getLastDim(form.table);
  int64_t ranks =
      form.axis.empty() ? 1 : *lowering.getMesh().getAxisSize(form.axis);
  if (localHidden != hidden && localHidden * ranks != hidden)
    return op->emitOpError()
           << "parts of " << localHidden << " elements on " << ranks
           << " ranks do not make up the " << hidden << " columns of the table";
  HeadLossLowering(form, lowering).run();
  return success();
}

namespace {
/// After the loss sum and the count of tokens come gradients.
template <typename Model, typename OpT>
struct LossModel : LoweringModel<Model, OpT> {
  std::optional<unsigned> getFirstGradient(Operation *) const { return 2; }
};

template <typename Model, typename OpT>
struct LossGradModel : LossModel<Model, OpT> {
  /// A chunk of h is done with when the chunk of dh is written.
  InPlaceOperands getInPlaceOperands(Operation *, unsigned result) const {
    return result == 2 ? InPlaceOperands{0} : InPlaceOperands{};
  }
};

struct LocalLossLowering : LossModel<LocalLossLowering, HeadLossOp> {
  LogicalResult lower(HeadLossOp op, Lowering &lowering) const {
    return lowerHeadLoss(op, describe(op), lowering);
  }
};

struct LocalLossGradLowering
    : LossGradModel<LocalLossGradLowering, HeadLossGradOp> {
  LogicalResult lower(HeadLossGradOp op, Lowering &lowering) const {
    return lowerHeadLoss(op, describeGradient(op), lowering);
  }
};

struct DistributedLossLowering
    : LossModel<DistributedLossLowering, ccl::HeadLossOp> {
  LogicalResult lower(ccl::HeadLossOp op, Lowering &lowering) const {
    HeadLoss form = describe(op);
    form.axis = op.getAxis();
    return lowerHeadLoss(op, form, lowering);
  }
};

struct DistributedLossGradLowering
    : LossGradModel<DistributedLossGradLowering, ccl::HeadLossGradOp> {
  LogicalResult lower(ccl::HeadLossGradOp op, Lowering &lowering) const {
    HeadLoss form = describeGradient(op);
    form.axis = op.getAxis();
    return lowerHeadLoss(op, form, lowering);
  }
};
} // namespace

void mlir::optimus::attachLocalLossLowerings(MLIRContext &context) {
  attachModels<LocalLossLowering, LocalLossGradLowering>(context);
}

void mlir::optimus::attachDistributedLossLowerings(MLIRContext &context) {
  attachModels<DistributedLossLowering, DistributedLossGradLowering>(context);
}
