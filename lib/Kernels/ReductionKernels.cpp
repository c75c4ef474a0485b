//===- ReductionKernels.cpp - What several ranks have, added ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/ReductionKernels.h"

#include "optimus/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

// The number of elements is no part of the name: one kernel serves all.
void ReduceRanks::describe(KernelDescription &description) const {
  description.setStem(maximum ? "max_of_ranks" : "sum_of_ranks");
  description.option("to_all", toAll);
  description.size(ranks);
  // Rows of one element are not read as vectors.
  if (isAligned)
    description.overElements(1, elements);
  else
    description.overElements(elements, 1);
  SmallVector<std::string> names;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    names.push_back(("x" + Twine(rank)).str());
    description.read(names.back(), elements);
  }
  const SmallVector<StringRef> places(names.begin(), names.end());
  for (int64_t number = 0; number < getNumResults(); ++number)
    description.write(("result" + Twine(number)).str(), elements)
        .inPlaceOf(places);
}

/// The greater; a NaN of either, so that a diverged step shows.
static Num maximumOf(KernelBuilder &k, Num sum, Num x) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value isNan =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x.value, x.value);
  return k.select(arith::OrIOp::create(b, k.greater(x, sum), isNan).getResult(),
                  x, sum);
}

void ReduceRanks::build(KernelBuilder &k) const {
  SmallVector<KernelBuffer> operands, results;
  for (int64_t rank = 0; rank < ranks; ++rank)
    operands.push_back(k[("x" + Twine(rank)).str()]);
  for (int64_t number = 0; number < getNumResults(); ++number)
    results.push_back(k[("result" + Twine(number)).str()]);
  k.forElements([&](Value at, Value, Type type) {
    // All are read before any is written: a result may be one of them.
    SmallVector<Num> terms;
    for (const KernelBuffer &operand : operands)
      terms.push_back(operand.load(at, type));
    Num sum = terms.front();
    for (Num term : ArrayRef<Num>(terms).drop_front())
      sum = maximum ? maximumOf(k, sum, term) : sum + term;
    for (const KernelBuffer &result : results)
      result.store(sum, at);
  });
}
