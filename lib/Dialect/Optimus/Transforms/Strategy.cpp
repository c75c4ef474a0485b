//===- Strategy.cpp - Tables from roles to shardings ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/Transforms/Strategy.h"

#include "optimus-support/NearestName.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::optimus;

// Every table names the data axis where the batch is; a mesh may lack it.

// Weights whose roles end in `.weight` are [in, out]. Those of `out_in` are
// stored [out, in], as torch.nn.Linear has them, and products transpose them:
// the same layouts in the other order. Queries, keys and values are products of
// one input, which moves once for all of them (--optimus-group-products), so
// that their weights lie alike however narrow keys and values are.

/// 2D: activations [b, s, h] and weights [in, out] are sharded along both of
/// their long dimensions. Where a linear's result stays in place, its input
/// moves in all three products; where its input stays, its result moves in two,
/// since both gradients move the same one. So linears that do not widen lie
/// across, [out, in] at [row, col]: the down projection and the attention's
/// output.
static constexpr RoleLayout summa[] = {
    {"tokens", "data+row,-"},
    {"targets", "data+row,-"},
    {"residual", "data+row,-,col"},
    {"qkv", "data+row,-,-,col,-"},
    {"heads", "data+row,-,col,-"},
    {"mlp_hidden", "data+row,-,col"},
    {"token_embedding", "col,row"},
    {"position_embedding", "-,col"},
    {"norm.gain", "col"},
    {"norm.bias", "col"},
    {"qkv.weight", "row,-,col,-"},
    {"qkv.bias", "-,col,-"},
    {"attn_out.weight", "col,-,row"},
    {"attn_out.bias", "col"},
    {"mlp_up.weight", "row,col"},
    {"mlp_up.bias", "col"},
    {"mlp_down.weight", "col,row"},
    {"mlp_down.bias", "col"},
    {"query_heads", "data+row,-,col,-,-"},
    {"query_heads.out_in", "col,-,-,row"},
    {"heads.out_in", "col,-,row"},
    {"heads.bias", "col,-"},
    {"attn_out.out_in", "row,col,-,-"},
    {"mlp_up.out_in", "col,row"},
    {"mlp_down.out_in", "row,col"},
    {"head.weight", "col,row"},
    // Weights [out, in] of BERT, and what goes with them.
    {"attn_merge.out_in", "row,col,-"},
    {"attn_merge.bias", "col"},
    {"transform.out_in", "col,row"},
    {"transform.bias", "col"},
    {"head.bias", "col"},
};

/// Where the Optimus paper differs: every weight [in, out] is at [row, col], so
/// that every forward product keeps its result in place.
static constexpr RoleLayout summaPaper[] = {
    {"token_embedding", "row,col"},     {"attn_out.weight", "row,-,col"},
    {"mlp_down.weight", "row,col"},     {"attn_out.out_in", "col,row,-,-"},
    {"attn_merge.out_in", "col,row,-"}, {"mlp_down.out_in", "col,row"},
    {"head.weight", "row,col"},         {"head.bias", "row"},
};

/// 1D tensor parallelism over `col` (column-parallel, then row-parallel
/// products) and data parallelism over `row`.
static constexpr RoleLayout megatron[] = {
    {"tokens", "data+row,-"},
    {"targets", "data+row,-"},
    {"residual", "data+row,-,-"},
    {"qkv", "data+row,-,-,col,-"},
    {"heads", "data+row,-,col,-"},
    {"mlp_hidden", "data+row,-,col"},
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
    {"query_heads", "data+row,-,col,-,-"},
    {"query_heads.out_in", "col,-,-,-"},
    {"heads.out_in", "col,-,-"},
    {"heads.bias", "col,-"},
    {"attn_out.out_in", "-,col,-,-"},
    {"mlp_up.out_in", "col,-"},
    {"mlp_down.out_in", "-,col"},
    {"head.weight", "col,-"},
    {"attn_merge.out_in", "-,col,-"},
    {"attn_merge.bias", "-"},
    {"transform.out_in", "-,-"},
    {"transform.bias", "-"},
    {"head.bias", "col"},
};

/// Megatron with sequence parallelism: between products the sequence is sharded
/// over `col`. Inputs of products are gathered whole, again in the backward,
/// and partial results reduce-scattered.
static constexpr RoleLayout megatronSp[] = {
    {"residual", "data+row,col,-"},
};

/// Every rank has all parameters and a part of the batch.
static constexpr RoleLayout data[] = {
    {"tokens", "data,-"},
    {"targets", "data,-"},
    {"residual", "data,-,-"},
    {"qkv", "data,-,-,-,-"},
    {"heads", "data,-,-,-"},
    {"mlp_hidden", "data,-,-"},
    {"token_embedding", "-,-"},
    {"position_embedding", "-,-"},
    {"norm.gain", "-"},
    {"norm.bias", "-"},
    {"qkv.weight", "-,-,-,-"},
    {"qkv.bias", "-,-,-"},
    {"attn_out.weight", "-,-,-"},
    {"attn_out.bias", "-"},
    {"mlp_up.weight", "-,-"},
    {"mlp_up.bias", "-"},
    {"mlp_down.weight", "-,-"},
    {"mlp_down.bias", "-"},
    {"query_heads", "data,-,-,-,-"},
    {"query_heads.out_in", "-,-,-,-"},
    {"heads.out_in", "-,-,-"},
    {"heads.bias", "-,-"},
    {"attn_out.out_in", "-,-,-,-"},
    {"mlp_up.out_in", "-,-"},
    {"mlp_down.out_in", "-,-"},
    {"head.weight", "-,-"},
    {"attn_merge.out_in", "-,-,-"},
    {"attn_merge.bias", "-"},
    {"transform.out_in", "-,-"},
    {"transform.bias", "-"},
    {"head.bias", "-"},
};

static constexpr Strategy strategies[] = {
    {"serial", {}, {}},
    {"summa", summa, {}},
    {"summa-paper", summaPaper, summa},
    {"megatron", megatron, {}},
    {"megatron-sp", megatronSp, megatron, OptimusDialect::kMoveWhole},
    {"data", data, {}},
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
      for (StringRef dim : llvm::split(row.layout, ','))
        for (StringRef axis : llvm::split(dim, '+'))
          if (axis != "-" && !llvm::is_contained(axes, axis))
            axes.push_back(axis);
  return axes;
}

bool Strategy::isOptional(StringRef axis) const {
  return axis == kDataAxis && getAxes().size() > 1;
}

std::string mlir::optimus::checkRole(StringRef role) {
  std::vector<std::string> known;
  for (const Strategy &strategy : strategies)
    for (const RoleLayout &row : strategy.roles)
      known.push_back(row.role.str());
  if (llvm::is_contained(known, role))
    return "";
  std::string name = role.str();
  return "no strategy knows the role '" + name +
         "'; roles are as qkv.weight or mlp_down.weight" +
         optimus_support::didYouMean(name, known);
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

llvm::Expected<ChosenLayouts>
mlir::optimus::parseChosenLayouts(StringRef text) {
  ChosenLayouts chosen;
  for (StringRef part : llvm::split(text, ';')) {
    if (part.empty())
      continue;
    auto [role, layout] = part.split('=');
    if (role.empty() || layout.empty())
      return llvm::createStringError(
          "expected ROLE=LAYOUT, as mlp_down.weight=row,col; found '" + part +
          "'");
    if (std::string problem = checkRole(role); !problem.empty())
      return llvm::createStringError(problem);
    if (std::string problem = checkLayout(layout); !problem.empty())
      return llvm::createStringError(problem);
    chosen.push_back({role.str(), layout.str()});
  }
  return chosen;
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
