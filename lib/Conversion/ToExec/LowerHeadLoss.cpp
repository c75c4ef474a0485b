//===- LowerHeadLoss.cpp - Heads, and losses in chunks of tokens *- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// For each chunk of tokens: logits = h·tableᵀ; e = exp(logits − row maximum);
// the loss from Σe and the target's logit; dlogits in place of e; then the
// chunk's partial sum to dtable, and its rows of dh, which may replace those of
// h. Where an axis shards the vocabulary, maxima and sums are reduced over it.
// Logits are f32; where h and the table are narrow, dlogits are rounded to
// their element type before they are multiplied. A target whose logits are
// narrow themselves (`Target::getLogitsForm`) keeps no exponentials: it makes
// dlogits of the logits, in their place.
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
  Value dh, dtable, dbias; ///< null without gradient, or where none reads it
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
        elements(getElementTypeOrSelf(op.h.getType())),
        form(lowering.getTarget().getLogitsForm(vocab, elements)),
        stride(form.stride), staysNarrow(!form.elements.isF32()) {}

  void run() {
    first = lowering.createPartOffset(op.table.getType(), 0);
    real = lowering.createRealExtent(op.table.getType(), 0);
    logits =
        lowering.allocateWorkspace(chunk * stride, form.elements, "logits");
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
    if (op.bias)
      bias = getBias();
    if (op.dh && !elements.isF32() && !staysNarrow)
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
    Value chunkLogits = lowering.slice(logits, 0, rows * stride);
    Gemm product{rows,        vocab,           hidden,
                 {h, hidden}, {table, hidden}, {chunkLogits, stride}};
    product.transB = true;
    product.isWeightB = isParameter(op.table);
    product.bias = bias;
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

  /// The bias as products add it: of the type of their results.
  Value getBias() {
    Value given = lowering.getBuffer(op.bias);
    if (!staysNarrow)
      return given;
    Value narrowed =
        lowering.allocateWorkspace(vocab, form.elements, "narrow bias");
    lowering.convert(given, narrowed);
    return narrowed;
  }

  void lowerSoftmax(Value chunkLogits, Value chunkSums, Value targets,
                    int64_t rows) {
    bool hasGrad = op.dh != nullptr;
    if (op.axis.empty()) {
      Kernel kernel = staysNarrow
                          ? Kernel(kernels::LogitSums{rows, stride, hasGrad})
                          : Kernel(kernels::SoftmaxSums{rows, stride, hasGrad});
      lowering.launch(
          kernel,
          {{"logits", chunkLogits}, {"targets", targets}, {"sums", chunkSums}},
          {first, real});
      return;
    }
    Value chunkMaxima = lowering.slice(maxima, 0, rows);
    lowering.launch(kernels::RowMax{.rows = rows, .cols = stride},
                    {{"logits", chunkLogits}, {"max", chunkMaxima}}, real);
    allReduce(chunkMaxima, exec::Reduction::Max);
    Kernel kernel = staysNarrow
                        ? Kernel(kernels::PartialLogitSums{rows, stride})
                        : Kernel(kernels::ExpSum{rows, stride});
    lowering.launch(kernel,
                    {{"logits", chunkLogits},
                     {"max", chunkMaxima},
                     {"targets", targets},
                     {"sums", chunkSums}},
                    {first, real});
    allReduce(chunkSums, exec::Reduction::Sum);
  }

  /// Makes dlogits where the vocabulary is sharded; where it is whole,
  /// lowerSoftmax has done it.
  void lowerLogitsGrad(Value chunkLogits, Value chunkSums, Value targets,
                       int64_t rows) {
    if (staysNarrow)
      lowering.launch(kernels::PartialLogitsGrad{rows, stride},
                      {{"logits", chunkLogits},
                       {"max", lowering.slice(maxima, 0, rows)},
                       {"sums", chunkSums},
                       {"targets", targets}},
                      {first, real});
    else
      lowering.launch(
          kernels::LogitsGrad{.rows = rows, .cols = stride},
          {{"logits", chunkLogits}, {"sums", chunkSums}, {"targets", targets}},
          first);
  }

  void lowerGradient(int64_t begin, int64_t rows, Value h, Value chunkLogits,
                     Value chunkSums, Value targets) {
    if (!op.axis.empty())
      lowerLogitsGrad(chunkLogits, chunkSums, targets, rows);
    Value dlogits = chunkLogits;
    if (narrow) {
      dlogits = lowering.slice(narrow, 0, rows * vocab);
      lowering.convert(chunkLogits, dlogits);
    }
    if (op.dtable)
      lowerTableGradient(begin, rows, h, dlogits);

    if (op.dbias)
      lowerBiasGradient(begin, rows, chunkLogits);

    Value dh = getRows(op.dh, begin, rows, localHidden);
    Value wholeDh = isGathered ? lowering.slice(partial, 0, rows * hidden) : dh;
    Gemm product{rows,
                 hidden,
                 vocab,
                 {dlogits, stride},
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

  /// Adds the chunk's part to what other chunks made.
  void lowerTableGradient(int64_t begin, int64_t rows, Value h, Value dlogits) {
    Gemm dtable{vocab,       hidden,
                rows,        {dlogits, stride},
                {h, hidden}, {lowering.getBuffer(op.dtable), hidden}};
    dtable.transA = true;
    dtable.accumulate = begin > 0;
    lowering.gemm(dtable);
  }

  /// Adds the sums of a chunk's columns to what other chunks made.
  void lowerBiasGradient(int64_t begin, int64_t rows, Value dlogits) {
    Value dbias = lowering.getBuffer(op.dbias);
    kernels::SumLeading sumRows{.rows = rows, .cols = stride};
    bool isFirst = begin == 0, hasPadding = stride != vocab;
    if (isFirst && !hasPadding) {
      lowering.launch(sumRows, {{"x", dlogits}, {"result", dbias}});
      return;
    }
    if (!partialBias)
      partialBias = lowering.allocateWorkspace(stride, "partial dbias");
    lowering.launch(sumRows, {{"x", dlogits}, {"result", partialBias}});
    Value added = lowering.slice(partialBias, 0, vocab);
    if (isFirst)
      lowering.copy(added, dbias);
    else
      lowering.launch(
          kernels::elementwise<AddOp>(lowering.getContext(), {vocab, vocab}),
          {{"operand0", dbias}, {"operand1", added}, {"result0", dbias}});
  }

  const HeadLoss &op;
  Lowering &lowering;
  int64_t numTokens, vocab, hidden, localHidden;
  bool isGathered;
  int64_t chunk;
  /// Of h and the table.
  Type elements;
  Target::LogitsForm form;
  int64_t stride;
  /// Whether logits are narrow, and dlogits are as they are multiplied.
  bool staysNarrow;
  Value first, real, bias;
  Value logits, maxima, sums, losses, gathered, partial, partialBias;
  /// dlogits as they are multiplied, where f32 is rounded for that.
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
  // Of a frozen table there is none.
  auto ifRead = [](Value gradient) {
    return gradient && !gradient.use_empty() ? gradient : Value();
  };
  form.dtable = ifRead(op.getDtable());
  form.dbias = ifRead(op.getDbias());
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

/// The logits of all tokens, in place.
static void lowerHead(HeadOp op, Lowering &lowering) {
  int64_t rows = getNumRows(op.getH()), hidden = getLastDim(op.getH());
  int64_t vocab = getNumRows(op.getTable());
  Value logits = lowering.getBuffer(op.getLogits());
  Gemm product{rows,     vocab,
               hidden,   {lowering.getBuffer(op.getH()), hidden},
               /*b=*/{}, {logits, vocab}};
  product.transB = true;
  lowering.setB(product, op.getTable(), hidden);
  product.live = lowering.getLive(op.getH());
  if (op.getBias())
    product.bias = lowering.getBuffer(op.getBias());
  lowering.gemm(product);
  Type table = op.getTable().getType();
  SmallVector<StringRef> axes = ccl::getDimAxes(table, 0);
  int64_t parts = axes.empty() ? 1 : lowering.getMesh().getProduct(axes);
  if (parts * vocab != ccl::getGlobalShape(table)[0])
    lowering.launch(kernels::PadLogits{rows, vocab}, {{"logits", logits}},
                    lowering.createRealExtent(table, 0));
}

namespace {
struct HeadLowering : LoweringModel<HeadLowering, HeadOp> {
  void lower(HeadOp op, Lowering &lowering) const { lowerHead(op, lowering); }
};

struct BestLowering : KernelModel<BestLowering, BestOp> {
  Kernel getKernel(BestOp op) const {
    const int64_t cols = getLastDim(op.getLogits());
    return kernels::Best{getNumElements(op.getLogits()) / cols, cols,
                         static_cast<int64_t>(op.getCount())};
  }
};

struct LogProbabilitiesLowering
    : KernelModel<LogProbabilitiesLowering, LogProbabilitiesOp> {
  Kernel getKernel(LogProbabilitiesOp op) const {
    return kernels::LogProbabilities{getNumElements(op.getTargets()),
                                     getLastDim(op.getLogits())};
  }
};

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
  attachModels<HeadLowering, BestLowering, LogProbabilitiesLowering,
               LocalLossLowering, LocalLossGradLowering>(context);
}

void mlir::optimus::attachDistributedLossLowerings(MLIRContext &context) {
  attachModels<DistributedLossLowering, DistributedLossGradLowering>(context);
}
