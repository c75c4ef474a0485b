//===- Strategy.h - Rules that shard transformers ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_STRATEGY_H
#define OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_STRATEGY_H

#include "mlir/Support/LLVM.h"
#include "optimus/Dialect/Optimus/Transforms/Role.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::optimus {

/// What a rule speaks of: classes of dimensions, and sides of a linear.
namespace rule_dims {
enum : unsigned {
  Batch = 1 << 0,
  Sequence = 1 << 1,
  Heads = 1 << 2,
  Hidden = 1 << 3,
  Ffn = 1 << 4,
  Vocabulary = 1 << 5,
  /// The contracted dimension of a linear, and its result's.
  In = 1 << 6,
  Out = 1 << 7,
  /// What is between the linears of a pair.
  Inner = Heads | Ffn,
};
} // namespace rule_dims

/// A rule of a strategy: at this position, a dimension that is one of these is
/// sharded over these axes.
struct StrategyRule {
  Position position;
  /// Some of `rule_dims`.
  unsigned dims;
  /// Slowest first, as "data+row".
  StringRef axes;
};

/// A way to spread a transformer over a mesh. A strategy is rules, the same for
/// all models: nothing but the pass that reads them knows its name.
struct Strategy {
  StringRef name;
  ArrayRef<StrategyRule> rules;
  /// The rules at positions not in `rules`.
  ArrayRef<StrategyRule> base;
  /// How what moves in a product does: `optimus.move` where the program does
  /// not say.
  StringRef move = OptimusDialect::kMovePanels;

  /// The axis that shards the batch alone: any strategy is replicated over it,
  /// and the optimizer's state is sharded by it.
  static constexpr StringLiteral kDataAxis = "data";

  /// The rules that hold at a position. The earlier ones choose first: an axis
  /// shards one dimension.
  ArrayRef<StrategyRule> getRules(Position position) const;
  /// The axes that shard each dimension of a value with `role`, among those
  /// accepted by `shards`.
  SmallVector<SmallVector<StringRef>>
  layOut(const Role &role, llvm::function_ref<bool(StringRef)> shards) const;
  /// The axes over which tokens differ.
  SmallVector<StringRef> getTokenAxes() const;
  /// The axes that the rules name, in order of appearance.
  SmallVector<StringRef> getAxes() const;
  /// Whether a mesh need not have an axis: the data axis, unless it is all that
  /// the strategy has.
  bool isOptional(StringRef axis) const;
  /// Why a mesh of these axes, by name and size, is none of this strategy's, as
  /// "has no axis 'col', which …"; empty if it is one.
  std::string explainMisfit(ArrayRef<std::pair<StringRef, int64_t>> mesh) const;
};

/// How the activations of an entry lie, in place of the program's strategy.
struct EntryStrategy {
  EntryKind entry;
  const Strategy *strategy;
};

/// Reads `ENTRY=NAME`, several separated by `,`: "decode=stationary". Such a
/// strategy has the program's for its base: parameters lie once. The error says
/// what is expected.
llvm::Expected<SmallVector<EntryStrategy>>
parseEntryStrategies(StringRef text, StringRef ofProgram);

/// A layout chosen by the user for the values of a path, in place of the
/// strategy's.
struct ChosenLayout {
  /// A path in the model, in which `*` stands for any part of it.
  StringRef pattern;
  /// The axes that shard each dimension, as "data+row,-,col"; "-" where none.
  StringRef layout;
};

/// Reads `PATTERN=LAYOUT`, several separated by `;`:
/// "h.*.mlp.c_proj.weight=row,col;h.0.attn.heads=data+row,-,col,-". The error
/// says what is expected. `text` outlives the layouts.
llvm::Expected<SmallVector<ChosenLayout>> parseChosenLayouts(StringRef text);

/// All strategies; `serial`, which shards nothing, comes first.
ArrayRef<Strategy> getStrategies();

/// The names of all strategies.
SmallVector<StringRef> getKnownStrategies();

/// The strategy of a name, or null.
const Strategy *lookupStrategy(StringRef name);

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_STRATEGY_H
