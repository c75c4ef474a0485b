//===- Strategy.cpp - Tables from roles to shardings -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/Transforms/Strategy.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::optimus;

/// 2D: activations [b, s, h] and weights [in, out] are cut along both of their
/// long dimensions. The down projection lies across, so that its products
/// keep the largest of their three tensors, the hidden activation, in place.
static constexpr RoleLayout summa[] = {
    {"tokens", "row,-"},
    {"targets", "row,-"},
    {"residual", "row,-,col"},
    {"qkv", "row,-,-,col,-"},
    {"heads", "row,-,col,-"},
    {"mlp_hidden", "row,-,col"},
    {"token_embedding", "col,row"},
    {"position_embedding", "-,col"},
    {"norm.gain", "col"},
    {"norm.bias", "col"},
    {"qkv.weight", "row,-,col,-"},
    {"qkv.bias", "-,col,-"},
    {"attn_out.weight", "row,-,col"},
    {"attn_out.bias", "col"},
    {"mlp_up.weight", "row,col"},
    {"mlp_up.bias", "col"},
    {"mlp_down.weight", "col,row"},
    {"mlp_down.bias", "col"},
};

/// Where the Optimus paper differs: every weight [in, out] is at [row, col], so
/// that every forward product keeps its result in place.
static constexpr RoleLayout summaPaper[] = {
    {"token_embedding", "row,col"},
    {"mlp_down.weight", "row,col"},
};

/// 1D tensor parallelism over `col` (column-parallel, then row-parallel
/// products) and data parallelism over `row`.
static constexpr RoleLayout megatron[] = {
    {"tokens", "row,-"},
    {"targets", "row,-"},
    {"residual", "row,-,-"},
    {"qkv", "row,-,-,col,-"},
    {"heads", "row,-,col,-"},
    {"mlp_hidden", "row,-,col"},
    {"token_embedding", "col,-"},
    {"position_embedding", "-,-"},
    {"norm.gain", "-"},
    {"norm.bias", "-"},
    {"qkv.weight", "-,-,col,-"},
    {"qkv.bias", "-,col,-"},
    {"attn_out.weight", "col,-,-"},
    {"attn_out.bias", "-"},
    {"mlp_up.weight", "-,col"},
    {"mlp_up.bias", "col"},
    {"mlp_down.weight", "col,-"},
    {"mlp_down.bias", "-"},
};

static constexpr Strategy strategies[] = {
    {"serial", {}, {}},
    {"summa", summa, {}},
    {"summa-paper", summaPaper, summa},
    {"megatron", megatron, {}},
};

StringRef Strategy::lookup(StringRef role) const {
  for (ArrayRef<RoleLayout> table : {roles, base})
    for (const RoleLayout &row : table)
      if (row.role == role)
        return row.layout;
  return {};
}

SmallVector<StringRef> Strategy::getAxes() const {
  SmallVector<StringRef> axes;
  for (ArrayRef<RoleLayout> table : {roles, base})
    for (const RoleLayout &row : table)
      for (StringRef axis : llvm::split(row.layout, ','))
        if (axis != "-" && !llvm::is_contained(axes, axis))
          axes.push_back(axis);
  return axes;
}

ArrayRef<Strategy> mlir::optimus::getStrategies() { return strategies; }

SmallVector<StringRef> mlir::optimus::getKnownStrategies() {
  return llvm::map_to_vector(
      strategies, [](const Strategy &strategy) { return strategy.name; });
}

const Strategy *mlir::optimus::lookupStrategy(StringRef name) {
  for (const Strategy &strategy : strategies)
    if (strategy.name == name)
      return &strategy;
  return nullptr;
}
