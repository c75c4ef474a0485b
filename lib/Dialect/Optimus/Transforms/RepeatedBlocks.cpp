//===- RepeatedBlocks.cpp - Layers that are the same again ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/Transforms/RepeatedBlocks.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace mlir::optimus;

/// Without what makes each layer another one of its kind.
static DictionaryAttr without(DictionaryAttr attributes,
                              ArrayRef<StringRef> names) {
  NamedAttrList list(attributes);
  for (StringRef name : names)
    list.erase(name);
  return list.getDictionary(attributes.getContext());
}

namespace {
/// Compares the operations of a function with those a number of places ahead.
class Comparison {
public:
  explicit Comparison(func::FuncOp function) {
    for (Operation &op : function.getBody().front().without_terminator()) {
      positions[&op] = ops.size();
      ops.push_back(&op);
      DictionaryAttr attributes = op.getAttrDictionary();
      if (isa<DropoutOp>(op))
        attributes = without(attributes, {"stream"});
      forms.push_back(attributes);
    }
    for (BlockArgument argument : function.getArguments()) {
      DictionaryAttr attributes =
          function.getArgAttrDict(argument.getArgNumber());
      arguments.push_back(attributes
                              ? without(attributes, {OptimusDialect::kParam,
                                                     OptimusDialect::kInit})
                              : attributes);
    }
  }

  size_t getNumOps() const { return ops.size(); }

  bool areAlike(size_t at, size_t distance) const {
    Operation *a = ops[at], *b = ops[at + distance];
    if (a->getName() != b->getName() || forms[at] != forms[at + distance] ||
        a->getNumRegions() > 0 || a->getResultTypes() != b->getResultTypes() ||
        a->getNumOperands() != b->getNumOperands())
      return false;
    return llvm::all_of(
        llvm::zip_equal(a->getOperands(), b->getOperands()), [&](auto pair) {
          return areAlike(std::get<0>(pair), std::get<1>(pair), distance);
        });
  }

private:
  bool areAlike(Value a, Value b, size_t distance) const {
    if (a == b)
      return true;
    if (a.getType() != b.getType())
      return false;
    auto first = dyn_cast<OpResult>(a), second = dyn_cast<OpResult>(b);
    if (first && second)
      return first.getResultNumber() == second.getResultNumber() &&
             positions.lookup(first.getOwner()) + distance ==
                 positions.lookup(second.getOwner());
    return !first && !second &&
           arguments[cast<BlockArgument>(a).getArgNumber()] ==
               arguments[cast<BlockArgument>(b).getArgNumber()];
  }

  SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, size_t> positions;
  SmallVector<DictionaryAttr> forms, arguments;
};
} // namespace

/// Of operations that are not `taken`, the blocks with most of them; of equal
/// ones the smallest.
static RepeatedBlocks findLongest(const Comparison &program,
                                  const llvm::BitVector &taken, size_t least) {
  RepeatedBlocks longest;
  const size_t n = program.getNumOps();
  for (size_t size = 1; least * size <= n; ++size) {
    size_t begin = 0;
    for (size_t at = 0; at + size <= n; ++at) {
      if (at + size < n && !taken[at] && !taken[at + size] &&
          program.areAlike(at, size))
        continue;
      // Of one block each operation was like that of the next one.
      RepeatedBlocks found{begin, size, (at + size - begin) / size};
      if (at > begin && found.count >= least &&
          found.size * found.count > longest.size * longest.count)
        longest = found;
      begin = at + 1;
    }
  }
  return longest;
}

SmallVector<RepeatedBlocks>
mlir::optimus::findRepeatedBlocks(func::FuncOp function, size_t least) {
  Comparison program(function);
  llvm::BitVector taken(program.getNumOps());
  SmallVector<RepeatedBlocks> kinds;
  for (;;) {
    RepeatedBlocks next =
        findLongest(program, taken, std::max<size_t>(least, 2));
    if (next.count == 0)
      break;
    taken.set(next.begin, next.getEnd());
    kinds.push_back(next);
  }
  llvm::sort(kinds, [](const RepeatedBlocks &a, const RepeatedBlocks &b) {
    return a.begin < b.begin;
  });
  return kinds;
}

void mlir::optimus::keepBlocks(func::FuncOp function,
                               ArrayRef<RepeatedBlocks> kinds,
                               ArrayRef<size_t> kept) {
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    ops.push_back(&op);
  llvm::BitVector unused(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    unused[argument.getArgNumber()] = argument.use_empty();
  for (auto [kind, count] : llvm::zip_equal(kinds, kept)) {
    assert(count > 0 && count <= kind.count);
    const size_t first = kind.begin + count * kind.size;
    for (size_t at = first; at < kind.getEnd(); ++at)
      ops[at]->replaceAllUsesWith(
          ops[first - kind.size + (at - first) % kind.size]);
    for (size_t at = kind.getEnd(); at-- > first;)
      ops[at]->erase();
  }
  llvm::BitVector erased(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    erased[argument.getArgNumber()] =
        argument.use_empty() && !unused[argument.getArgNumber()];
  (void)function.eraseArguments(erased);
}
