//===- ShardingRulesTest.cpp - Slicing commutes where rules say so -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every operation is executed whole and in parts, of random extents on random
// meshes. Results with the factors that are cut have the bits of the whole;
// those without one are partial sums.
//
//===----------------------------------------------------------------------===//

#include "InterpretedProgram.h"

#include "optimus-support/CachePages.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Interpreter/Interpreter.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <optional>
#include <random>
#include <set>

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// Factors sharded over axes of a mesh: the axes of each, and its extent as a
/// whole and on a rank.
struct Cut {
  SmallVector<SmallVector<StringRef>> axes;
  SmallVector<int64_t> whole, part;
};

/// The least vocabulary of the program.
constexpr int64_t kVocabulary = 32;

class ShardingRules : public testing::Test, protected InterpretedProgram {
protected:
  ShardingRules() : InterpretedProgram(OPTIMUS_PROGRAM) {}

  void SetUp() override { ASSERT_TRUE(program); }

  int64_t draw(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  }

  /// Shards some factors of a kind over the mesh's axes. Parallel factors get
  /// other extents too, but a vocabulary: tokens stay within it.
  Cut drawCut(Operation *op, const ShardingRule &rule,
              ArrayRef<MeshAxisAttr> mesh, FactorKind kind) {
    Cut cut;
    SmallVector<int64_t> candidates;
    for (auto [number, factor] : llvm::enumerate(rule.factors)) {
      bool isFree =
          factor.kind == FactorKind::Parallel && factor.size < kVocabulary;
      cut.axes.emplace_back();
      cut.part.push_back(isFree ? draw(1, 3) : factor.size);
      if (factor.kind == kind && !isAddedWhole(op, rule, number))
        candidates.push_back(number);
    }
    cut.whole = cut.part;
    for (MeshAxisAttr axis : mesh) {
      if (candidates.empty() || draw(0, 4) == 0)
        continue;
      int64_t factor = candidates[draw(0, candidates.size() - 1)];
      cut.axes[factor].push_back(axis.getName().getValue());
      cut.whole[factor] *= axis.getSize();
    }
    return cut;
  }

  /// Whether each rank would add the whole of an operand without this factor.
  static bool isAddedWhole(Operation *op, const ShardingRule &rule,
                           int64_t factor) {
    auto sum = dyn_cast<SumOpInterface>(op);
    return sum && llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
             return sum.getContribution(operand) != Contribution::Factor &&
                    !llvm::is_contained(
                        rule.operands[operand.getOperandNumber()], factor);
           });
  }

  /// The axes over which a value with these factors lacks one.
  static SmallVector<StringRef> getMissing(ArrayRef<int64_t> factors,
                                           const Cut &cut) {
    SmallVector<StringRef> missing;
    for (auto [factor, axes] : llvm::enumerate(cut.axes))
      if (!llvm::is_contained(factors, static_cast<int64_t>(factor)))
        llvm::append_range(missing, axes);
    llvm::sort(missing);
    return missing;
  }

  /// The type of a value with these factors: of the whole, or of a rank's part
  /// with its place, a partial sum over `unreduced`.
  Type getType(Type like, ArrayRef<int64_t> factors, const Cut &cut,
               bool isWhole, ArrayRef<StringRef> unreduced = {}) {
    auto tensor = cast<RankedTensorType>(like);
    SmallVector<int64_t> whole, part;
    SmallVector<SmallVector<StringRef>> axes;
    for (int64_t factor : factors) {
      whole.push_back(cut.whole[factor]);
      part.push_back(cut.part[factor]);
      axes.push_back(cut.axes[factor]);
    }
    if (isWhole)
      return RankedTensorType::get(whole, tensor.getElementType());
    ShardingAttr sharding = ShardingAttr::get(
        FlatSymbolRefAttr::get(&context, "mesh"), axes, unreduced);
    return RankedTensorType::get(
        part, tensor.getElementType(),
        ccl::LocalAttr::get(&context, whole, sharding));
  }

  /// A function of `op` alone, whose operands are its arguments.
  func::FuncOp buildFunction(OpBuilder &builder, Operation *op,
                             const ShardingRule &rule, const Cut &cut,
                             bool isWhole) {
    SmallVector<Type> operands, results;
    for (auto [type, factors] : llvm::zip(op->getOperandTypes(), rule.operands))
      operands.push_back(getType(type, factors, cut, isWhole));
    for (auto [type, factors] : llvm::zip(op->getResultTypes(), rule.results))
      results.push_back(
          getType(type, factors, cut, isWhole, getMissing(factors, cut)));
    auto function =
        func::FuncOp::create(builder, op->getLoc(), isWhole ? "whole" : "parts",
                             builder.getFunctionType(operands, results));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(function.addEntryBlock());
    IRMapping mapping;
    Operation *copy = builder.clone(*op, mapping);
    copy->setOperands(function.getArguments());
    for (NamedAttribute annotation :
         llvm::to_vector(copy->getDiscardableAttrs()))
      copy->removeDiscardableAttr(annotation.getName());
    for (auto [result, type] : llvm::zip(copy->getResults(), results))
      result.setType(type);
    func::ReturnOp::create(builder, op->getLoc(), copy->getResults());
    return function;
  }

  /// The largest integer that an operand may have: a token and a position, an
  /// entry of the first dimension of the first operand, or a page of a slot's
  /// own share of the cache.
  static int64_t getMost(Operation *op, Value operand, ArrayRef<Type> types) {
    auto attention = dyn_cast<AttentionOp>(op);
    auto append = dyn_cast<CacheAppendOp>(op);
    auto take = dyn_cast<TakeOp>(op);
    auto getExtent = [&](unsigned number, unsigned dim) {
      return cast<RankedTensorType>(types[number]).getDimSize(dim);
    };
    if ((attention && operand == attention.getPages()) ||
        (append && operand == append.getPages()) ||
        (take && operand == take.getPages()))
      return getExtent(attention ? 1 : 0, 1) / optimus_support::kPageTokens - 1;
    const bool isEntry = (append && operand == append.getSlot()) ||
                         (take && operand == take.getIndex());
    constexpr int64_t kMost = 7;
    return isEntry ? std::min(kMost, getExtent(0, 0) - 1) : kMost;
  }

  Tensor drawTensor(Type type, int64_t most) {
    auto tensor = cast<RankedTensorType>(type);
    Tensor drawn = Tensor::zeros(tensor.getShape());
    for (double &element : drawn.elements)
      element = tensor.getElementType().isInteger()
                    ? draw(0, most)
                    : std::uniform_real_distribution<>(0.1, 1.1)(random);
    return drawn;
  }

  /// Executes `op` whole and cut along factors of a kind. Returns how the
  /// results differ, empty where they agree; nothing where no factor was cut.
  std::optional<std::string> compare(Operation *op, FactorKind kind) {
    OpBuilder builder(&context);
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder, op->getLoc());
    builder.setInsertionPointToStart(module->getBody());
    SmallVector<MeshAxisAttr> axes{
        MeshAxisAttr::get(&context, builder.getStringAttr("row"), draw(2, 4)),
        MeshAxisAttr::get(&context, builder.getStringAttr("col"), draw(2, 4))};
    MeshOp::create(
        builder, op->getLoc(), "mesh",
        builder.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end())));
    auto rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
    Cut cut = drawCut(op, rule, axes, kind);
    if (llvm::all_of(cut.axes, [](auto &some) { return some.empty(); }))
      return std::nullopt;
    func::FuncOp whole = buildFunction(builder, op, rule, cut, true);
    func::FuncOp parts = buildFunction(builder, op, rule, cut, false);
    SmallVector<Tensor> arguments;
    ArrayRef<Type> types = whole.getArgumentTypes();
    for (auto [operand, type] : llvm::zip_equal(op->getOperands(), types))
      arguments.push_back(drawTensor(type, getMost(op, operand, types)));

    std::string errors;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      errors += diagnostic.str() + '\n';
    });
    if (failed(verify(*module)))
      return "no program: " + errors;
    FailureOr<SmallVector<Tensor>> expected = interpret(whole, arguments);
    FailureOr<SmallVector<Tensor>> found = interpret(parts, arguments);
    if (failed(expected) || failed(found))
      return errors;
    for (auto [number, one, other] : llvm::enumerate(*expected, *found)) {
      // Sums of some thousand numbers at most, in another order; what cancels
      // is of the numbers' size, 1.
      bool isSum = !getMissing(rule.results[number], cut).empty();
      double bound = isSum ? 1e-11 * std::max(1.0, getMagnitude(one)) : 0;
      if (one.shape != other.shape || !(getDistance(one, other) <= bound))
        errors += "result " + std::to_string(number) + " differs\n";
    }
    return errors;
  }

  /// Compares each operation with such a factor 25 times. `judge` hears its
  /// name, the number of cuts, of those with a difference, and the last one.
  void
  compareAll(FactorKind kind,
             llvm::function_ref<void(StringRef, int, int, StringRef)> judge) {
    program->walk([&](ShardingRuleOpInterface op) {
      ShardingRule rule = op.getShardingRule();
      if (llvm::none_of(llvm::seq<int64_t>(rule.factors.size()),
                        [&](int64_t factor) {
                          return rule.factors[factor].kind == kind &&
                                 !isAddedWhole(op, rule, factor);
                        }))
        return;
      int numCuts = 0, numDiffering = 0;
      std::string differing;
      for (int trial = 0; trial != 25; ++trial) {
        std::optional<std::string> found = compare(op, kind);
        numCuts += found.has_value();
        if (found && !found->empty()) {
          ++numDiffering;
          differing = *found;
        }
      }
      judge(op->getName().getStringRef(), numCuts, numDiffering, differing);
    });
  }

  /// No operation differs; those that were cut have so many names at least.
  void expectAgreement(FactorKind kind, size_t leastNames) {
    std::set<StringRef> names;
    compareAll(kind, [&](StringRef name, int numCuts, int, StringRef found) {
      names.insert(name);
      EXPECT_GE(numCuts, 10) << name.str();
      EXPECT_EQ(found.str(), "") << name.str();
    });
    EXPECT_GE(names.size(), leastNames);
  }

  std::mt19937 random{2024};
};

TEST_F(ShardingRules, ParallelFactorsAreSlicedFreely) {
  expectAgreement(FactorKind::Parallel, 35);
}

TEST_F(ShardingRules, ContractedFactorsGivePartialSums) {
  expectAgreement(FactorKind::Contracted, 8);
}

// Or the two tests above would pass whatever a rule says.
TEST_F(ShardingRules, ReducedFactorsCannotBeSliced) {
  std::set<StringRef> names;
  compareAll(FactorKind::Reduced,
             [&](StringRef name, int numCuts, int numDiffering, StringRef) {
               names.insert(name);
               // Without a bias it is linear: that logits are complete is a
               // choice.
               if (name == HeadOp::getOperationName() && numDiffering == 0)
                 return;
               EXPECT_EQ(numDiffering, numCuts) << name.str();
             });
  EXPECT_GE(names.size(), 6u);
}

} // namespace
