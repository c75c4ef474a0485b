//===- Layout.h - How a value lies by its role or path -----------*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_LAYOUT_H
#define OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_LAYOUT_H

#include "optimus/Dialect/Optimus/IR/MeshRanks.h"
#include "optimus/Dialect/Optimus/Transforms/Strategy.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/GlobPattern.h"

namespace mlir::optimus {

/// How values lie on a mesh by a strategy's rules, and by what the user chose
/// in their place.
class Layout {
public:
  Layout(const Strategy &strategy, ArrayRef<EntryStrategy> ofEntries,
         MeshOp mesh)
      : strategy(strategy), ofEntries(ofEntries), mesh(mesh) {}

  /// Takes what the user chose, as `parseChosenLayouts` reads it; `text`
  /// outlives this.
  LogicalResult choose(StringRef text);
  /// What belongs to the parameter of `path` lies as its annotation says.
  void keep(StringRef path, ShardingAttr sharding) {
    annotated[path] = sharding;
  }
  /// Every layout that the user chose was some value's.
  LogicalResult checkChosen();

  /// The layout by a value's role, or by `path` if it has none; null where
  /// nothing does. `op` is where errors are.
  FailureOr<ShardingAttr> lookup(Operation *op, StringRef role, StringRef path,
                                 RankedTensorType type);

private:
  struct Chosen {
    ChosenLayout layout;
    llvm::GlobPattern glob;
    bool isUsed = false;
  };

  /// What the user says of a path; null where that is nothing.
  FailureOr<ShardingAttr> lookupChosen(Operation *op, StringRef path,
                                       RankedTensorType type);
  /// `sharding` with the data axis sharding a dimension that it divides as it
  /// is, if there is one.
  ShardingAttr cutState(ShardingAttr sharding, RankedTensorType type);
  /// `sharding` of a sum over tokens: the ranks that differ in tokens alone
  /// hold partial sums.
  ShardingAttr addUp(ShardingAttr sharding);

  /// The strategy for a value at a position: for activations that of their
  /// entry. Vectors and tables have that of any entry: all read them.
  const Strategy &getStrategy(Operation *op, Position position) const;
  /// Whether an axis shards anything.
  bool shards(StringRef axis) { return getRanksAlong(mesh, axis) > 1; }
  FlatSymbolRefAttr getMeshRef() {
    return FlatSymbolRefAttr::get(mesh.getSymNameAttr());
  }

  const Strategy &strategy;
  SmallVector<EntryStrategy> ofEntries;
  MeshOp mesh;
  SmallVector<Chosen> chosen;
  llvm::StringMap<ShardingAttr> annotated;
  /// What patterns were compared with.
  std::vector<std::string> paths;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_LAYOUT_H
