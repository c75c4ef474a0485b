//===- SumOrder.cpp - Sums that begin with products -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SumOrder.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-partition"

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// Nested sums as one.
struct FlatSum {
  /// In program order; the last one is the sum.
  SmallVector<AddOp> sums;
  SmallVector<Value> terms;

  void collect(AddOp add) {
    for (Value operand : add->getOperands()) {
      auto inner = operand.getDefiningOp<AddOp>();
      if (inner && operand.hasOneUse() && operand.getType() == add.getType())
        collect(inner);
      else
        terms.push_back(operand);
    }
    sums.push_back(add);
  }
};
} // namespace

static bool isProductTerm(Value value) {
  return value.hasOneUse() && value.getDefiningOp<MatmulOp>();
}

static bool areOneType(const FlatSum &sum) {
  return llvm::all_of(sum.terms, [&](Value term) {
    return term.getType() == AddOp(sum.sums.back()).getType();
  });
}

void mlir::optimus::addProductsFirst(func::FuncOp function, bool roundsOnce) {
  llvm::DenseSet<Operation *> seen;
  // From the last, so that a sum is met before the sums in it.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.front()))) {
    auto add = dyn_cast<AddOp>(op);
    if (!add || seen.contains(add) ||
        (roundsOnce && !getElementTypeOrSelf(add.getType()).isF32()))
      continue;
    FlatSum sum;
    sum.collect(add);
    seen.insert_range(sum.sums);
    auto numProducts = llvm::count_if(sum.terms, isProductTerm);
    if (numProducts < 2 || !areOneType(sum) ||
        std::is_partitioned(sum.terms.begin(), sum.terms.end(), isProductTerm))
      continue;
    LDBG() << "products first: " << add->getName() << " of "
           << describeLocation(add.getLoc());
    std::stable_partition(sum.terms.begin(), sum.terms.end(), isProductTerm);
    Value before = sum.terms.front();
    for (auto [each, term] :
         llvm::zip_equal(sum.sums, ArrayRef(sum.terms).drop_front())) {
      // Behind all terms.
      if (each != add)
        each->moveBefore(add);
      each->setOperands({before, term});
      before = each->getResult(0);
    }
  }
}
