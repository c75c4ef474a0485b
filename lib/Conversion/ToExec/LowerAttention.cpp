//===- LowerAttention.cpp - Attention and position embedding ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

#include "optimus-support/CachePages.h"
#include "optimus/Dialect/Optimus/IR/AttentionShape.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Kernels/AttentionKernels.h"
#include "optimus/Kernels/TokenKernels.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-to-exec"

using namespace mlir;
using namespace mlir::optimus;

/// Whether all readers of a part of a packed tensor take rows apart from each
/// other, so that nothing is copied.
static bool isReadInPlace(PartOp part) {
  return llvm::all_of(part->getUses(), [](OpOperand &use) {
    Operation *reader = use.getOwner();
    // The queries of a cache's keys, or the rows that it gets.
    if (auto attention = dyn_cast<AttentionOp>(reader))
      return attention.getCached() && use.getOperandNumber() == 0;
    auto append = dyn_cast<CacheAppendOp>(reader);
    return append && &use == &append.getRowsMutable();
  });
}

/// Elements from a token of a tensor to the next one, where these are not next
/// to each other.
static std::optional<int64_t> getTokenStride(Value tensor) {
  auto part = tensor.getDefiningOp<PartOp>();
  if (!part || !isReadInPlace(part))
    return std::nullopt;
  ArrayRef<int64_t> shape = part.getPacked().getType().getShape();
  return getNumElements(part.getPacked()) / (shape[0] * shape[1]);
}

/// From a token's part to the next token's.
static int64_t getStride(ValueRange tensors, const AttentionShape &shape,
                         AttentionShape::Part part) {
  return getTokenStride(tensors[shape.getOperand(part)])
      .value_or(shape.getStride(part));
}

/// The buffer of q, k or v, from the first element of that part on.
static Value getPart(ValueRange tensors, const AttentionShape &shape,
                     AttentionShape::Part part, Lowering &lowering) {
  Value tensor = tensors[shape.getOperand(part)];
  if (getTokenStride(tensor))
    return lowering.getBuffer(tensor);
  int64_t offset = shape.getOffset(part);
  return lowering.slice(lowering.getBuffer(tensor), offset,
                        getNumElements(tensor) - offset);
}

static Value getOptional(Value tensor, Lowering &lowering) {
  return tensor ? lowering.getBuffer(tensor) : Value();
}

/// Of each sequence, by the table of them.
static std::optional<int64_t> getPagesOfEach(Value pages) {
  if (!pages)
    return std::nullopt;
  return cast<RankedTensorType>(pages.getType()).getDimSize(1);
}

namespace {
/// What an attention reads of keys of earlier tokens. A gradient reads none.
struct CachedKeys {
  explicit CachedKeys(Operation *op) {
    auto attention = dyn_cast<AttentionOp>(op);
    if (!attention || !attention.getCached())
      return;
    capacity = AttentionShape(attention.getInputs()).capacity;
    pages = attention.getPages();
    if (!pages)
      return;
    constexpr int64_t tokens = optimus_support::kPageTokens;
    capacity = *getPagesOfEach(pages) * tokens;
    auto cache = cast<RankedTensorType>(attention.getInputs()[1].getType());
    pool = cache.getDimSize(0) * cache.getDimSize(1) / tokens;
  }

  std::optional<int64_t> capacity; ///< keys of a sequence
  Value pages;                     ///< the table of them, or null
  std::optional<int64_t> pool;     ///< pages of the cache
};
} // namespace

/// A window that reaches over all keys is none.
template <typename OpT>
static IntegerAttr getWindow(OpT op, const AttentionShape &shape) {
  IntegerAttr window = op.getWindowAttr();
  const int64_t keys = CachedKeys(op).capacity.value_or(shape.capacity);
  return window && window.getInt() < keys ? window : IntegerAttr();
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

template <typename OpT>
static kernels::AttentionExtents getExtents(OpT op,
                                            const AttentionShape &shape) {
  IntegerAttr window = getWindow(op, shape);
  const CachedKeys cached(op);
  return {.batch = shape.getNumSequences(),
          .seq = shape.getNumQueries(),
          .heads = shape.getNumHeads(),
          .kvHeads = shape.groups,
          .headDim = shape.headDim,
          .qStride = getStride(op.getInputs(), shape, AttentionShape::Q),
          .kvStride = shape.getStride(AttentionShape::K),
          .causal = op.getCausal(),
          .hasLengths = bool(op.getLengths()),
          .hasPositions = bool(op.getPositions()),
          .window = window ? std::optional(window.getInt()) : std::nullopt,
          .capacity = cached.capacity,
          .pool = cached.pool};
}

namespace {
/// What the kernels of an attention and of its gradient are given.
class AttentionLaunches {
public:
  template <typename OpT>
  AttentionLaunches(OpT op, Lowering &lowering)
      : lowering(lowering), shape(op.getInputs()),
        extents(getExtents(op, shape)),
        inputs{{"q", getPart(op.getInputs(), AttentionShape::Q)},
               {"k", getPart(op.getInputs(), AttentionShape::K)},
               {"v", getPart(op.getInputs(), AttentionShape::V)}} {
    if (op.getLengths())
      inputs.push_back({"lengths", lowering.getBuffer(op.getLengths())});
    if (op.getPositions())
      inputs.push_back({"positions", lowering.getBuffer(op.getPositions())});
    if (Value pages = CachedKeys(op).pages)
      inputs.push_back({"pages", lowering.getBuffer(pages)});
  }

  void launch(AttentionOp op) {
    NamedBuffer out = {"out", lowering.getBuffer(op.getResult())};
    NamedBuffer lse = {"lse", lowering.getBuffer(op.getLse())};
    std::optional<kernels::AttentionPieces> pieces = getPieces();
    if (!pieces)
      return launch(kernels::Attention{extents}, {out, lse});
    NamedBuffer parts = {"parts", lowering.allocateWorkspace(
                                      pieces->getSize(), "parts of attention")};
    launch(*pieces, parts);
    lowering.launch(kernels::AttentionOfPieces{extents, pieces->keys},
                    {parts, out, lse});
  }

  void launch(AttentionGradOp op) {
    Value dout = lowering.getBuffer(op.getDout());
    Value lse = lowering.getBuffer(op.getLse());
    Value delta =
        lowering.allocateWorkspace(extents.getRows(), "attention delta");
    launch(kernels::AttentionQueryGrad{extents},
           {{"dout", dout},
            {"out", lowering.getBuffer(op.getOut())},
            {"lse", lse},
            {"dq", getPart(op.getDinputs(), AttentionShape::Q)},
            {"delta", delta}});
    launch(kernels::AttentionKeyGrad{extents},
           {{"dout", dout},
            {"lse", lse},
            {"delta", delta},
            {"dk", getPart(op.getDinputs(), AttentionShape::K)},
            {"dv", getPart(op.getDinputs(), AttentionShape::V)}});
  }

private:
  /// The pieces of a cache's keys, if rows are so few that each alone would be
  /// long: pages, so many that a large GPU has work for each of its warps.
  std::optional<kernels::AttentionPieces> getPieces() const {
    constexpr int64_t kLeastKeys = 2 * optimus_support::kPageTokens;
    constexpr int64_t kMostRows = 8192;
    if (!extents.capacity)
      return std::nullopt;
    auto divide = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
    const int64_t most = std::min(divide(*extents.capacity, kLeastKeys),
                                  kMostRows / extents.getRows());
    if (most < 2)
      return std::nullopt;
    const int64_t page = optimus_support::kPageTokens;
    return kernels::AttentionPieces{
        extents, divide(divide(*extents.capacity, most), page) * page};
  }

  /// As many elements of q, k or v as a kernel takes.
  Value getPart(ValueRange tensors, AttentionShape::Part part) {
    return lowering.slice(lowering.getBuffer(tensors[shape.getOperand(part)]),
                          shape.getOffset(part),
                          part == AttentionShape::Q ? extents.getQSize()
                                                    : extents.getKvSize());
  }
  void launch(const Kernel &kernel, ArrayRef<NamedBuffer> others) {
    SmallVector<NamedBuffer> buffers(inputs);
    llvm::append_range(buffers, others);
    lowering.launch(kernel, buffers);
  }

  Lowering &lowering;
  AttentionShape shape;
  kernels::AttentionExtents extents;
  SmallVector<NamedBuffer> inputs;
};
} // namespace

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

/// The command of an attention that is one.
struct AttentionCommand {
  /// What a library takes at most; null where none computes it.
  Value workspace;
};

/// Nothing for an attention that is launches.
template <typename OpT>
static FailureOr<std::optional<AttentionCommand>>
getCommand(OpT op, const AttentionShape &shape, Lowering &lowering) {
  const AttentionChoice &choice = lowering.getAttention();
  const Target &target = lowering.getTarget();
  const std::optional<AttentionCommand> builtin =
      target.hasAttention() ? std::optional(AttentionCommand()) : std::nullopt;
  if (choice.who == AttentionChoice::Builtin ||
      target.getAttentionLibrary().empty())
    return builtin;
  auto tensor = cast<RankedTensorType>(op.getInputs().front().getType());
  llvm::Expected<int64_t> bytes = target.getAttentionWorkspace(
      {shape.batch, shape.sequence, shape.getNumHeads(), shape.groups,
       shape.headDim, tensor.getElementType(),
       std::is_same_v<OpT, AttentionGradOp>, choice.isDeterministic,
       bool(op.getPositions()), bool(getWindow(op, shape))});
  if (bytes)
    return std::optional(AttentionCommand{lowering.allocateWorkspace(
        llvm::divideCeil(*bytes, sizeof(float)), "attention workspace")});
  std::string why = llvm::toString(bytes.takeError());
  if (choice.who == AttentionChoice::Library)
    return op.emitOpError()
           << "is not for " << target.getAttentionLibrary() << ": " << why
           << "; --attention auto computes it otherwise";
  LDBG() << describeLocation(op.getLoc()) << " is not for "
         << target.getAttentionLibrary() << ": " << why;
  return builtin;
}

//===----------------------------------------------------------------------===//
// The operations
//===----------------------------------------------------------------------===//

namespace {
/// An attention or its gradient, as one command or as launches of kernels.
template <typename OpT>
struct AttentionLowering : LoweringModel<AttentionLowering<OpT>, OpT> {
  LogicalResult lower(OpT op, Lowering &lowering) const {
    AttentionShape shape(op.getInputs());
    auto command = getCommand(op, shape, lowering);
    if (failed(command))
      return failure();
    if (*command)
      create(op, shape, (*command)->workspace, lowering);
    else
      AttentionLaunches(op, lowering).launch(op);
    return success();
  }

  static void create(AttentionOp op, const AttentionShape &shape,
                     Value workspace, Lowering &lowering) {
    const CachedKeys cached(op);
    auto getAttr = [&](std::optional<int64_t> number) {
      return number ? lowering.builder.getI64IntegerAttr(*number)
                    : IntegerAttr();
    };
    exec::AttentionOp::create(
        lowering.builder, lowering.location,
        getPart(op.getInputs(), shape, AttentionShape::Q, lowering),
        getPart(op.getInputs(), shape, AttentionShape::K, lowering),
        getPart(op.getInputs(), shape, AttentionShape::V, lowering),
        lowering.getBuffer(op.getResult()), lowering.getBuffer(op.getLse()),
        getOptional(op.getLengths(), lowering),
        getOptional(op.getPositions(), lowering), workspace,
        getOptional(cached.pages, lowering), shape.getNumSequences(),
        shape.getNumQueries(), shape.getNumHeads(), shape.groups, shape.headDim,
        getStride(op.getInputs(), shape, AttentionShape::Q),
        shape.getStride(AttentionShape::K), op.getCausal(),
        getWindow(op, shape), getAttr(cached.capacity), getAttr(cached.pool),
        /*id=*/IntegerAttr(), /*queue=*/StringAttr(),
        /*after=*/DenseI32ArrayAttr());
  }

  static void create(AttentionGradOp op, const AttentionShape &shape,
                     Value workspace, Lowering &lowering) {
    exec::AttentionGradOp::create(
        lowering.builder, lowering.location, lowering.getBuffer(op.getDout()),
        getPart(op.getInputs(), shape, AttentionShape::Q, lowering),
        getPart(op.getInputs(), shape, AttentionShape::K, lowering),
        getPart(op.getInputs(), shape, AttentionShape::V, lowering),
        lowering.getBuffer(op.getOut()), lowering.getBuffer(op.getLse()),
        getPart(op.getDinputs(), shape, AttentionShape::Q, lowering),
        getPart(op.getDinputs(), shape, AttentionShape::K, lowering),
        getPart(op.getDinputs(), shape, AttentionShape::V, lowering),
        getOptional(op.getLengths(), lowering),
        getOptional(op.getPositions(), lowering), workspace, shape.batch,
        shape.sequence, shape.getNumHeads(), shape.groups, shape.headDim,
        shape.getStride(AttentionShape::Q), shape.getStride(AttentionShape::K),
        op.getCausal(), getWindow(op, shape),
        lowering.getAttention().isDeterministic,
        /*id=*/IntegerAttr(), /*queue=*/StringAttr(),
        /*after=*/DenseI32ArrayAttr());
  }
};

struct CacheAppendLowering : LoweringModel<CacheAppendLowering, CacheAppendOp> {
  InPlaceOperands getInPlaceOperands(Operation *, unsigned) const {
    return {0};
  }
  void lower(CacheAppendOp op, Lowering &lowering) const {
    ArrayRef<int64_t> cache = op.getCache().getType().getShape();
    ArrayRef<int64_t> positions = op.getPositions().getType().getShape();
    const int64_t cols = getNumElements(op.getCache()) / (cache[0] * cache[1]);
    Value result = lowering.getBuffer(op.getResult());
    if (!lowering.shareBuffer(op.getCache(), op.getResult()))
      lowering.copy(lowering.getBuffer(op.getCache()), result);
    // Padding of a chunk has no position.
    const int64_t count = getNumElements(op.getPositions());
    const std::optional<int64_t> pages = getPagesOfEach(op.getPages()),
                                 stride = getTokenStride(op.getRows());
    SmallVector<NamedBuffer> buffers = {
        {"rows", lowering.slice(lowering.getBuffer(op.getRows()), 0,
                                (count - 1) * stride.value_or(cols) + cols)},
        {"positions", lowering.getBuffer(op.getPositions())},
        {"cache", result}};
    if (Value table = op.getPages())
      buffers.push_back({"pages", lowering.getBuffer(table)});
    if (!op.getSlot())
      return lowering.launch(kernels::CacheAppend{.batch = cache[0],
                                                  .seq = positions[1],
                                                  .capacity = cache[1],
                                                  .cols = cols,
                                                  .pages = pages,
                                                  .stride = stride},
                             buffers);
    buffers.push_back({"slot", lowering.getBuffer(op.getSlot())});
    lowering.launch(kernels::SlotAppend{.count = count,
                                        .slots = cache[0],
                                        .capacity = cache[1],
                                        .cols = cols,
                                        .pages = pages,
                                        .stride = stride},
                    buffers,
                    lowering.createPartOffset(op.getCache().getType(), 0));
  }
};

struct TakeLowering : KernelModel<TakeLowering, TakeOp> {
  Kernel getKernel(TakeOp op) const {
    const int64_t entries = op.getX().getType().getDimSize(0);
    const int64_t size = getNumElements(op.getResult());
    const int64_t rows = op.getX().getType().getRank() > 2
                             ? op.getResult().getType().getDimSize(1)
                             : 1;
    std::optional<int64_t> share;
    if (op.getPages())
      share = op.getX().getType().getDimSize(1);
    return kernels::Take{.entries = entries,
                         .rows = rows,
                         .cols = size / rows,
                         .hasLength = bool(op.getLength()),
                         .share = share};
  }
  Value getScalars(TakeOp op, Lowering &lowering) const {
    return lowering.createPartOffset(op.getX().getType(), 0);
  }
};

struct PartLowering : LoweringModel<PartLowering, PartOp> {
  void lower(PartOp op, Lowering &lowering) const {
    ArrayRef<int64_t> shape = op.getPacked().getType().getShape();
    const int64_t tokens = shape[0] * shape[1], parts = shape[2];
    const int64_t width = getNumElements(op.getResult()) / tokens;
    const auto index = static_cast<int64_t>(op.getIndex());
    Value from =
        lowering.slice(lowering.getBuffer(op.getPacked()), index * width,
                       (tokens * parts - index) * width);
    if (isReadInPlace(op))
      return lowering.setBuffer(op.getResult(), from);
    lowering.copy({from, parts * width},
                  {lowering.getBuffer(op.getResult()), width}, tokens, width);
  }
};

struct RotaryLowering : KernelModel<RotaryLowering, RotaryOp> {
  Kernel getKernel(RotaryOp op) const {
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(op.getX().getType()).getShape();
    return kernels::Rotary{
        .batch = shape[0],
        .seq = shape[1],
        .heads = getNumRows(op.getX()) / (shape[0] * shape[1]),
        .dim = shape.back(),
        .theta = op.getTheta().convertToDouble(),
        .inverse = op.getInverse(),
        .channels = op.getNumRotated(),
        .turned = op.getNumRotatedHeads(),
        .hasPositions = bool(op.getPositions()),
        .capacity = op.getCapacity(),
        .frequencies =
            llvm::to_vector(op.getFrequencies().value_or(ArrayRef<double>()))};
  }
};
} // namespace

void mlir::optimus::attachAttentionLowerings(MLIRContext &context) {
  attachModels<AttentionLowering<AttentionOp>,
               AttentionLowering<AttentionGradOp>, CacheAppendLowering,
               PartLowering, RotaryLowering, TakeLowering>(context);
}
