//===- GroupProducts.cpp - Products that move a tensor together -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queries, keys and values are products of one input, and the gradient of that
// input is the sum of three products. Expanded panel by panel together, they
// move it once. Here such products are found, brought together where nothing
// stands between them, and marked.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/CCL/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-group-products"

namespace mlir::ccl {
#define GEN_PASS_DEF_GROUPPRODUCTSPASS
#include "optimus/Dialect/CCL/Transforms/Passes.h.inc"
} // namespace mlir::ccl

using namespace mlir;
using namespace mlir::ccl;
using optimus::AddOp;

namespace {
/// Which elements of the streamed index each panel has: their number and, where
/// a panel has a slice of every block, that of the blocks.
using PanelDivision = std::pair<int64_t, int64_t>;

/// An operand that moves: the tensor, its axis, the dimension that the axis
/// shards, and the panels it moves in.
using MovingOperand = std::tuple<void *, StringRef, int64_t, PanelDivision>;

/// One product, or a sum of products whose partial results move as one.
struct ProductTerm {
  SmallVector<MatmulOp> products;
  SmallVector<AddOp> sums;
  SmallVector<MovingOperand> moving;

  void findMovingOperands();

  bool sharesWith(const ProductTerm &other) const {
    return llvm::any_of(moving, [&](const MovingOperand &operand) {
      return llvm::is_contained(other.moving, operand);
    });
  }

  SmallVector<Operation *> getOps() const {
    SmallVector<Operation *> ops(products.begin(), products.end());
    ops.append(sums.begin(), sums.end());
    return ops;
  }
};

class GroupProductsPass
    : public ccl::impl::GroupProductsPassBase<GroupProductsPass> {
public:
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock() || !optimus::getMesh(function))
      return;
    for (Operation &op : function.front())
      op.removeDiscardableAttr(kProductGroup);
    // Whichever functions this thread has had before.
    nextGroup = 0;
    std::vector<ProductTerm> terms = findTerms(function);
    while (!terms.empty()) {
      SmallVector<Operation *> group = takeGroup(terms);
      if (llvm::count_if(group, llvm::IsaPred<MatmulOp>) > 1)
        place(group);
    }
  }

private:
  std::vector<ProductTerm> findTerms(func::FuncOp function);
  SmallVector<Operation *> takeGroup(std::vector<ProductTerm> &terms);
  void place(ArrayRef<Operation *> ops);

  int64_t nextGroup = 0;
};
} // namespace

static PanelDivision getDivision(const ProductForm &form) {
  return {form.panels, form.hasOwners() ? 1 : form.blocks};
}

/// Collects the terms of `sum` if all are products whose results move over
/// one axis in as many panels and are used for nothing else.
static LogicalResult collectTerms(Value value, ProductTerm &term) {
  if (auto add = value.getDefiningOp<AddOp>()) {
    for (Value operand : add->getOperands())
      if (!operand.hasOneUse() || operand.getType() != add.getType() ||
          failed(collectTerms(operand, term)))
        return failure();
    term.sums.push_back(add);
    return success();
  }
  auto product = value.getDefiningOp<MatmulOp>();
  if (!product)
    return failure();
  FailureOr<ProductForm> form = getProductForm(product);
  if (failed(form) || form->moves[ProductForm::C].empty())
    return failure();
  if (!term.products.empty()) {
    FailureOr<ProductForm> first = getProductForm(term.products.front());
    if (getDivision(*form) != getDivision(*first) ||
        form->moves[ProductForm::C] != first->moves[ProductForm::C])
      return failure();
  }
  term.products.push_back(product);
  return success();
}

std::vector<ProductTerm> GroupProductsPass::findTerms(func::FuncOp function) {
  std::vector<ProductTerm> terms;
  llvm::DenseSet<Operation *> taken;
  // From the last, so that a sum is met before the sums in it.
  for (Operation &op : llvm::reverse(function.front())) {
    ProductTerm term;
    if (!isa<AddOp>(op) || taken.contains(&op) ||
        failed(collectTerms(op.getResult(0), term)))
      continue;
    taken.insert_range(term.getOps());
    ++numSums;
    terms.push_back(std::move(term));
  }
  for (auto product : function.getOps<MatmulOp>())
    if (!taken.contains(product))
      terms.push_back({{product}, {}, {}});
  for (ProductTerm &term : terms)
    term.findMovingOperands();
  llvm::sort(terms, [](const ProductTerm &a, const ProductTerm &b) {
    return MatmulOp(a.products.front())->isBeforeInBlock(b.products.front());
  });
  return terms;
}

void ProductTerm::findMovingOperands() {
  for (MatmulOp product : products) {
    FailureOr<ProductSharding> sharding = getProductSharding(product);
    FailureOr<ProductForm> form = getProductForm(product);
    if (failed(sharding) || failed(form))
      continue;
    Value operands[] = {product.getA(), product.getB()};
    for (auto [tensor, operand] : llvm::enumerate(operands))
      if (StringRef axis = form->moves[tensor]; !axis.empty())
        // Of all groups only the streamed one is sharded by an axis of its own.
        moving.push_back({operand.getAsOpaquePointer(), axis,
                          *llvm::max_element(sharding->dims[tensor]),
                          getDivision(*form)});
  }
}

/// The operation that makes an operand of `ops`, without casts: these come
/// along.
static Operation *getSource(Value operand, ArrayRef<Operation *> ops) {
  Operation *def = operand.getDefiningOp();
  Value source = operand;
  while (auto cast = source.getDefiningOp<optimus::CastOp>())
    source = cast->getOperand(0);
  Operation *other = source.getDefiningOp();
  return llvm::is_contained(ops, other) ? def : other;
}

/// The casts that come along, in program order.
static SmallVector<Operation *> getCasts(ArrayRef<Operation *> ops) {
  llvm::SetVector<Operation *> casts;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      while (auto cast = operand.getDefiningOp<optimus::CastOp>()) {
        casts.insert(cast);
        operand = cast->getOperand(0);
      }
  SmallVector<Operation *> sorted = casts.takeVector();
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

/// The last producer of an operand of `ops`, and the first user of a result of
/// theirs; null where there is none.
static std::pair<Operation *, Operation *>
getBounds(ArrayRef<Operation *> ops) {
  Operation *lastDef = nullptr, *firstUse = nullptr;
  auto isMember = [&](Operation *op) { return llvm::is_contained(ops, op); };
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (Operation *def = getSource(operand, ops);
          def && !isMember(def) && (!lastDef || lastDef->isBeforeInBlock(def)))
        lastDef = def;
    for (Operation *user : op->getUsers())
      if (!isMember(user) && (!firstUse || user->isBeforeInBlock(firstUse)))
        firstUse = user;
  }
  return {lastDef, firstUse};
}

static bool canStandTogether(ArrayRef<Operation *> ops) {
  auto [lastDef, firstUse] = getBounds(ops);
  return !lastDef || !firstUse || lastDef->isBeforeInBlock(firstUse);
}

/// Takes the first term and, transitively, all terms that share movement with
/// it and can stand together with it.
SmallVector<Operation *>
GroupProductsPass::takeGroup(std::vector<ProductTerm> &terms) {
  SmallVector<ProductTerm> taken = {terms.front()};
  SmallVector<Operation *> ops = terms.front().getOps();
  terms.erase(terms.begin());
  if (!canStandTogether(ops))
    return {};
  auto accept = [&](const ProductTerm &term) {
    if (llvm::none_of(taken, [&](const ProductTerm &one) {
          return term.sharesWith(one);
        }))
      return false;
    SmallVector<Operation *> wider = ops;
    wider.append(term.getOps());
    if (!canStandTogether(wider)) {
      LDBG() << "apart: " << MatmulOp::getOperationName() << " of "
             << optimus::describeLocation(
                    MatmulOp(term.products.front()).getLoc())
             << " shares movement but is needed too early or late";
      return false;
    }
    ops = std::move(wider);
    taken.push_back(term);
    return true;
  };
  for (bool grows = true; grows;) {
    auto kept = llvm::remove_if(terms, accept);
    grows = kept != terms.end();
    terms.erase(kept, terms.end());
  }
  return ops;
}

/// Puts `ops` where the first stands, or after the last that they depend on.
void GroupProductsPass::place(ArrayRef<Operation *> ops) {
  Operation *first =
      *std::min_element(ops.begin(), ops.end(), [](Operation *a, Operation *b) {
        return a->isBeforeInBlock(b);
      });
  auto [lastDef, firstUse] = getBounds(ops);
  Operation *before = first;
  if (lastDef && first->isBeforeInBlock(lastDef))
    before = lastDef->getNextNode();
  SmallVector<Operation *> casts = getCasts(ops);
  while (llvm::is_contained(ops, before) || llvm::is_contained(casts, before))
    before = before->getNextNode();
  for (Operation *cast : casts)
    if (before->isBeforeInBlock(cast))
      cast->moveBefore(before);
  for (bool isProduct : {true, false})
    for (Operation *op : ops)
      if (isa<MatmulOp>(op) == isProduct)
        op->moveBefore(before);
  Attribute group = Builder(&getContext()).getI64IntegerAttr(nextGroup++);
  for (Operation *op : ops) {
    LDBG() << "group " << group << ": " << op->getName() << " of "
           << optimus::describeLocation(op->getLoc());
    op->setAttr(kProductGroup, group);
    numGrouped += isa<MatmulOp>(op);
  }
}
