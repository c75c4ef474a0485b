//===- ExpandPanels.cpp - Distributed products, panel by panel --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One tensor of a product A·B = C stays where it is. The index that it lacks
// is streamed in panels, and each of the other two moves over the axis that
// shards this index in it: an operand's panel is broadcast by its owner, a
// result's panel is reduced to its owner. A panel of a tensor is a matrix of
// the tensor's memory, [outer, inner] with a leading dimension, where the
// dimensions before the streamed one make up `outer`.
//
// Products of a group are expanded together: an operand's panel that several
// of them multiply is fetched once, and the panels of a sum of products are
// added up before they are reduced.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "optimus/Dialect/Optimus/IR/Provenance.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
enum Group { M = 0, K = 1, N = 2 };

/// One of the three tensors, as a matrix whose rows and columns are groups of
/// dimensions, and its panels.
struct Operand {
  /// The tensor and where it lives.
  Value tensor, buffer;
  /// The groups of its rows and columns in memory.
  Group rowGroup, colGroup;
  int64_t rows, cols;

  /// The axis it moves over; empty where it does not move.
  StringRef axis;
  bool isStreamed = false;
  /// Whether the streamed index is in its rows.
  bool streamsRows = false;
  /// Panels this rank holds, and the panel's matrix in memory.
  int64_t numLocal = 1;
  int64_t outer = 1, inner = 1, ld = 1;
  /// The rows and columns of a panel.
  int64_t panelRows = 0, panelCols = 0;

  /// A panel that is one stretch of memory.
  bool isContiguous() const { return outer == 1 || inner == ld; }
  /// A panel that is a matrix [panelRows, panelCols] where it lies.
  bool isMatrix() const { return isContiguous() || outer == panelRows; }
  int64_t getOwner(int64_t panel) const { return panel / numLocal; }
  /// Whether it is the tensor `other`, and its panels are the same matrices.
  bool hasPanelsOf(const Operand &other) const {
    auto tie = [](const Operand &o) {
      return std::tie(o.buffer, o.rows, o.cols, o.axis, o.isStreamed,
                      o.streamsRows, o.numLocal, o.outer, o.inner, o.ld);
    };
    return tie(*this) == tie(other);
  }
};

/// One product's form, and its tensors in memory.
class PanelProduct {
public:
  PanelProduct(ccl::MatmulOp op, Lowering &lowering)
      : op(op), lowering(lowering) {}

  /// Reads the form; the product goes to `result`, its own or a sum's.
  LogicalResult describe(Value result) {
    FailureOr<ccl::ProductForm> form = ccl::getProductForm(op);
    FailureOr<ccl::ProductSharding> sharding = ccl::getProductSharding(op);
    if (failed(form) || failed(sharding))
      return op.emitOpError("has no form of distributed product");
    stationary = form->stationary;
    numPanels = form->panels;
    constexpr Group streamedOf[3] = {N, M, K};
    streamed = streamedOf[stationary];

    operands[0].rowGroup = op.getTransposeA() ? K : M;
    operands[0].colGroup = op.getTransposeA() ? M : K;
    operands[1].rowGroup = op.getTransposeB() ? N : K;
    operands[1].colGroup = op.getTransposeB() ? K : N;
    operands[2].rowGroup = M;
    operands[2].colGroup = N;
    Value values[3] = {op.getA(), op.getB(), op.getResult()};
    // Where in its group the streamed dimension stands: that of a tensor that
    // shards it, else the first.
    int64_t position = 0;
    for (int tensor = 0; tensor < 3; ++tensor)
      if (tensor != stationary && sharding->dims[tensor][streamed] >= 0)
        position =
            sharding->dims[tensor][streamed] - getDims(tensor, streamed).first;
    for (int tensor = 0; tensor < 3; ++tensor) {
      Operand &operand = operands[tensor];
      operand.tensor = tensor == 2 ? result : values[tensor];
      operand.buffer = lowering.getBuffer(operand.tensor);
      auto [firstRow, lastRow] = getDims(tensor, operand.rowGroup);
      ArrayRef<int64_t> shape = getType(tensor).getShape();
      operand.rows = getProduct(shape.slice(firstRow, lastRow - firstRow));
      operand.cols = getProduct(shape) / operand.rows;
      operand.panelRows = operand.rows;
      operand.panelCols = operand.cols;
      if (tensor != stationary &&
          failed(
              describePanels(operand, tensor, position, form->moves[tensor])))
        return failure();
    }
    return success();
  }

  /// The product of one panel, its matrices left out.
  Gemm getGemm() {
    const Operand &a = operands[0], &c = operands[2];
    bool transA = op.getTransposeA();
    Gemm gemm{transA ? a.panelCols : a.panelRows,
              c.panelCols,
              transA ? a.panelRows : a.panelCols,
              {},
              {},
              {}};
    gemm.transA = transA;
    gemm.transB = op.getTransposeB();
    gemm.weight = getStationaryWeight();
    return gemm;
  }

  ccl::MatmulOp op;
  Operand operands[3];
  int stationary = 0;
  int64_t numPanels = 0;

private:
  /// The dimensions of group `group` in tensor `tensor`, as [first, last).
  std::pair<int64_t, int64_t> getDims(int tensor, Group group) {
    Operand &operand = operands[tensor];
    int64_t rank = getType(tensor).getRank();
    int64_t contracting = op.getContracting();
    int64_t sizes[3] = {getType(0).getRank() - contracting, contracting,
                        getType(1).getRank() - contracting};
    if (operand.rowGroup == group)
      return {0, sizes[group]};
    return {rank - sizes[group], rank};
  }

  RankedTensorType getType(int tensor) {
    Value values[3] = {op.getA(), op.getB(), op.getResult()};
    return cast<RankedTensorType>(values[tensor].getType());
  }

  static int64_t getProduct(ArrayRef<int64_t> extents) {
    int64_t product = 1;
    for (int64_t extent : extents)
      product *= extent;
    return product;
  }

  LogicalResult describePanels(Operand &operand, int tensor, int64_t position,
                               StringRef axis) {
    ArrayRef<int64_t> shape = getType(tensor).getShape();
    int64_t dim = getDims(tensor, streamed).first + position;
    int64_t ranks = 1;
    if (!axis.empty())
      ranks = *lowering.getMesh().getAxisSize(axis);
    if (ranks > 1)
      operand.axis = axis;
    operand.isStreamed = true;
    operand.streamsRows = operand.rowGroup == streamed;
    if (numPanels % ranks != 0 || shape[dim] % (numPanels / ranks) != 0)
      return op.emitOpError() << "cannot shard dimension " << dim << " of "
                              << StringRef("ABC").substr(tensor, 1) << ", "
                              << shape[dim] << " on each of " << ranks
                              << " ranks, into " << numPanels << " panels";
    operand.numLocal = numPanels / ranks;
    operand.outer = getProduct(shape.take_front(dim));
    operand.ld = getProduct(shape.drop_front(dim));
    operand.inner = operand.ld / operand.numLocal;
    (operand.streamsRows ? operand.panelRows : operand.panelCols) /=
        operand.numLocal;
    return success();
  }

  /// Only an operand that stays is the same buffer in every step.
  exec::Weight getStationaryWeight() {
    exec::Weight weight = Lowering::getWeight(op.getA(), op.getB());
    bool stays =
        (weight == exec::Weight::A && stationary == ccl::ProductForm::A) ||
        (weight == exec::Weight::B && stationary == ccl::ProductForm::B);
    return stays ? weight : exec::Weight::None;
  }

  Lowering &lowering;
  Group streamed = K;
};

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
    for (int64_t panel = 0; panel < products.front().numPanels; ++panel) {
      fetched.clear();
      for (size_t index = 0; index < products.size(); ++index)
        expand(index, panel);
    }
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
    const Operand *operand;
    Matrix matrix;
  };

  /// Panel `panel` where it lies on its owner.
  Value getOwn(const Operand &operand, int64_t panel) {
    return lowering.slice(operand.buffer,
                          panel % operand.numLocal * operand.inner,
                          (operand.outer - 1) * operand.ld + operand.inner);
  }

  Value allocatePanel(const Operand &operand, int64_t panel, StringRef name) {
    return lowering.allocateWorkspace(
        operand.outer * operand.inner, lowering.builder.getF32Type(), name,
        getTensorId(operand.tensor) + " panel " + std::to_string(panel));
  }

  Value selectOwner(const Operand &operand, int64_t panel, Value own,
                    Value other) {
    return exec::SelectRankOp::create(
        lowering.builder, lowering.location, own.getType(),
        lowering.builder.getStringAttr(operand.axis),
        lowering.builder.getI64IntegerAttr(operand.getOwner(panel)), own,
        other);
  }

  /// A factor's panel on every rank, as a matrix; fetched once in a group.
  Matrix getPanel(const Operand &operand, int64_t panel) {
    if (!operand.isStreamed)
      return {operand.buffer, operand.cols};
    for (const FetchedPanel &known : fetched)
      if (known.operand->hasPanelsOf(operand))
        return known.matrix;
    Matrix matrix = fetch(operand, panel);
    fetched.push_back({&operand, matrix});
    return matrix;
  }

  Matrix fetch(const Operand &operand, int64_t panel) {
    Value own = getOwn(operand, panel);
    if (operand.axis.empty()) {
      if (operand.isMatrix())
        return getMatrix(operand, own);
      Value packed = allocatePanel(operand, panel, "packed panel");
      lowering.copy({own, operand.ld}, {packed, operand.inner}, operand.outer,
                    operand.inner);
      return {packed, operand.panelCols};
    }
    Value panelBuffer = allocatePanel(operand, panel, "received panel");
    // The owner uses its panel where it lies.
    if (operand.isContiguous())
      panelBuffer = selectOwner(operand, panel, own, panelBuffer);
    lowering.collective({exec::CollectiveKind::Broadcast,
                         operand.axis,
                         {own, operand.ld},
                         {panelBuffer, operand.inner},
                         operand.outer,
                         operand.inner,
                         operand.getOwner(panel)});
    return {panelBuffer, operand.panelCols};
  }

  /// A panel that is a matrix where it lies.
  Matrix getMatrix(const Operand &operand, Value own) {
    bool isWholeRow = operand.streamsRows || operand.isContiguous();
    return {own, isWholeRow ? operand.panelCols : operand.cols};
  }

  /// Whether a neighbour in the group goes to where product `index` does.
  bool isSummedWith(size_t index, size_t neighbour) const {
    return neighbour < products.size() &&
           products[index].operands[2].buffer ==
               products[neighbour].operands[2].buffer;
  }

  void expand(size_t index, int64_t panel) {
    PanelProduct &product = products[index];
    const Operand &c = product.operands[2];
    lowering.location = product.op.getLoc();
    Gemm gemm = product.getGemm();
    gemm.a = getPanel(product.operands[0], panel);
    gemm.b = getPanel(product.operands[1], panel);
    bool isFirst = index == 0 || !isSummedWith(index, index - 1);
    if (product.stationary == ccl::ProductForm::C) {
      gemm.c = {c.buffer, c.cols};
      gemm.accumulate = panel > 0 || !isFirst;
      lowering.gemm(gemm);
      return;
    }
    if (c.axis.empty() && c.isMatrix()) {
      gemm.c = getMatrix(c, getOwn(c, panel));
      gemm.accumulate = !isFirst;
      lowering.gemm(gemm);
      return;
    }
    if (isFirst) {
      partial = allocatePanel(c, panel, "partial panel");
      // The owner adds to its own part where the result will lie.
      if (!c.axis.empty() && c.isContiguous())
        partial = selectOwner(c, panel, getOwn(c, panel), partial);
    }
    gemm.c = {partial, c.panelCols};
    gemm.accumulate = !isFirst;
    lowering.gemm(gemm);
    if (isSummedWith(index, index + 1))
      return;
    Value own = getOwn(c, panel);
    if (c.axis.empty())
      lowering.copy({partial, c.inner}, {own, c.ld}, c.outer, c.inner);
    else
      lowering.collective({exec::CollectiveKind::Reduce,
                           c.axis,
                           {partial, c.inner},
                           {own, c.ld},
                           c.outer,
                           c.inner,
                           c.getOwner(panel)});
  }

  Lowering &lowering;
  std::vector<PanelProduct> products;
  /// The panels of the present step.
  SmallVector<FetchedPanel> fetched;
  /// The panel that the present sum is made in.
  Value partial;
};
} // namespace

LogicalResult mlir::optimus::expandPanels(ArrayRef<Operation *> group,
                                          Lowering &lowering) {
  return PanelExpansion(lowering).run(group);
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
