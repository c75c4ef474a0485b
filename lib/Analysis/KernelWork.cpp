//===- KernelWork.cpp - What the body of a kernel computes ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/KernelWork.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "optimus-support/SeenKeys.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// The cost of a scalar division, and of a function of the mathematics library,
/// in dependent operations.
constexpr double kDivisionInOps = 4, kFunctionInOps = 20;
/// The instructions of kernels to widen bf16 and to round to it, with integers.
constexpr double kToWiden = 2, kToRound = 8;
/// To multiply integers to twice their width, low and high halves apart: twelve
/// on x86-64, of which ten shuffle, one in the time of two others.
constexpr double kToMultiplyWide = 20;
/// An instruction takes as long as a multiplication and an addition in one.
constexpr double kOpsOfInstruction = 2;

/// What decides a launch's work, beside its kernel.
struct LaunchNumbers {
  explicit LaunchNumbers(exec::LaunchOp launch)
      : extent(launch.getExtent().value_or(1)) {
    for (Value buffer : launch.getBuffers())
      largest = std::max(largest,
                         cast<MemRefType>(buffer.getType()).getNumElements());
    for (Value scalar : launch.getScalars()) {
      APInt value;
      bool isConstant = matchPattern(scalar, m_ConstantInt(&value));
      scalars.push_back(isConstant ? value.getSExtValue() : largest / extent);
    }
  }

  int64_t extent, largest = 1;
  SmallVector<int64_t, 2> scalars;
};

class WorkCounter {
public:
  WorkCounter(const LaunchNumbers &launch, func::FuncOp kernel)
      : extent(launch.extent), largest(launch.largest) {
    Block &body = kernel.front();
    known[body.getArgument(0)] = 0;
    known[body.getArgument(1)] = extent;
    for (auto [argument, scalar] :
         llvm::zip_equal(body.getArguments().take_back(launch.scalars.size()),
                         launch.scalars))
      known[argument] = scalar;
  }

  KernelWork count(Block &block, double times) {
    KernelWork work;
    for (Operation &op : block)
      work += count(&op, times);
    return work;
  }

private:
  KernelWork count(Operation *op, double times);
  KernelWork countElements(Operation *op, double times);
  KernelWork countBranches(scf::IfOp branch, double times);
  std::optional<int64_t> evaluate(Value value);
  double getTrips(scf::ForOp loop);

  const int64_t extent, largest;
  /// Integers by value: an induction variable has its first one.
  llvm::DenseMap<Value, std::optional<int64_t>> known;
  /// Of loops of known bounds, where each iteration has the next number.
  struct Range {
    int64_t begin, end;
  };
  llvm::DenseMap<Value, Range> ranges;
};
} // namespace

static bool isContracted(Value product) {
  auto multiply = product.getDefiningOp<arith::MulFOp>();
  return multiply && multiply->hasOneUse() &&
         arith::bitEnumContainsAll(multiply.getFastmath(),
                                   arith::FastMathFlags::contract);
}

/// Whether the only reader of a product adds it, in one instruction with it. A
/// sum of two products takes the first so.
static bool isFused(Operation *op) {
  if (op->getNumResults() != 1 || !isContracted(op->getResult(0)))
    return false;
  Operation *sum = *op->user_begin();
  return isa<arith::AddFOp, arith::SubFOp>(sum) &&
         (sum->getOperand(0) == op->getResult(0) ||
          !isContracted(sum->getOperand(0)));
}

/// The instructions of a computation on one element, divisions excepted.
static double getInstructions(Operation *op) {
  auto isNarrow = [](Value value) {
    return getElementTypeOrSelf(value).isBF16();
  };
  if (isa<math::MathDialect>(op->getDialect()))
    return kFunctionInOps;
  if (isa<arith::ExtFOp>(op) && isNarrow(op->getOperand(0)))
    return kToWiden;
  if (isa<arith::TruncFOp>(op) && isNarrow(op->getResult(0)))
    return kToRound;
  return isa<arith::MulUIExtendedOp>(op) ? kToMultiplyWide : 1;
}

/// The room that elements take in registers, of 32 bits 1.
static double getWidth(Operation *op) {
  auto isWide = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return element.isF64() || element.isInteger(64);
  };
  return llvm::any_of(op->getOperandTypes(), isWide) ||
                 llvm::any_of(op->getResultTypes(), isWide)
             ? 2
             : 1;
}

static IntegerAttr getConstant(Type type, int64_t integer) {
  unsigned width = type.isIndex() ? IndexType::kInternalStorageBitWidth
                                  : type.getIntOrFloatBitWidth();
  return IntegerAttr::get(type, APInt(width, integer, /*isSigned=*/true,
                                      /*implicitTrunc=*/true));
}

std::optional<int64_t> WorkCounter::evaluate(Value value) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumResults() != 1 || op->getNumOperands() == 0)
    return std::nullopt;
  SmallVector<Attribute> operands;
  for (Value operand : op->getOperands()) {
    std::optional<int64_t> integer = evaluate(operand);
    if (!integer || !operand.getType().isIntOrIndex())
      return known[value] = std::nullopt;
    operands.push_back(getConstant(operand.getType(), *integer));
  }
  // Of operations whose operands are all known, folding changes none in place.
  SmallVector<OpFoldResult> folded;
  if (failed(op->fold(operands, folded)) || folded.empty())
    return known[value] = std::nullopt;
  return known[value] = getConstantIntValue(folded.front());
}

double WorkCounter::getTrips(scf::ForOp loop) {
  std::optional<int64_t> begin = evaluate(loop.getLowerBound()),
                         end = evaluate(loop.getUpperBound()),
                         step = evaluate(loop.getStep());
  known[loop.getInductionVar()] = begin;
  double unit = step.value_or(1);
  if (begin && end && unit == 1)
    ranges[loop.getInductionVar()] = {*begin, *end};
  if (begin && end)
    return std::max(0.0, std::ceil(double(*end - *begin) / unit));
  return std::max(1.0, double(largest) / extent / unit);
}

KernelWork WorkCounter::count(Operation *op, double times) {
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    double trips = getTrips(loop);
    return count(*loop.getBody(), times * trips);
  }
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return countBranches(branch, times);
  KernelWork work;
  for (Region &region : op->getRegions())
    for (Block &block : region)
      work += count(block, times);
  if (op->getNumRegions() == 0)
    work = countElements(op, times);
  return work;
}

/// Of a loop's first iterations and its others each has its share, as in
/// `if %i < 7`, of a loop from 0 to 8 seven eighths. Else the first branch
/// counts: kernels have in the second what few iterations do.
KernelWork WorkCounter::countBranches(scf::IfOp branch, double times) {
  auto compare = branch.getCondition().getDefiningOp<arith::CmpIOp>();
  const bool isLess = compare && llvm::is_contained({arith::CmpIPredicate::slt,
                                                     arith::CmpIPredicate::ult},
                                                    compare.getPredicate());
  auto found = isLess ? ranges.find(compare.getLhs()) : ranges.end();
  std::optional<int64_t> limit =
      isLess ? evaluate(compare.getRhs()) : std::nullopt;
  if (found == ranges.end() || !limit || found->second.begin < 0 ||
      found->second.begin >= found->second.end)
    return count(*branch.thenBlock(), times);
  const auto [begin, end] = found->second;
  const int64_t middle = std::clamp(*limit, begin, end);
  KernelWork work;
  for (auto [block, from, to] : {std::tuple(branch.thenBlock(), begin, middle),
                                 std::tuple(branch.elseBlock(), middle, end)}) {
    if (!block || from == to)
      continue;
    ranges[compare.getLhs()] = {from, to};
    work += count(*block, times * double(to - from) / double(end - begin));
  }
  ranges[compare.getLhs()] = {begin, end};
  return work;
}

KernelWork WorkCounter::countElements(Operation *op, double times) {
  KernelWork work;
  // A store has no result, and a product of twice the width two.
  Type type = op->getNumResults() > 0 ? op->getResult(0).getType() : Type();
  if (auto store = dyn_cast<vector::StoreOp>(op))
    type = store.getVectorType();
  // What sums a vector up reads all of it.
  if (auto reduction = dyn_cast<vector::ReductionOp>(op))
    type = reduction.getSourceVectorType();
  if (!type || op->hasTrait<OpTrait::ConstantLike>() ||
      isa<vector::BroadcastOp, arith::BitcastOp>(op))
    return work;
  bool isDivision = isa<arith::DivFOp, math::SqrtOp, math::RsqrtOp>(op);
  if (auto vector = dyn_cast<VectorType>(type)) {
    double elements = times * vector.getNumElements();
    if (isDivision)
      work.divisions = elements;
    else if (!isFused(op))
      work.vectorOps =
          elements * kOpsOfInstruction * getWidth(op) * getInstructions(op);
  } else if (isa<FloatType>(type) &&
             isa<arith::ArithDialect, math::MathDialect>(op->getDialect())) {
    work.scalarOps =
        times * (isDivision ? kDivisionInOps : getInstructions(op));
  }
  return work;
}

KernelWork mlir::optimus::getKernelWork(exec::LaunchOp launch) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      launch, launch.getKernelAttr());
  if (!kernel || kernel.isExternal() || !launch.getExtent())
    return {};
  return WorkCounter(LaunchNumbers(launch), kernel).count(kernel.front(), 1);
}

KernelWork KernelWorks::get(exec::LaunchOp launch) {
  LaunchNumbers numbers(launch);
  Numbers key{launch.getExtent() ? numbers.extent : -1, numbers.largest};
  llvm::append_range(key, numbers.scalars);
  auto [entry, isNew] = works[launch.getKernelAttr()].try_emplace(key);
  if (isNew)
    entry->second = getKernelWork(launch);
  return entry->second;
}

std::optional<Work> KernelWorks::getAttention(exec::LaunchOp launch) {
  auto [entry, isNew] = attentions.try_emplace(launch.getKernelAttr());
  if (isNew)
    entry->second = getAttentionWork(launch);
  return entry->second;
}

/// How much further an index is in the next iteration of a loop, 0 where that
/// does not follow from sums and multiples.
static int64_t getStep(Value index, scf::ForOp loop) {
  APInt constant;
  if (index == loop.getInductionVar())
    return matchPattern(loop.getStep(), m_ConstantInt(&constant))
               ? constant.getSExtValue()
               : 0;
  Operation *op = index.getDefiningOp();
  if (!op)
    return 0;
  if (isa<arith::AddIOp>(op))
    return getStep(op->getOperand(0), loop) + getStep(op->getOperand(1), loop);
  if (isa<arith::MulIOp>(op))
    for (auto [factor, other] : {std::pair(0, 1), std::pair(1, 0)})
      if (matchPattern(op->getOperand(factor), m_ConstantInt(&constant)))
        return constant.getSExtValue() * getStep(op->getOperand(other), loop);
  return 0;
}

llvm::SmallBitVector mlir::optimus::getBuffersByColumns(exec::LaunchOp launch) {
  unsigned count = launch.getBuffers().size();
  llvm::SmallBitVector buffers(count);
  auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      launch, launch.getKernelAttr());
  if (!kernel || kernel.isExternal())
    return buffers;
  kernel.walk([&](vector::LoadOp load) {
    auto loop = load->getParentOfType<scf::ForOp>();
    auto buffer = dyn_cast<BlockArgument>(load.getBase());
    if (!loop || !buffer || load.getIndices().size() != 1)
      return;
    // The first two arguments are the iterations.
    int64_t number = int64_t(buffer.getArgNumber()) - 2;
    int64_t step = getStep(load.getIndices().front(), loop);
    if (number >= 0 && number < count &&
        std::abs(step) > load.getVectorType().getNumElements())
      buffers.set(number);
  });
  return buffers;
}

std::optional<Work> mlir::optimus::getAttentionWork(exec::LaunchOp launch) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      launch, launch.getKernelAttr());
  auto computes = kernel ? kernel->getAttrOfType<DictionaryAttr>(
                               exec::ExecDialect::kComputes)
                         : nullptr;
  auto kind = computes ? computes.getAs<StringAttr>("kind") : nullptr;
  if (!kind)
    return std::nullopt;
  // Scores and their gradients are computed by both of the gradient's kernels.
  int products = llvm::StringSwitch<int>(kind.getValue())
                     .Cases({"attention", "attention_pieces"}, 2)
                     .Case("attention_query_grad", 3)
                     .Case("attention_key_grad", 4)
                     .Default(0);
  if (products == 0)
    return std::nullopt;
  auto get = [&](StringRef name) {
    return computes.getAs<IntegerAttr>(name).getInt();
  };
  Work work{.kind = Work::Attention,
            .seq = get("seq"),
            .headDim = get("head_dim"),
            .causal = computes.contains("causal"),
            .gradient = products > 2};
  work.flops = (work.causal ? 1.0 : 2.0) * products * get("batch") *
               get("heads") * work.seq * work.seq * work.headDim;
  if (computes.contains("capacity"))
    work.flops = 2.0 * products * get("batch") * get("heads") * work.seq *
                 get("capacity") * work.headDim;
  else if (computes.contains("window"))
    work.flops *= optimus_support::windowShare(work.seq, get("window"));
  return work;
}
