//===- ExpandPanels.cpp - Distributed products, panel by panel --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One tensor of a product A·B = C stays where it is. The index missing in it is
// streamed in panels, and each of the other two moves over its sharding axis of
// this index. A panel that belongs to one rank is broadcast by it, or reduced
// to it. One with a slice of every rank's part is gathered from them, or
// scattered to them. A rank's part of a panel is a matrix of the tensor's
// memory, [outer, inner] with a leading dimension, where the dimensions before
// the streamed one make up `outer`.
//
// An index of 12 on an axis of 3 ranks, where the other tensor moves over an
// axis of 2, has 6 blocks of 2 elements:
//
//   6 panels:  00 11 22 33 44 55    each of one rank in either tensor
//   2 panels:  01 01 01 01 01 01    slices of 2 blocks on each of 3 ranks
//   1 panel:   00 00 00 00 00 00    the tensor whole
//
// Products of a group are expanded together: an operand's panel that several
// of them multiply is fetched once, and the panels of a sum of products are
// added up before they are reduced.
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"
#include "PanelProduct.h"

#include "optimus/Dialect/Optimus/IR/Provenance.h"

using namespace mlir;
using namespace mlir::optimus;

/// The id of a tensor; an argument's is what the program calls it.
static std::string getTensorId(Value tensor) {
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument)
    return getValueId(cast<OpResult>(tensor));
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  for (StringRef name : {OptimusDialect::kParam, OptimusDialect::kBinding})
    if (auto text = function.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), name))
      return text.str();
  return "argument " + std::to_string(argument.getArgNumber());
}

namespace {
/// Emits the panels of products that are expanded together.
class PanelExpansion {
public:
  explicit PanelExpansion(Lowering &lowering) : lowering(lowering) {}

  LogicalResult run(ArrayRef<Operation *> group) {
    for (Operation *op : group) {
      auto product = dyn_cast<ccl::MatmulOp>(op);
      if (!product) {
        if (failed(checkSum(op, group)))
          return failure();
        continue;
      }
      products.emplace_back(product, lowering);
      if (failed(products.back().describe(getSum(product, group))))
        return failure();
      if (products.back().numPanels != products.front().numPanels)
        return product.emitOpError("has ")
               << products.back().numPanels
               << " panels, the first product of its group "
               << products.front().numPanels;
    }
    const int64_t numPanels = products.front().numPanels;
    for (int64_t panel = 0; panel < numPanels; ++panel) {
      fetched.clear();
      // Copies keep their place among products. So that a panel can move while
      // the one before it is multiplied, it is packed before that.
      SmallVector<PreparedPanel> next;
      if (panel + 1 < numPanels)
        next = packAhead(panel + 1);
      for (size_t index = 0; index < products.size(); ++index)
        expand(index, panel);
      prepared = std::move(next);
    }
    for (const ScatteredPanel &panel : scattered)
      finish(panel);
    return success();
  }

  /// What `product` is added to in its group in the end; its result if to
  /// nothing.
  static Value getSum(ccl::MatmulOp product, ArrayRef<Operation *> group) {
    Value sum = product.getResult();
    while (sum.hasOneUse() &&
           llvm::is_contained(group, *sum.getUsers().begin()) &&
           isa<AddOp>(*sum.getUsers().begin()))
      sum = sum.getUsers().begin()->getResult(0);
    return sum;
  }

private:
  /// A sum in a group is one of neighbours in it, and of nothing else.
  static LogicalResult checkSum(Operation *op, ArrayRef<Operation *> group) {
    int64_t first = group.size(), last = -1, count = 0;
    std::function<bool(Operation *)> collect = [&](Operation *addend) {
      const auto *found = llvm::find(group, addend);
      if (!addend || found == group.end() ||
          (addend != op && !addend->getResult(0).hasOneUse()))
        return false;
      if (isa<AddOp>(addend))
        return llvm::all_of(addend->getOperands(), [&](Value operand) {
          return collect(operand.getDefiningOp());
        });
      int64_t index = found - group.begin();
      first = std::min(first, index);
      last = std::max(last, index);
      ++count;
      return isa<ccl::MatmulOp>(addend);
    };
    if (!isa<AddOp>(op) || !collect(op) || last - first + 1 != count)
      return op->emitOpError("is in a group of products, but is not a sum of "
                             "neighbours in it");
    return success();
  }

  struct FetchedPanel {
    const PanelOperand *operand;
    Matrix matrix;
  };

  /// A factor's panel that is ready to move.
  struct PreparedPanel {
    const PanelOperand *operand;
    Movement movement;
    Matrix matrix;
  };

  /// A result's panel that is on its way, and copied to its place later.
  struct ScatteredPanel {
    const PanelOperand *operand;
    Movement movement;
    /// The place of this rank's part, and a packed one that comes before it.
    Matrix own;
    Value packed;
  };

  /// This rank's part of panel `panel` where it lies, as rows of slices; the
  /// whole panel on its owner.
  Matrix getOwn(const PanelOperand &operand, int64_t panel) {
    int64_t inner = operand.getSliceInner(), ld = operand.getSliceLd();
    return {lowering.slice(operand.buffer, panel % operand.numLocal * inner,
                           (operand.outer * operand.slices - 1) * ld + inner),
            ld};
  }

  /// Copies between a rank's part of a panel where it lies and a packed one.
  void copyPart(const PanelOperand &operand, Matrix own, Value packed,
                bool packs) {
    Matrix dense{packed, operand.getSliceInner()};
    lowering.copy(packs ? own : dense, packs ? dense : own,
                  operand.outer * operand.slices, operand.getSliceInner());
  }

  static Type getElements(const PanelOperand &operand) {
    return cast<RankedTensorType>(operand.tensor.getType()).getElementType();
  }

  Value allocatePanel(const PanelOperand &operand, int64_t panel,
                      StringRef name) {
    return lowering.allocateWorkspace(
        operand.outer * operand.getPanelInner(), getElements(operand), name,
        getTensorId(operand.tensor) + " panel " + std::to_string(panel));
  }

  /// A packed place for this rank's part of a panel.
  Value allocatePart(const PanelOperand &operand, int64_t panel) {
    return lowering.allocateWorkspace(
        operand.outer * operand.inner, getElements(operand), "packed part",
        getTensorId(operand.tensor) + " panel " + std::to_string(panel));
  }

  Value selectOwner(const PanelOperand &operand, int64_t panel, Value own,
                    Value other) {
    return exec::SelectRankOp::create(
        lowering.builder, lowering.location, own.getType(),
        lowering.builder.getStringAttr(operand.axis),
        lowering.builder.getI64IntegerAttr(operand.getOwner(panel)), own,
        other);
  }

  /// A factor's panel on every rank, as a matrix; fetched once in a group.
  Matrix getPanel(const PanelOperand &operand, int64_t panel) {
    if (!operand.isStreamed)
      return {operand.buffer, operand.cols};
    for (const FetchedPanel &known : fetched)
      if (known.operand->hasPanelsOf(operand))
        return known.matrix;
    Matrix matrix = fetch(operand, panel);
    fetched.push_back({&operand, matrix});
    return matrix;
  }

  Matrix fetch(const PanelOperand &operand, int64_t panel) {
    if (operand.axis.empty()) {
      Matrix own = getOwn(operand, panel);
      if (operand.isMatrix())
        return getMatrix(operand, own.buffer);
      Value packed = allocatePanel(operand, panel, "packed panel");
      copyPart(operand, own, packed, /*packs=*/true);
      return {packed, operand.panelCols};
    }
    auto *known = llvm::find_if(prepared, [&](const PreparedPanel &other) {
      return other.operand->hasPanelsOf(operand);
    });
    PreparedPanel ready =
        known != prepared.end() ? *known : prepare(operand, panel);
    lowering.finish(ready.movement);
    return ready.matrix;
  }

  /// How a factor's panel moves, as it lies.
  Collective getMove(const PanelOperand &operand, int64_t panel, Value own,
                     Value panelBuffer) {
    Collective collective{exec::CollectiveKind::Broadcast,
                          operand.axis,
                          {own, operand.ld},
                          {panelBuffer, operand.getPanelInner()},
                          operand.outer,
                          operand.inner};
    if (operand.sharers > 1)
      collective.kind = exec::CollectiveKind::AllGather;
    else
      collective.root = operand.getOwner(panel);
    return collective;
  }

  /// Packs a factor's panel where it must be.
  PreparedPanel prepare(const PanelOperand &operand, int64_t panel) {
    Matrix own = getOwn(operand, panel);
    Value panelBuffer = allocatePanel(operand, panel, "received panel");
    // The owner uses its panel where it lies.
    if (operand.sharers == 1 && operand.isContiguous())
      panelBuffer = selectOwner(operand, panel, own.buffer, panelBuffer);
    Collective collective = getMove(operand, panel, own.buffer, panelBuffer);
    if (operand.sharers > 1 && !operand.isWhole()) {
      collective.src = {allocatePart(operand, panel), operand.inner};
      copyPart(operand, own, collective.src.buffer, /*packs=*/true);
    }
    return {
        &operand, lowering.pack(collective), {panelBuffer, operand.panelCols}};
  }

  /// Prepares those factors' panels that are packed before they move.
  SmallVector<PreparedPanel> packAhead(int64_t panel) {
    SmallVector<PreparedPanel> next;
    for (PanelProduct &product : products)
      for (const PanelOperand &operand :
           ArrayRef(product.operands).take_front(2)) {
        if (!operand.isStreamed || operand.axis.empty() ||
            llvm::any_of(next, [&](const PreparedPanel &known) {
              return known.operand->hasPanelsOf(operand);
            }))
          continue;
        // The strides alone decide.
        Collective collective =
            getMove(operand, panel, operand.buffer, operand.buffer);
        lowering.location = product.op.getLoc();
        if (lowering.packs(collective) ||
            (operand.sharers > 1 && !operand.isWhole()))
          next.push_back(prepare(operand, panel));
      }
    return next;
  }

  /// Brings the partial sums of a result's panel to where they belong.
  void reduce(const PanelOperand &c, int64_t panel) {
    Matrix own = getOwn(c, panel);
    if (c.axis.empty()) {
      copyPart(c, own, partial, /*packs=*/false);
      return;
    }
    Collective collective{
        exec::CollectiveKind::Reduce, c.axis,  {partial, c.getPanelInner()},
        {own.buffer, c.ld},           c.outer, c.inner};
    if (c.sharers == 1) {
      collective.root = c.getOwner(panel);
      lowering.collective(collective);
      return;
    }
    collective.kind = exec::CollectiveKind::ReduceScatter;
    Value packed;
    if (!c.isWhole()) {
      packed = allocatePart(c, panel);
      collective.dst = {packed, c.inner};
    }
    ScatteredPanel present{&c, lowering.pack(collective), own, packed};
    if (!packed && !lowering.unpacks(collective)) {
      lowering.finish(present.movement);
      return;
    }
    // Copies behind it would keep the next product waiting.
    auto *before = llvm::find_if(scattered, [&](const ScatteredPanel &other) {
      return other.operand == &c;
    });
    if (before == scattered.end()) {
      scattered.push_back(present);
      return;
    }
    finish(*before);
    *before = present;
  }

  void finish(const ScatteredPanel &panel) {
    lowering.finish(panel.movement);
    if (panel.packed)
      copyPart(*panel.operand, panel.own, panel.packed, /*packs=*/false);
  }

  /// A panel that is a matrix where it lies.
  Matrix getMatrix(const PanelOperand &operand, Value own) {
    bool isWholeRow = operand.streamsRows || operand.isContiguous();
    return {own, isWholeRow ? operand.panelCols : operand.cols};
  }

  /// Whether a neighbour in the group goes to where product `index` does.
  bool isSummedWith(size_t index, size_t neighbour) const {
    return neighbour < products.size() &&
           products[index].operands[2].buffer ==
               products[neighbour].operands[2].buffer;
  }

  /// Adds a product to the sum in `matrix`, that of `operand` or of a panel of
  /// it. A narrow sum of several is kept in f32 up to the last one, which
  /// rounds it.
  void addProduct(Gemm gemm, const PanelOperand &operand, Matrix matrix,
                  bool isFirst, bool isLast) {
    gemm.c = matrix;
    if (getElements(operand).isF32() || (isFirst && isLast)) {
      gemm.accumulate = !isFirst;
      lowering.gemm(gemm);
      return;
    }
    Value &sum = wideSums[operand.buffer];
    if (isFirst)
      sum = lowering.allocateWorkspace(gemm.m * gemm.n,
                                       lowering.builder.getF32Type(), "f32 sum",
                                       getTensorId(operand.tensor));
    if (isLast && lowering.getTarget().mixesElements()) {
      gemm.epilogue = exec::Epilogue::Add;
      gemm.extra = {sum, gemm.n};
      lowering.gemm(gemm);
      return;
    }
    gemm.c = {sum, gemm.n};
    gemm.accumulate = !isFirst;
    lowering.gemm(gemm);
    if (isLast)
      round(sum, matrix, gemm.m, gemm.n, operand);
  }

  /// Rounds a sum in f32 to the elements of `operand`, in rows that may lie
  /// apart.
  void round(Value sum, Matrix matrix, int64_t rows, int64_t cols,
             const PanelOperand &operand) {
    if (matrix.ld == cols)
      return lowering.convert(sum,
                              lowering.slice(matrix.buffer, 0, rows * cols));
    Value narrow =
        lowering.allocateWorkspace(rows * cols, getElements(operand),
                                   "narrow sum", getTensorId(operand.tensor));
    lowering.convert(sum, narrow);
    lowering.copy({narrow, cols}, matrix, rows, cols);
  }

  void expand(size_t index, int64_t panel) {
    PanelProduct &product = products[index];
    const PanelOperand &c = product.operands[2];
    lowering.location = product.op.getLoc();
    Gemm gemm = product.getGemm();
    gemm.a = getPanel(product.operands[0], panel);
    gemm.b = getPanel(product.operands[1], panel);
    bool isFirst = index == 0 || !isSummedWith(index, index - 1);
    bool isLast = !isSummedWith(index, index + 1);
    if (product.stationary == ccl::ProductForm::C) {
      addProduct(gemm, c, {c.buffer, c.cols}, panel == 0 && isFirst,
                 panel + 1 == product.numPanels && isLast);
      return;
    }
    if (c.axis.empty() && c.isMatrix()) {
      addProduct(gemm, c, getMatrix(c, getOwn(c, panel).buffer), isFirst,
                 isLast);
      return;
    }
    if (isFirst) {
      partial = allocatePanel(c, panel, "partial panel");
      // The owner adds to its own part where the result will lie.
      if (!c.axis.empty() && c.sharers == 1 && c.isContiguous())
        partial = selectOwner(c, panel, getOwn(c, panel).buffer, partial);
    }
    addProduct(gemm, c, {partial, c.panelCols}, isFirst, isLast);
    if (isLast)
      reduce(c, panel);
  }

  Lowering &lowering;
  std::vector<PanelProduct> products;
  /// The panels of the present step.
  SmallVector<FetchedPanel> fetched;
  /// Of these, what was packed in the step before.
  SmallVector<PreparedPanel> prepared;
  /// The last panel of each result whose copies are still to come.
  SmallVector<ScatteredPanel> scattered;
  /// The panel that the present sum is made in.
  Value partial;
  /// By the buffers of narrow sums, what they are so far.
  llvm::DenseMap<Value, Value> wideSums;
};
} // namespace

LogicalResult mlir::optimus::expandPanels(ArrayRef<Operation *> group,
                                          Lowering &lowering) {
  return PanelExpansion(lowering).run(group);
}

namespace {
struct PanelLowering : LoweringModel<PanelLowering, ccl::MatmulOp> {
  LogicalResult lower(ccl::MatmulOp op, Lowering &lowering) const {
    return expandPanels(op.getOperation(), lowering);
  }
};
} // namespace

void mlir::optimus::attachPanelLowering(MLIRContext &context) {
  attachModels<PanelLowering>(context);
}

bool mlir::optimus::canExpandTogether(ArrayRef<Operation *> group,
                                      const Lowering &lowering) {
  for (Operation *op : group) {
    auto product = dyn_cast<ccl::MatmulOp>(op);
    if (!product)
      continue;
    Value sum = PanelExpansion::getSum(product, group);
    for (Operation *other : group)
      if (isa<ccl::MatmulOp>(other) &&
          llvm::any_of(other->getOperands(), [&](Value operand) {
            return lowering.shareBuffer(sum, operand);
          }))
        return false;
  }
  return true;
}
