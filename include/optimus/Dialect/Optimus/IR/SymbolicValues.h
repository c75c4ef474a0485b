//===- SymbolicValues.h - Values as expressions of tensors ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Symbolic execution of a program over whole tensors, whatever their shardings.
// Terms are hash-consed: equal expressions are one object, and values of two
// programs that share a table are compared by address.
//
//   %0 = optimus.matmul %x, %w            -> t1 = matmul(arg0, arg1)
//   %1 = optimus.add %0, %b               -> t2 = add(arg2, t1)
//   %p = ccl.matmul %xs, %ws addend(%b)   -> add(arg2, matmul(arg0, arg1)) = t2
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_SYMBOLICVALUES_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_SYMBOLICVALUES_H

#include "optimus/Dialect/Optimus/IR/Lemmas.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/Allocator.h"

#include <unordered_map>

namespace mlir::optimus {

/// One whole tensor: result `result` of `what`, which is an operation's name,
/// with these parameters and of these tensors. An argument has no operands, its
/// number for `result` and its name for a parameter.
struct Term {
  StringAttr what;
  unsigned result;
  /// Null where there are none.
  Attribute parameters;
  ArrayRef<const Term *> operands;
  RankedTensorType type;
  /// Counted as they are made: operands have smaller ones.
  unsigned number;
};

/// The table of all terms.
class Terms {
public:
  explicit Terms(MLIRContext *context) : context(context) {}
  Terms(const Terms &) = delete;
  Terms &operator=(const Terms &) = delete;

  const Term *get(StringRef what, unsigned result, Attribute parameters,
                  ArrayRef<const Term *> operands, RankedTensorType type);
  unsigned size() const { return known.size(); }
  MLIRContext *getContext() const { return context; }

private:
  MLIRContext *context;
  llvm::BumpPtrAllocator memory;
  std::unordered_multimap<size_t, const Term *> known;
};

/// The terms of one program's values. Operations define those of their results
/// through SymbolicValueOpInterface.
class SymbolicValues {
public:
  /// The type of the whole tensor that a type is a shard of, without encoding.
  using GetWholeType = RankedTensorType (*)(Type);

  SymbolicValues(Terms &terms, GetWholeType getWholeType)
      : terms(terms), getWholeType(getWholeType) {}

  //===--------------------------------------------------------------------===//
  // For operations
  //===--------------------------------------------------------------------===//

  /// The term of an operand; null where an optional one is absent.
  const Term *get(Value value) const { return termOf.lookup(value); }
  void set(Value result, const Term *term) { termOf[result] = term; }
  RankedTensorType getType(Value value) const {
    return getWholeType(value.getType());
  }

  /// A parameter that is null is left out, and so is an operand.
  using Parameter = std::pair<StringRef, Attribute>;
  const Term *make(StringRef what, ArrayRef<const Term *> operands,
                   RankedTensorType type, ArrayRef<Parameter> parameters = {},
                   unsigned result = 0);
  /// The sum of terms, each repeated over the leading dimensions that it lacks:
  /// flat, in one order, without zeros.
  const Term *add(ArrayRef<const Term *> operands, RankedTensorType type);
  /// The product, elementwise, of which the second factor may be repeated.
  const Term *multiply(const Term *a, const Term *b, RankedTensorType type);

  /// What computes in f32 and narrows its result: as `make`, and a cast where
  /// `type` is narrow.
  const Term *makeNarrowed(StringRef what, ArrayRef<const Term *> operands,
                           RankedTensorType type,
                           ArrayRef<Parameter> parameters = {},
                           unsigned result = 0);

  /// Records a use of this lemma in the following equality.
  void use(Lemma lemma) { lemmas.insert(lemma); }

  //===--------------------------------------------------------------------===//
  // For proofs
  //===--------------------------------------------------------------------===//

  /// Makes an argument known, as the other program knows it.
  void setArgument(BlockArgument argument, StringRef name);
  /// Sets the terms of an operation's results: as its interface defines them,
  /// or the operation itself with all its inherent attributes.
  void visit(Operation *op);
  /// The first operation for which a term was made; null for arguments, and for
  /// terms of the other program.
  Operation *getMaker(const Term *term) const { return makers.lookup(term); }
  const LemmaSet &getLemmas() const { return lemmas; }

private:
  const Term *remember(const Term *term);

  Terms &terms;
  GetWholeType getWholeType;
  Operation *present = nullptr;
  llvm::DenseMap<Value, const Term *> termOf;
  llvm::DenseMap<const Term *, Operation *> makers;
  LemmaSet lemmas;
};

bool isSum(const Term *term);
bool isArgument(const Term *term);

namespace detail {
// Operations that dialects for whole tensors and for shards both have.

/// A·B, without an epilogue.
const Term *makeProduct(SymbolicValues &symbolic, Value a, Value b,
                        Value result, int64_t contracting, bool transposeA,
                        bool transposeB);

/// Of a head with the loss; the results that are gradients may be none.
void setHeadSymbolicValues(SymbolicValues &symbolic, Value h, Value table,
                           Value targets, Value bias, ValueRange results);
} // namespace detail

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_SYMBOLICVALUES_H
