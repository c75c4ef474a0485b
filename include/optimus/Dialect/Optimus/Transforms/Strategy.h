//===- Strategy.h - Tables from roles to shardings --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_STRATEGY_H
#define OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_STRATEGY_H

#include "mlir/Support/LLVM.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <utility>

namespace mlir::optimus {

/// A row of a strategy: what has this role is sharded so.
struct RoleLayout {
  StringRef role;
  /// The axes that shard each dimension, slowest first, as "data+row,-,col";
  /// "-" where none does.
  StringRef layout;
};

/// A way to spread a transformer over a mesh. A strategy is data: nothing but
/// the pass that reads this table knows its name.
struct Strategy {
  StringRef name;
  ArrayRef<RoleLayout> roles;
  /// What holds where `roles` says nothing.
  ArrayRef<RoleLayout> base;
  /// How what moves in a product does: `optimus.move` where the program does
  /// not say.
  StringRef move = OptimusDialect::kMovePanels;

  /// The axis that shards the batch alone: any strategy is replicated over it,
  /// and the optimizer's state is sharded by it.
  static constexpr StringLiteral kDataAxis = "data";

  /// The layout of a role, empty where the table does not name it: then the
  /// value's sharding follows from those of its operands.
  StringRef lookup(StringRef role) const;
  /// The axes that the table names, in order of appearance.
  SmallVector<StringRef> getAxes() const;
  /// Whether a mesh need not have an axis: the data axis, unless it is all that
  /// the strategy has.
  bool isOptional(StringRef axis) const;
};

/// What is wrong with a role that no strategy's table has; empty if one does.
std::string checkRole(StringRef role);

/// Layouts that stand before those of a strategy's table, by role.
using ChosenLayouts = SmallVector<std::pair<std::string, std::string>>;

/// Reads `ROLE=LAYOUT` with layouts as in tables, several separated by `;`:
/// "mlp_down.weight=row,col;heads=data+row,-,col,-". The error says what is
/// expected; a role is one that some strategy names.
llvm::Expected<ChosenLayouts> parseChosenLayouts(StringRef text);

/// All strategies; `serial`, which shards nothing, comes first.
ArrayRef<Strategy> getStrategies();

/// The names of all strategies.
SmallVector<StringRef> getKnownStrategies();

/// The strategy of a name, or null.
const Strategy *lookupStrategy(StringRef name);

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_STRATEGY_H
