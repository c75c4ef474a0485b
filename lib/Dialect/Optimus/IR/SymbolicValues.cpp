//===- SymbolicValues.cpp - Values as expressions of tensors ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::optimus;

static constexpr StringLiteral kArgument = "argument";
static constexpr StringLiteral kConstant = "constant";

//===----------------------------------------------------------------------===//
// Terms
//===----------------------------------------------------------------------===//

const Term *Terms::get(StringRef what, unsigned result, Attribute parameters,
                       ArrayRef<const Term *> operands, RankedTensorType type) {
  StringAttr name = StringAttr::get(context, what);
  size_t hash = llvm::hash_combine(
      name, result, parameters, type,
      llvm::hash_combine_range(operands.begin(), operands.end()));
  auto [first, last] = known.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Term *term = it->second;
    if (term->what == name && term->result == result &&
        term->parameters == parameters && term->type == type &&
        term->operands == operands)
      return term;
  }
  auto *term = new (memory.Allocate<Term>())
      Term{name, result, parameters, operands.copy(memory), type, size()};
  known.emplace(hash, term);
  return term;
}

bool mlir::optimus::isSum(const Term *term) {
  return term->what.getValue() == AddOp::getOperationName();
}

bool mlir::optimus::isArgument(const Term *term) {
  return term->what.getValue() == kArgument;
}

/// The number that all elements of a constant are; null for anything else.
static FloatAttr getSplat(const Term *term) {
  auto elements = dyn_cast_or_null<DenseFPElementsAttr>(term->parameters);
  if (!elements || !elements.isSplat() || term->what.getValue() != kConstant)
    return {};
  return FloatAttr::get(elements.getElementType(),
                        elements.getSplatValue<APFloat>());
}

//===----------------------------------------------------------------------===//
// SymbolicValues
//===----------------------------------------------------------------------===//

const Term *SymbolicValues::remember(const Term *term) {
  if (present)
    makers.try_emplace(term, present);
  return term;
}

const Term *SymbolicValues::make(StringRef what,
                                 ArrayRef<const Term *> operands,
                                 RankedTensorType type,
                                 ArrayRef<Parameter> parameters,
                                 unsigned result) {
  SmallVector<const Term *> given(operands);
  llvm::erase(given, nullptr);
  NamedAttrList list;
  for (auto [name, value] : parameters)
    if (value)
      list.append(name, value);
  Attribute attributes;
  if (!list.empty())
    attributes = list.getDictionary(terms.getContext());
  return remember(terms.get(what, result, attributes, given, type));
}

const Term *SymbolicValues::makeNarrowed(StringRef what,
                                         ArrayRef<const Term *> operands,
                                         RankedTensorType type,
                                         ArrayRef<Parameter> parameters,
                                         unsigned result) {
  auto wide = type.clone(Float32Type::get(terms.getContext()));
  const Term *whole = make(what, operands, wide, parameters, result);
  if (type == wide)
    return whole;
  use(Lemma::NarrowedResult);
  return make(CastOp::getOperationName(), whole, type);
}

static bool isBefore(const Term *a, const Term *b) {
  return a->number < b->number;
}

const Term *SymbolicValues::add(ArrayRef<const Term *> operands,
                                RankedTensorType type) {
  SmallVector<const Term *> all;
  for (const Term *operand : operands) {
    FloatAttr splat = getSplat(operand);
    if (splat && splat.getValue().isZero()) {
      use(Lemma::NeutralElement);
    } else if (isSum(operand)) {
      use(Lemma::SumRegrouped);
      llvm::append_range(all, operand->operands);
    } else {
      all.push_back(operand);
    }
  }
  if (all.size() == 1 && all.front()->type == type)
    return remember(all.front());
  if (!llvm::is_sorted(all, isBefore)) {
    use(Lemma::SumRegrouped);
    llvm::sort(all, isBefore);
  }
  return remember(terms.get(AddOp::getOperationName(), 0, {}, all, type));
}

const Term *SymbolicValues::multiply(const Term *a, const Term *b,
                                     RankedTensorType type) {
  for (auto [factor, other] : {std::pair(a, b), std::pair(b, a)})
    if (FloatAttr splat = getSplat(factor);
        splat && splat.getValue().isExactlyValue(1.0) && other->type == type) {
      use(Lemma::NeutralElement);
      return remember(other);
    }
  if (isBefore(b, a)) {
    use(Lemma::FactorsSwapped);
    std::swap(a, b);
  }
  return remember(terms.get(MulOp::getOperationName(), 0, {}, {a, b}, type));
}

void SymbolicValues::setArgument(BlockArgument argument, StringRef name) {
  Attribute known;
  if (!name.empty())
    known = StringAttr::get(terms.getContext(), name);
  set(argument, terms.get(kArgument, argument.getArgNumber(), known, {},
                          getType(argument)));
}

void SymbolicValues::visit(Operation *op) {
  present = op;
  if (auto symbolic = dyn_cast<SymbolicValueOpInterface>(op))
    return symbolic.setSymbolicValues(*this);
  Attribute constant;
  StringRef what = op->getName().getStringRef();
  if (matchPattern(op, m_Constant(&constant))) {
    what = kConstant;
  } else if (auto inherent = dyn_cast_or_null<DictionaryAttr>(
                 op->getPropertiesAsAttribute());
             inherent && !inherent.empty()) {
    constant = inherent;
  }
  SmallVector<const Term *> operands;
  for (Value operand : op->getOperands())
    operands.push_back(get(operand));
  for (OpResult result : op->getResults())
    set(result, remember(terms.get(what, result.getResultNumber(), constant,
                                   operands, getType(result))));
}
