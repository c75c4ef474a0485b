//===- SumInProducts.cpp - Gradients of biases in products ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/Regions.h"
#include "optimus/Kernels/ElementwiseKernels.h"
#include "optimus/Target/Passes.h"
#include "optimus/Target/Target.h"

#include "mlir/IR/Threading.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-sum-in-products"

namespace mlir::optimus {
#define GEN_PASS_DEF_SUMINPRODUCTSPASS
#include "optimus/Target/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;
using exec::CommandOpInterface;
using exec::GemmOp;
using exec::LaunchOp;

namespace {
/// A launch that does nothing but sum the rows of a matrix.
struct RowSum {
  LaunchOp launch;
  int64_t rows, cols;

  Value getMatrix() const { return LaunchOp(launch).getBuffers()[0]; }
  Value getSum() const { return LaunchOp(launch).getBuffers()[1]; }
};
} // namespace

static std::optional<RowSum> readRowSum(LaunchOp launch,
                                        const SymbolTable &symbols) {
  auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
  auto computes =
      kernel
          ? kernel->getAttrOfType<DictionaryAttr>(exec::ExecDialect::kComputes)
          : DictionaryAttr();
  auto kind = computes ? computes.getAs<StringAttr>("kind") : StringAttr();
  if (!kind || kind.getValue() != kernels::SumLeading::kKind)
    return std::nullopt;
  auto rows = computes.getAs<IntegerAttr>("rows"),
       cols = computes.getAs<IntegerAttr>("cols");
  if (!rows || !cols || launch.getBuffers().size() != 2)
    return std::nullopt;
  return RowSum{launch, rows.getInt(), cols.getInt()};
}

/// Whether a product has the matrix as its B, and nothing else in the place of
/// the sum. In f32 sums stay as they are, to the bit.
static bool fits(GemmOp gemm, const RowSum &sum) {
  return gemm.getB() == sum.getMatrix() && int64_t(gemm.getK()) == sum.rows &&
         int64_t(gemm.getN()) == sum.cols &&
         int64_t(gemm.getLdb()) == sum.cols && !gemm.getTransB() &&
         !gemm.getPackedB() && !gemm.getAccumulate() && !gemm.getBias() &&
         gemm.getEpilogue() == exec::Epilogue::None &&
         getElementTypeOrSelf(gemm.getC()) ==
             getElementTypeOrSelf(sum.getSum()) &&
         !getElementTypeOrSelf(gemm.getB()).isF32();
}

/// The first product behind the sum that could do it by itself; null if there
/// is none.
static GemmOp findFitting(const RowSum &sum) {
  LaunchOp launch = sum.launch;
  GemmOp first;
  for (Operation *user : sum.getMatrix().getUsers())
    if (auto gemm = dyn_cast<GemmOp>(user);
        gemm && gemm->getBlock() == launch->getBlock() &&
        launch->isBeforeInBlock(gemm) && fits(gemm, sum) &&
        (!first || gemm->isBeforeInBlock(first)))
      first = gemm;
  return first;
}

/// The product behind the sum that may do it, where nothing in between writes
/// the matrix or touches the sum; null if there is none.
static GemmOp findProduct(const RowSum &sum) {
  GemmOp product = findFitting(sum);
  if (!product)
    return {};
  const SmallVector<exec::MemoryRegion> matrix =
                                            exec::getRegions(sum.getMatrix()),
                                        result = exec::getRegions(sum.getSum());
  Operation *const end = product->getNextNode();
  for (Operation *op = LaunchOp(sum.launch)->getNextNode(); op != end;
       op = op->getNextNode()) {
    auto command = dyn_cast<CommandOpInterface>(op);
    if (!command)
      continue;
    const exec::CommandRegions touched = exec::getRegions(command);
    if (exec::mayOverlap(touched.written, matrix) ||
        exec::mayOverlap(touched.written, result) ||
        exec::mayOverlap(touched.read, result))
      return {};
  }
  return product;
}

namespace {
class SumInProductsPass
    : public optimus::impl::SumInProductsPassBase<SumInProductsPass> {
public:
  using SumInProductsPassBase::SumInProductsPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    return checkTarget(context, target);
  }

  void runOnOperation() override {
    if (!findTarget(target)->hasEpilogue(exec::Epilogue::BiasGrad))
      return markAllAnalysesPreserved();
    const SymbolTable symbols(getOperation());
    auto functions = llvm::filter_to_vector(
        getOperation().getOps<func::FuncOp>(),
        [](func::FuncOp function) { return function.getBody().hasOneBlock(); });
    parallelForEach(&getContext(), functions, [&](func::FuncOp function) {
      bool changed = false;
      for (auto launch :
           llvm::make_early_inc_range(function.getOps<LaunchOp>()))
        if (std::optional<RowSum> sum = readRowSum(launch, symbols))
          if (GemmOp gemm = findProduct(*sum)) {
            move(*sum, gemm);
            changed = true;
          }
      if (changed)
        exec::numberCommands(function);
    });
  }

private:
  void move(const RowSum &sum, GemmOp gemm) {
    LDBG() << "the sum of " << sum.rows << " rows of " << sum.cols
           << " by the product behind it";
    LaunchOp launch = sum.launch;
    gemm.getBiasMutable().assign(sum.getSum());
    gemm.setEpilogue(exec::Epilogue::BiasGrad);
    gemm.setKernelAttr(launch.getKernelAttr());
    launch.erase();
    ++numSums;
  }
};
} // namespace
