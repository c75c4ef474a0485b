//===- Strategy.cpp - Rules that shard transformers -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/Transforms/Strategy.h"

#include "optimus/Dialect/Optimus/IR/Entries.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::optimus;

using namespace mlir::optimus::rule_dims;

// Every strategy names the data axis where the batch is; a mesh may lack it.

/// 2D: activations [b, s, h] and weights [in, out] are sharded along both of
/// their long dimensions. Where a linear's result stays in place, its input
/// moves in all three products; where its input stays, its result moves in two,
/// since both gradients move the same one. So the second linear of a pair,
/// which does not widen, lies across: the down projection and the attention's
/// output. Queries, keys and values are products of one input, which moves once
/// for all of them (--optimus-group-products): their weights lie alike, however
/// narrow keys and values are.
static constexpr StrategyRule summa[] = {
    {Position::Tokens, Batch, "data+row"},
    {Position::Activation, Batch, "data+row"},
    {Position::Activation, Inner | Hidden | Vocabulary, "col"},
    {Position::Vector, Inner | Hidden, "col"},
    {Position::First, In, "row"},
    {Position::First, Out, "col"},
    {Position::Second, In, "col"},
    {Position::Second, Out, "row"},
    {Position::Unpaired, In, "row"},
    {Position::Unpaired, Out, "col"},
    {Position::Table, Vocabulary, "col"},
    {Position::Table, Hidden, "row"},
};

/// Where the Optimus paper differs: every weight [in, out] is at [row, col], so
/// that every forward product keeps its result in place.
static constexpr StrategyRule summaPaper[] = {
    {Position::Second, In, "row"},
    {Position::Second, Out, "col"},
    {Position::Table, Vocabulary, "row"},
    {Position::Table, Hidden, "col"},
};

/// 1D tensor parallelism over `col` (column-parallel, then row-parallel
/// products) and data parallelism over `row`.
static constexpr StrategyRule megatron[] = {
    {Position::Tokens, Batch, "data+row"},
    {Position::Activation, Batch, "data+row"},
    {Position::Activation, Inner | Vocabulary, "col"},
    {Position::Vector, Inner, "col"},
    {Position::First, Out, "col"},
    {Position::Second, In, "col"},
    {Position::Table, Vocabulary, "col"},
};

/// Megatron with sequence parallelism: between products the sequence is sharded
/// over `col`. Inputs of products are gathered whole, again in the backward,
/// and partial results reduce-scattered.
static constexpr StrategyRule megatronSp[] = {
    {Position::Activation, Batch, "data+row"},
    {Position::Activation, Inner | Vocabulary, "col"},
    {Position::Activation, Sequence, "col"},
};

/// Every rank has all parameters and a part of the batch.
static constexpr StrategyRule data[] = {
    {Position::Tokens, Batch, "data"},
    {Position::Activation, Batch, "data"},
};

/// Weights of summa where they lie, for a token a sequence: an activation is
/// small, a weight is not, so products keep their weight in place. Their input
/// is sharded as the contracted dimension, and their result, of partial sums,
/// is added up: over `row` after those that widen, over `col` after the others.
/// Between the products of a pair sequences are sharded too, since what follows
/// is of each by itself: attention over its part of the cache. Two kinds of
/// parameters lie otherwise than in summa, for the program, too. The table has
/// its words over all ranks: so look-up and head move activations of the hidden
/// width, and logits nowhere. Vectors of that width are whole everywhere.
static constexpr StrategyRule stationary[] = {
    {Position::Tokens, Batch, "data"},
    {Position::Activation, Hidden, "row"},
    {Position::Activation, Inner, "col"},
    {Position::Activation, Vocabulary, "col+row"},
    {Position::Activation, Batch, "data+row"},
    {Position::Vector, Inner, "col"},
    {Position::Table, Vocabulary, "col+row"},
    {Position::Table, Hidden, "row"},
};

static constexpr Strategy strategies[] = {
    {"serial", {}, {}},
    {"summa", summa, {}},
    {"summa-paper", summaPaper, summa},
    {"megatron", megatron, {}},
    {"megatron-sp", megatronSp, megatron, OptimusDialect::kMoveWhole},
    {"data", data, {}},
};

/// For single entries of a program in summa.
static constexpr Strategy ofEntries[] = {
    {"stationary", stationary, summa},
};

ArrayRef<StrategyRule> Strategy::getRules(Position position) const {
  for (ArrayRef<StrategyRule> table : {rules, base}) {
    auto holds = [&](const StrategyRule &rule) {
      return rule.position == position;
    };
    auto *first = llvm::find_if(table, holds);
    auto *last = std::find_if_not(first, table.end(), holds);
    if (first != last)
      return ArrayRef(first, last);
  }
  return {};
}

/// What rules may speak of in a dimension.
static unsigned getRuleDims(const RoleDim &dim) {
  unsigned side = 0;
  if (dim.side != LinearSide::Neither)
    side = dim.side == LinearSide::In ? In : Out;
  switch (dim.dimension) {
  case DimensionClass::Other:
  case DimensionClass::Channels:
    return 0;
  case DimensionClass::Batch:
    return side | Batch;
  case DimensionClass::Sequence:
    return side | Sequence;
  case DimensionClass::Heads:
    return side | Heads;
  case DimensionClass::Hidden:
    return side | Hidden;
  case DimensionClass::Ffn:
    return side | Ffn;
  case DimensionClass::Vocabulary:
    return side | Vocabulary;
  }
  llvm_unreachable("all classes are above");
}

SmallVector<SmallVector<StringRef>>
Strategy::layOut(const Role &role,
                 llvm::function_ref<bool(StringRef)> shards) const {
  SmallVector<SmallVector<StringRef>> layout(role.dims.size());
  SmallVector<StringRef> taken;
  for (const StrategyRule &rule : getRules(role.position))
    for (auto [axes, dim] : llvm::zip(layout, role.dims)) {
      if (!(getRuleDims(dim) & rule.dims) || !axes.empty())
        continue;
      for (StringRef axis : llvm::split(rule.axes, '+'))
        if (shards(axis) && !llvm::is_contained(taken, axis))
          axes.push_back(axis);
      taken.append(axes);
    }
  return layout;
}

SmallVector<StringRef> Strategy::getTokenAxes() const {
  SmallVector<StringRef> axes;
  for (const StrategyRule &rule : getRules(Position::Tokens))
    llvm::append_range(axes, llvm::split(rule.axes, '+'));
  return axes;
}

SmallVector<StringRef> Strategy::getAxes() const {
  SmallVector<StringRef> axes;
  for (ArrayRef<StrategyRule> table : {rules, base})
    for (const StrategyRule &rule : table)
      for (StringRef axis : llvm::split(rule.axes, '+'))
        if (!llvm::is_contained(axes, axis))
          axes.push_back(axis);
  return axes;
}

bool Strategy::isOptional(StringRef axis) const {
  return axis == kDataAxis && getAxes().size() > 1;
}

using MeshAxes = ArrayRef<std::pair<StringRef, int64_t>>;

/// An axis that a strategy needs and a mesh lacks.
static std::optional<StringRef> findMissing(const Strategy &strategy,
                                            MeshAxes mesh) {
  for (StringRef axis : strategy.getAxes())
    if (!strategy.isOptional(axis) &&
        !llvm::is_contained(llvm::make_first_range(mesh), axis))
      return axis;
  return std::nullopt;
}

/// An axis of several ranks that a strategy does not know.
static std::optional<std::pair<StringRef, int64_t>>
findUnused(const Strategy &strategy, MeshAxes mesh) {
  SmallVector<StringRef> used = strategy.getAxes();
  for (const auto &[axis, size] : mesh)
    if (size > 1 && !llvm::is_contained(used, axis))
      return std::pair(axis, size);
  return std::nullopt;
}

std::string Strategy::explainMisfit(MeshAxes mesh) const {
  if (std::optional<StringRef> missing = findMissing(*this, mesh)) {
    SmallVector<StringRef> others;
    for (const Strategy &other : ArrayRef(strategies).drop_front())
      if (!findMissing(other, mesh) && !findUnused(other, mesh))
        others.push_back(other.name);
    return llvm::formatv(
        "has no axis '{0}', which strategy '{1}' uses; give {2}{3}{4}",
        *missing, name,
        getAxes().size() > 1 ? "both, as row:1,col:4" : "it, as data:4",
        others.empty() ? "" : ", or choose strategy ",
        llvm::join(others, " or "));
  }
  if (auto unused = findUnused(*this, mesh))
    return llvm::formatv("has an axis \"{0}\" of size {1} that strategy '{2}' "
                         "does not use: its ranks would all do the same",
                         unused->first, unused->second, name);
  return "";
}

/// What is wrong with a layout of the user's; empty if nothing.
static std::string checkLayout(StringRef layout) {
  SmallVector<StringRef> seen;
  for (StringRef dim : llvm::split(layout, ','))
    for (StringRef axis : llvm::split(dim, '+')) {
      if (axis == "-")
        continue;
      if (llvm::none_of(strategies, [&](const Strategy &strategy) {
            return llvm::is_contained(strategy.getAxes(), axis);
          }))
        return ("expected row, col, data or - for each dimension, joined by +; "
                "found '" +
                axis + "' in '" + layout + "'")
            .str();
      if (llvm::is_contained(seen, axis))
        return ("the axis '" + axis + "' shards twice in '" + layout + "'")
            .str();
      seen.push_back(axis);
    }
  return "";
}

llvm::Expected<SmallVector<ChosenLayout>>
mlir::optimus::parseChosenLayouts(StringRef text) {
  SmallVector<ChosenLayout> chosen;
  for (StringRef part : llvm::split(text, ';')) {
    if (part.empty())
      continue;
    auto [pattern, layout] = part.rsplit('=');
    if (pattern.empty() || layout.empty())
      return llvm::createStringError(
          "expected PATTERN=LAYOUT, as h.*.mlp.c_proj.weight=row,col; found '" +
          part + "'");
    if (llvm::Expected<llvm::GlobPattern> glob =
            llvm::GlobPattern::create(pattern);
        !glob)
      return llvm::createStringError("expected a path, in which * stands for "
                                     "any part of it; found '" +
                                     pattern +
                                     "': " + llvm::toString(glob.takeError()));
    if (std::string problem = checkLayout(layout); !problem.empty())
      return llvm::createStringError(problem);
    chosen.push_back({pattern, layout});
  }
  return chosen;
}

ArrayRef<Strategy> mlir::optimus::getStrategies() { return strategies; }

SmallVector<StringRef> mlir::optimus::getKnownStrategies() {
  return llvm::map_to_vector(
      strategies, [](const Strategy &strategy) { return strategy.name; });
}

llvm::Expected<SmallVector<EntryStrategy>>
mlir::optimus::parseEntryStrategies(StringRef text, StringRef ofProgram) {
  SmallVector<EntryStrategy> chosen;
  for (StringRef part : llvm::split(text, ',')) {
    if (part.empty())
      continue;
    auto [entry, name] = part.split('=');
    std::optional<EntryKind> kind = symbolizeEntryKind(entry);
    if (!kind || !llvm::is_contained(kGenerationKinds, *kind))
      return llvm::createStringError(
          "expected ENTRY=NAME of prefill, decode or score, as "
          "decode=stationary; found '" +
          part + "'");
    auto *found = llvm::find_if(ofEntries, [&](const Strategy &strategy) {
      return strategy.name == name;
    });
    const Strategy *program = lookupStrategy(ofProgram);
    if (found == std::end(ofEntries))
      return llvm::createStringError("unknown strategy '" + name + "' of " +
                                     entry + "; known is stationary");
    // Parameters lie once.
    if (!program || program->rules.data() != found->base.data())
      return llvm::createStringError(
          "strategy '" + name + "' of " + entry +
          " leaves parameters where 'summa' has them; found strategy '" +
          ofProgram + "' for the program");
    chosen.push_back({*kind, found});
  }
  return chosen;
}

const Strategy *mlir::optimus::lookupStrategy(StringRef name) {
  for (const Strategy &strategy : strategies)
    if (strategy.name == name)
      return &strategy;
  return nullptr;
}
