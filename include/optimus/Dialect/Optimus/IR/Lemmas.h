//===- Lemmas.h - What a proof takes for granted ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two programs compute the same where equal operations have equal operands, and
// by these identities of real numbers. There are no others. docs/proof.md lists
// them, and for each one a unit test interprets both of its sides.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_LEMMAS_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_LEMMAS_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"

#include <bitset>

namespace mlir::optimus {

enum class Lemma : unsigned {
  Collective,
  Reshard,
  DistributedProduct,
  DistributedHead,
  FoldedEpilogue,
  Accumulation,
  SumRegrouped,
  FactorsSwapped,
  NeutralElement,
  CastBack,
  NarrowedResult,
  MergedMoments,
  LayerNormParts,
  RmsNormParts,
  NormOfSquares,
  ValueBesideSlope,
  LossBesideGradient,
  Chunks,
};

struct LemmaText {
  Lemma lemma;
  /// As docs/proof.md and its test call it.
  StringLiteral name;
  StringLiteral statement;
};

/// All of them, in the order of the enumeration.
ArrayRef<LemmaText> getLemmas();

/// Which of them a proof needed.
class LemmaSet {
public:
  void insert(Lemma lemma) { used.set(static_cast<unsigned>(lemma)); }
  void insert(const LemmaSet &others) { used |= others.used; }
  bool contains(Lemma lemma) const {
    return used.test(static_cast<unsigned>(lemma));
  }

private:
  std::bitset<64> used;
};

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_LEMMAS_H
