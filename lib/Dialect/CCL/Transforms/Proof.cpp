//===- Proof.cpp - Two programs compute the same values ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/Transforms/Proof.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-verify-partition"

using namespace mlir;
using namespace mlir::ccl;
using optimus::BufferAttr;
using optimus::SymbolicValues;
using optimus::Term;

static RankedTensorType getWholeType(Type type) {
  return RankedTensorType::get(getGlobalShape(type),
                               cast<RankedTensorType>(type).getElementType());
}

LogicalResult ccl::checkSymbolicValues(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("V6: expected one block, found ")
           << function.getBody().getBlocks().size();
  auto checkTypes = [](Operation *op, TypeRange types) -> LogicalResult {
    for (Type type : types)
      if (!isa<RankedTensorType>(type))
        return op->emitOpError("V6: expected tensors, found ") << type;
    return success();
  };
  if (failed(checkTypes(function, function.getArgumentTypes())))
    return failure();
  for (Operation &op : function.front().without_terminator()) {
    bool isKnown = op.hasTrait<OpTrait::ConstantLike>() ||
                   isa<optimus::SymbolicValueOpInterface>(op) ||
                   isa<optimus::ShardingRuleOpInterface>(op);
    if (!isKnown || op.getNumRegions() > 0)
      return op.emitOpError("V6: has neither a sharding rule nor symbolic "
                            "values, so the proof cannot pass through it");
    if (failed(checkTypes(&op, op.getResultTypes())))
      return failure();
  }
  return success();
}

/// For people: what the argument or the result is bound to.
static std::string describe(StringRef what, unsigned number,
                            BufferAttr buffer) {
  std::string text = (what + " " + Twine(number)).str();
  return buffer ? text + " ('" + buffer.getName() + "')" : text;
}

namespace {
/// The first difference between the expected and the computed value.
struct Difference {
  enum Kind {
    /// `op` computes `found`.
    Computes,
    /// `op` computes from `found`.
    Reads,
    /// A sum that `op` makes has not the term `expected`.
    Lacks,
    /// A sum that `op` makes has the term `found` besides.
    Adds,
  };
  Kind kind;
  Operation *op;
  const Term *expected, *found;
};

class Proof {
public:
  Proof(func::FuncOp serial, func::FuncOp partitioned)
      : serial(serial), partitioned(partitioned), terms(serial.getContext()),
        whole(terms, getWholeType), shards(terms, getWholeType) {}

  LogicalResult run();
  void addLemmas(optimus::LemmaSet &used) const {
    used.insert(whole.getLemmas());
    used.insert(shards.getLemmas());
  }

private:
  LogicalResult checkSignature();
  static void visit(func::FuncOp function, SymbolicValues &symbolic);

  /// Finds where `found`, which `reader` computes from, departs from
  /// `expected`.
  void compare(const Term *expected, const Term *found, Operation *reader);
  void compareSums(const Term *expected, const Term *found, Operation *reader);
  void note(Difference difference) {
    if (!first || difference.op->isBeforeInBlock(first->op))
      first = difference;
  }
  /// Whether the serial program has such a value, too.
  bool isSerial(const Term *term) const { return term->number < numSerial; }
  Operation *getMaker(const Term *term, Operation *reader) const {
    Operation *maker = shards.getMaker(term);
    return maker ? maker : reader;
  }

  std::string describeOrigin(const Term *term) const;
  InFlightDiagnostic report(const Difference &difference) const;

  func::FuncOp serial, partitioned;
  optimus::Terms terms;
  SymbolicValues whole, shards;
  unsigned numSerial = 0;
  llvm::DenseSet<std::pair<const Term *, const Term *>> compared;
  std::optional<Difference> first;
};
} // namespace

/// "optimus.norm_grad_apply {size = 24 : i64}".
static std::string describeComputation(const Term *term) {
  std::string text = term->what.str();
  llvm::raw_string_ostream stream(text);
  if (optimus::isArgument(term))
    stream << ' ' << term->result;
  if (term->parameters)
    stream << ' ' << term->parameters;
  return text;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static SmallVector<BufferAttr> getArgumentBuffers(func::FuncOp function) {
  SmallVector<BufferAttr> buffers;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    buffers.push_back(optimus::getArgumentBuffer(function, i));
  return buffers;
}

/// What is passed to one function is passed to the other.
LogicalResult Proof::checkSignature() {
  auto check = [&](StringRef what, TypeRange expected, TypeRange found,
                   auto getBuffers) -> LogicalResult {
    if (expected.size() != found.size())
      return partitioned.emitOpError("V7: expected ")
             << expected.size() << " " << what
             << "s as in the serial program, found " << found.size();
    const SmallVector<BufferAttr> buffers = getBuffers(serial),
                                  others = getBuffers(partitioned);
    for (unsigned i = 0; i < expected.size(); ++i) {
      BufferAttr buffer = buffers[i], other = others[i];
      if (buffer != other)
        return partitioned.emitOpError("V7: expected ")
               << describe(what, i, buffer)
               << " as in the serial program, found "
               << describe(what, i, other);
      if (getWholeType(expected[i]) != getWholeType(found[i]))
        return partitioned.emitOpError("V7: expected ")
               << describe(what, i, buffer) << " to be " << expected[i]
               << " as in the serial program, found a shard of "
               << getWholeType(found[i]);
    }
    return success();
  };
  if (failed(check("argument", serial.getArgumentTypes(),
                   partitioned.getArgumentTypes(), getArgumentBuffers)))
    return failure();
  return check("result", serial.getResultTypes(), partitioned.getResultTypes(),
               optimus::getResultBuffers);
}

void Proof::visit(func::FuncOp function, SymbolicValues &symbolic) {
  for (BlockArgument argument : function.getArguments()) {
    BufferAttr buffer =
        optimus::getArgumentBuffer(function, argument.getArgNumber());
    symbolic.setArgument(argument, buffer ? buffer.getName() : "");
  }
  for (Operation &op : function.front().without_terminator())
    symbolic.visit(&op);
}

LogicalResult Proof::run() {
  if (failed(checkSignature()))
    return failure();
  visit(serial, whole);
  numSerial = terms.size();
  visit(partitioned, shards);
  LDBG() << "@" << serial.getSymName() << ": " << numSerial
         << " terms of the serial program, " << terms.size() - numSerial
         << " of shards alone";
  Operation *expected = serial.front().getTerminator(),
            *found = partitioned.front().getTerminator();
  std::optional<unsigned> wrong;
  for (unsigned i = 0; i < found->getNumOperands(); ++i) {
    const Term *a = whole.get(expected->getOperand(i)),
               *b = shards.get(found->getOperand(i));
    if (a == b)
      continue;
    LDBG() << "result " << i << ": " << describeComputation(a) << " against "
           << describeComputation(b);
    if (!wrong)
      wrong = i;
    compare(a, b, found);
  }
  if (!wrong)
    return success();
  InFlightDiagnostic error = report(*first);
  error.attachNote(found->getLoc())
      << "so "
      << describe("result", *wrong, optimus::getResultBuffer(serial, *wrong))
      << " of @" << serial.getSymName()
      << " is not shown to be the serial program's";
  return error;
}

//===----------------------------------------------------------------------===//
// Differences
//===----------------------------------------------------------------------===//

static bool isAlike(const Term *a, const Term *b) {
  return a->what == b->what && a->result == b->result &&
         a->parameters == b->parameters && a->type == b->type &&
         a->operands.size() == b->operands.size();
}

void Proof::compare(const Term *expected, const Term *found,
                    Operation *reader) {
  if (expected == found || !compared.insert({expected, found}).second)
    return;
  bool areSums = optimus::isSum(expected) && optimus::isSum(found);
  auto isTermOf = [](const Term *term, const Term *sum) {
    return optimus::isSum(sum) && llvm::is_contained(sum->operands, term);
  };
  if ((areSums && !isSerial(found)) || isTermOf(expected, found) ||
      isTermOf(found, expected))
    return compareSums(expected, found, reader);
  // A value of the serial program, in the wrong place.
  if (isSerial(found))
    return note({Difference::Reads, reader, expected, found});
  Operation *maker = getMaker(found, reader);
  if (!isAlike(expected, found))
    return note({Difference::Computes, maker, expected, found});
  for (auto [a, b] : llvm::zip(expected->operands, found->operands))
    compare(a, b, maker);
}

static SmallVector<const Term *> getAddends(const Term *term) {
  return optimus::isSum(term) ? SmallVector<const Term *>(term->operands)
                              : SmallVector<const Term *>{term};
}

/// Takes the common terms out of both.
static void dropCommon(SmallVectorImpl<const Term *> &a,
                       SmallVectorImpl<const Term *> &b) {
  llvm::erase_if(a, [&](const Term *term) {
    auto *it = llvm::find(b, term);
    if (it == b.end())
      return false;
    b.erase(it);
    return true;
  });
}

void Proof::compareSums(const Term *expected, const Term *found,
                        Operation *reader) {
  Operation *maker = getMaker(found, reader);
  SmallVector<const Term *> missing = getAddends(expected),
                            besides = getAddends(found);
  dropCommon(missing, besides);
  // Terms from one place of the model pair up first, then those that look
  // alike, and then the rest.
  auto isFromSamePlace = [this](const Term *term, const Term *other) {
    Operation *maker = whole.getMaker(term),
              *otherMaker = shards.getMaker(other);
    return term->what == other->what && maker && otherMaker &&
           maker->getLoc() == otherMaker->getLoc();
  };
  auto isAny = [](const Term *, const Term *) { return true; };
  using IsPair = function_ref<bool(const Term *, const Term *)>;
  for (IsPair isPair :
       {IsPair(isFromSamePlace), IsPair(isAlike), IsPair(isAny)})
    llvm::erase_if(missing, [&](const Term *term) {
      auto *it = llvm::find_if(
          besides, [&](const Term *other) { return isPair(term, other); });
      if (it == besides.end())
        return false;
      compare(term, *it, maker);
      besides.erase(it);
      return true;
    });
  for (const Term *term : missing)
    note({Difference::Lacks, maker, term, found});
  for (const Term *term : besides)
    note({Difference::Adds, maker, expected, term});
  if (expected->type != found->type)
    note({Difference::Computes, maker, expected, found});
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// "what h.3.ln_2 backward (gpt2.py:120) computes with optimus.add".
std::string Proof::describeOrigin(const Term *term) const {
  if (optimus::isArgument(term))
    return describeComputation(term);
  Operation *maker = whole.getMaker(term);
  if (!maker)
    maker = shards.getMaker(term);
  std::string origin = maker ? optimus::describeLocation(maker->getLoc()) : "";
  StringRef what = term->what.getValue();
  return (origin.empty() ? what : "the " + what + " of " + origin).str();
}

InFlightDiagnostic Proof::report(const Difference &difference) const {
  auto [kind, op, expected, found] = difference;
  InFlightDiagnostic error = op->emitError("V8: ");
  switch (kind) {
  case Difference::Computes:
    error << "expected " << describeOrigin(expected)
          << " of the serial program, which is "
          << describeComputation(expected) << " of "
          << expected->operands.size() << " operands with a result of "
          << expected->type << "; found " << describeComputation(found)
          << " of " << found->operands.size() << " with " << found->type;
    break;
  case Difference::Reads:
    error << "expected it to compute from " << describeOrigin(expected)
          << " as the serial program does, found " << describeOrigin(found);
    break;
  case Difference::Lacks:
    error << "expected " << describeOrigin(expected)
          << " among the terms of a sum as in the serial program; it is "
             "missing";
    break;
  case Difference::Adds:
    error << "expected no " << describeOrigin(found)
          << " among the terms of a sum, as in the serial program";
    break;
  }
  if (Operation *maker = whole.getMaker(expected))
    error.attachNote(maker->getLoc()) << "in the serial program";
  return error;
}

LogicalResult ccl::proveEqual(func::FuncOp serial, func::FuncOp partitioned,
                              optimus::LemmaSet *lemmas) {
  Proof proof(serial, partitioned);
  if (failed(proof.run()))
    return failure();
  if (lemmas)
    proof.addLemmas(*lemmas);
  return success();
}
