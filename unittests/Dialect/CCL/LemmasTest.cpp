//===- LemmasTest.cpp - Both sides of every lemma ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A proof takes its lemmas for granted. Here the interpreter, which knows none
// of them, computes both sides of each one.
//
//===----------------------------------------------------------------------===//

#include "../../Interpreter/InterpretedProgram.h"

#include "optimus/Dialect/CCL/Transforms/Proof.h"
#include "optimus/Interpreter/Interpreter.h"

#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace mlir::optimus;

namespace {
class Lemmas : public testing::TestWithParam<LemmaText>,
               protected InterpretedProgram {
protected:
  Lemmas() : InterpretedProgram(OPTIMUS_LEMMAS) {}

  func::FuncOp find(StringRef suffix) {
    std::string name = GetParam().name.str();
    std::replace(name.begin(), name.end(), '-', '_');
    return program->lookupSymbol<func::FuncOp>(name + suffix.str());
  }
};
} // namespace

/// Numbers around 1, tokens from 0 to 2.
static SmallVector<Tensor> draw(func::FuncOp function) {
  std::mt19937 generator(7);
  std::uniform_real_distribution<double> number(-1, 2);
  std::uniform_int_distribution<int> token(0, 2);
  SmallVector<Tensor> arguments;
  for (Type type : function.getArgumentTypes()) {
    Tensor tensor = Tensor::zeros(getWholeShape(type));
    bool isIndex = cast<RankedTensorType>(type).getElementType().isInteger();
    for (double &element : tensor.elements)
      element = isIndex ? token(generator) : number(generator);
    arguments.push_back(std::move(tensor));
  }
  return arguments;
}

TEST_P(Lemmas, IsUsedAndHolds) {
  ASSERT_TRUE(program);
  func::FuncOp serial = find("_serial"), other = find("");
  ASSERT_TRUE(serial && other)
      << OPTIMUS_LEMMAS << " lacks the sides of " << GetParam().name.str();
  ASSERT_TRUE(succeeded(ccl::checkSymbolicValues(serial)));
  ASSERT_TRUE(succeeded(ccl::checkSymbolicValues(other)));
  LemmaSet used;
  EXPECT_TRUE(succeeded(ccl::proveEqual(serial, other, &used)));
  EXPECT_TRUE(used.contains(GetParam().lemma));

  SmallVector<Tensor> arguments = draw(serial);
  FailureOr<SmallVector<Tensor>> expected = interpret(serial, arguments),
                                 found = interpret(other, arguments);
  ASSERT_TRUE(succeeded(expected) && succeeded(found));
  ASSERT_EQ(expected->size(), found->size());
  for (auto [a, b] : llvm::zip(*expected, *found)) {
    EXPECT_GT(getMagnitude(a), 0);
    // Some hundred roundings of f64.
    EXPECT_LE(getDistance(a, b), 1e-13 * getMagnitude(a));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Lemmas,
                         testing::ValuesIn(getLemmas().begin(),
                                           getLemmas().end()),
                         [](const testing::TestParamInfo<LemmaText> &info) {
                           std::string name = info.param.name.str();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

using MergedMoments = Lemmas;

// Counts that are not those of the row's shards weigh them wrongly.
TEST_P(MergedMoments, NeedTheCountsOfTheShards) {
  func::FuncOp serial = find("_serial"), other = find("");
  auto merge = *other.getOps<MergeMomentsOp>().begin();
  merge.setCounts({3, 4});
  ASSERT_TRUE(succeeded(merge.verify()));
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message += diagnostic.str();
    return success();
  });
  EXPECT_TRUE(failed(ccl::proveEqual(serial, other)));
  EXPECT_NE(message.find("array<i64: 3, 4>"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    Only, MergedMoments,
    testing::Values(getLemmas()[static_cast<unsigned>(Lemma::MergedMoments)]));

// The table is in the order of the enumeration, so that sets have room for all.
TEST(LemmaTable, IsInOrder) {
  for (auto [number, text] : llvm::enumerate(getLemmas()))
    EXPECT_EQ(static_cast<unsigned>(text.lemma), number);
}
