//===- InferRoles.cpp - Roles from the program ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/DimensionGroups.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/Transforms/Role.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// A product of an activation with a weight.
struct Linear {
  Operation *product;
  Value weight;
  /// The sides of the weight's dimensions.
  SmallVector<LinearSide> sides;
};

/// Two linears that are the factors of one, by their numbers.
///
///   %h = matmul %x, %a     [.., hidden] · [hidden, rank]
///   %y = matmul %h, %b     [.., rank] · [rank, heads]
///
/// They lie as the one from hidden to heads would: dimensions of the rank, less
/// than both sides, are whole everywhere.
struct LowRank {
  size_t first, second;
};

class RoleInference {
public:
  explicit RoleInference(func::FuncOp function) : function(function) {}

  void run() {
    addValues();
    for (Operation &op : function.front())
      addKnown(&op);
    for (Operation &op : function.front())
      if (std::optional<Linear> linear = getLinear(&op))
        linears.push_back(*linear);
    findLowRanks();
    nameInner();
    for (const Linear &linear : linears)
      setPosition(linear);
    updateArgAttrs(function, [&](unsigned number, NamedAttrList &attributes) {
      setRole(function.getArgument(number), attributes);
    });
    for (Operation &op : function.front().without_terminator())
      setRole(&op);
  }

private:
  void addValues();
  /// The classes of dimensions that the operation knows.
  void addKnown(Operation *op);
  std::optional<Linear> getLinear(Operation *op);
  void findLowRanks();
  /// How many elements the dimensions on one side of a weight have.
  int64_t countSide(const Linear &linear, LinearSide side) const;
  /// Whether a dimension of a linear is the rank of two factors.
  bool isRank(const Linear &linear, int64_t dim) const;
  /// The place among linears of the one from one linear's input to another's
  /// result, which are the same or two factors.
  Position getPosition(const Linear &from, const Linear &to) const;
  /// What a linear makes and another one contracts is ffn, if it is nothing
  /// else.
  void nameInner();
  /// The weight's role; linears are to be visited in the program's order.
  Role place(const Linear &linear);
  void setRole(BlockArgument argument, NamedAttrList &attributes);
  void setRole(Operation *op);

  DimensionClass getClass(Value value, int64_t dim) const {
    return classes.lookup(groups.find(value, dim));
  }
  /// The role of an activation with the dimensions of `value`.
  Role getRoleOf(Value value) const;
  /// Whether some dimension on one side of a linear is so.
  bool leads(const Linear &linear, LinearSide side,
             llvm::function_ref<bool(DimensionClass)> is) const;
  bool isParameter(BlockArgument argument) const {
    BufferAttr buffer = getArgumentBuffer(function, argument.getArgNumber());
    return buffer && buffer.getLifetime() == Lifetime::Parameter;
  }
  /// The parameter that a weight is made of, as by a cast.
  Value getParameter(Value weight) const { return ofParameters.lookup(weight); }
  /// Gives a weight's role to its parameter. A weight with repeated heads keeps
  /// it itself, and its parameter has the channels sharded instead of the few
  /// heads.
  void setPosition(const Linear &linear);

  func::FuncOp function;
  DimensionGroups groups;
  llvm::DenseMap<int64_t, DimensionClass> classes;
  /// Values made of parameters and constants alone, each with the first of its
  /// parameters.
  llvm::DenseMap<Value, Value> ofParameters;
  SmallVector<Linear> linears;
  SmallVector<LowRank> lowRanks;
  llvm::DenseMap<Value, Role> positions;
};

} // namespace

static bool holdsFloats(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

static bool has(const Role &role, DimensionClass dimension) {
  return llvm::any_of(role.dims, [&](const RoleDim &dim) {
    return dim.dimension == dimension;
  });
}

/// Whether a class can be what is between two linears.
static bool isInner(DimensionClass dimension) {
  return dimension == DimensionClass::Heads ||
         dimension == DimensionClass::Ffn ||
         dimension == DimensionClass::Vocabulary;
}

static bool isHidden(DimensionClass dimension) {
  return dimension == DimensionClass::Hidden;
}

void RoleInference::addValues() {
  for (BlockArgument argument : function.getArguments()) {
    groups.add(argument);
    if (isParameter(argument))
      ofParameters[argument] = argument;
  }
  for (Operation &op : function.front()) {
    groups.addOperation(&op);
    if (op.getNumResults() == 0 ||
        !llvm::all_of(op.getOperands(),
                      [&](Value v) { return ofParameters.contains(v); }))
      continue;
    if (op.getNumOperands() == 0 && !op.hasTrait<OpTrait::ConstantLike>())
      continue;
    Value first;
    for (Value operand : op.getOperands())
      if ((first = ofParameters.lookup(operand)))
        break;
    for (Value result : op.getResults())
      ofParameters[result] = first;
  }
}

void RoleInference::addKnown(Operation *op) {
  auto interface = dyn_cast<ShardingRuleOpInterface>(op);
  if (!interface)
    return;
  // Of what two operations say, the more particular one holds: channels that
  // are normalised are channels.
  static constexpr DimensionClass ranking[] = {
      DimensionClass::Other,  DimensionClass::Ffn,
      DimensionClass::Hidden, DimensionClass::Sequence,
      DimensionClass::Batch,  DimensionClass::Channels,
      DimensionClass::Heads,  DimensionClass::Vocabulary};
  ShardingRule rule = interface.getShardingRule();
  for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands))
    for (auto [dim, factor] : llvm::enumerate(factors)) {
      DimensionClass &known = classes[groups.find(operand, dim)];
      known = std::max(known, rule.factors[factor].dimension,
                       [](DimensionClass a, DimensionClass b) {
                         return llvm::find(ranking, a) < llvm::find(ranking, b);
                       });
    }
}

std::optional<Linear> RoleInference::getLinear(Operation *op) {
  if (!op->hasTrait<MovesInPanels>())
    return std::nullopt;
  Value input = op->getOperand(0), weight = op->getOperand(1);
  if (ofParameters.contains(input) || !getParameter(weight))
    return std::nullopt;
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  Linear linear{op, weight, {}};
  for (int64_t factor : rule.operands[1])
    linear.sides.push_back(rule.factors[factor].kind == FactorKind::Contracted
                               ? LinearSide::In
                               : LinearSide::Out);
  return linear;
}

int64_t RoleInference::countSide(const Linear &linear, LinearSide side) const {
  int64_t size = 1;
  auto shape = cast<RankedTensorType>(linear.weight.getType()).getShape();
  for (auto [extent, known] : llvm::zip(shape, linear.sides))
    if (known == side)
      size *= extent;
  return size;
}

/// The product that an input is, but for a constant factor.
static Operation *findProduct(Value input) {
  Operation *op = input.getDefiningOp();
  if (auto scaled = dyn_cast_or_null<MulOp>(op))
    if (Operation *factor = scaled.getRhs().getDefiningOp();
        factor && factor->hasTrait<OpTrait::ConstantLike>())
      op = scaled.getLhs().getDefiningOp();
  return op;
}

void RoleInference::findLowRanks() {
  for (auto [second, linear] : llvm::enumerate(linears)) {
    Operation *product = findProduct(linear.product->getOperand(0));
    auto *first = llvm::find_if(linears, [&](const Linear &other) {
      return product && other.product == product;
    });
    if (first == linears.end())
      continue;
    int64_t rank = countSide(*first, LinearSide::Out);
    if (rank == countSide(linear, LinearSide::In) &&
        rank < countSide(*first, LinearSide::In) &&
        rank < countSide(linear, LinearSide::Out))
      lowRanks.push_back(
          {static_cast<size_t>(first - linears.begin()), second});
  }
}

bool RoleInference::isRank(const Linear &linear, int64_t dim) const {
  LinearSide side = linear.sides[dim];
  return llvm::any_of(lowRanks, [&](const LowRank &pair) {
    return &linear ==
           &linears[side == LinearSide::Out ? pair.first : pair.second];
  });
}

Position RoleInference::getPosition(const Linear &from,
                                    const Linear &to) const {
  if (leads(from, LinearSide::In, isInner))
    return Position::Second;
  return leads(from, LinearSide::In, isHidden) &&
                 leads(to, LinearSide::Out, isInner)
             ? Position::First
             : Position::Unpaired;
}

void RoleInference::nameInner() {
  llvm::DenseSet<int64_t> made;
  auto isHeads = [](DimensionClass dimension) {
    return dimension == DimensionClass::Heads;
  };
  for (const Linear &linear : linears) {
    // Dimensions beside heads are a head's channels, or the queries that share
    // keys.
    bool isOfHeads = leads(linear, LinearSide::In, isHeads);
    for (auto [dim, side] : llvm::enumerate(linear.sides)) {
      if (isRank(linear, dim))
        continue;
      int64_t group = groups.find(linear.weight, dim);
      if (side == LinearSide::Out) {
        made.insert(group);
        continue;
      }
      DimensionClass &known = classes[group];
      if (known == DimensionClass::Other && made.contains(group) && !isOfHeads)
        known = DimensionClass::Ffn;
    }
  }
}

bool RoleInference::leads(const Linear &linear, LinearSide side,
                          llvm::function_ref<bool(DimensionClass)> is) const {
  for (auto [dim, known] : llvm::enumerate(linear.sides))
    if (known == side && is(getClass(linear.weight, dim)))
      return true;
  return false;
}

Role RoleInference::place(const Linear &linear) {
  // A linear from inner to inner ends its pair: its result is the residual
  // stream of the next ones.
  if (leads(linear, LinearSide::In, isInner))
    for (auto [dim, side] : llvm::enumerate(linear.sides)) {
      DimensionClass &known = classes[groups.find(linear.weight, dim)];
      if (side == LinearSide::Out && known == DimensionClass::Ffn)
        known = DimensionClass::Hidden;
    }
  Role role = getRoleOf(linear.weight);
  role.position = getPosition(linear, linear);
  for (const LowRank &pair : lowRanks)
    if (&linear == &linears[pair.first] || &linear == &linears[pair.second])
      role.position = getPosition(linears[pair.first], linears[pair.second]);
  for (auto [dim, side] : llvm::zip(role.dims, linear.sides))
    dim.side = side;
  return role;
}

void RoleInference::setPosition(const Linear &linear) {
  Role role = place(linear);
  auto product = linear.weight.getDefiningOp<MatmulOp>();
  // Other products of parameters repeat nothing.
  if (!product || ofParameters.lookup(product.getA())) {
    positions.try_emplace(getParameter(linear.weight), role);
    return;
  }
  auto parameter = cast<BlockArgument>(getParameter(linear.weight));
  role.path = getArgumentBuffer(function, parameter.getArgNumber()).getOf();
  product->setAttr(OptimusDialect::kRole,
                   StringAttr::get(function.getContext(), role.toString()));
  // The repeated dimension comes first, as it does in the parameter. Channels
  // are never padded; where as many ranks as there are heads do not divide them
  // they stay whole.
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(linear.weight.getType()).getShape();
  if (shape[1] % shape[0] == 0)
    role.dims[1].dimension = role.dims[0].dimension;
  role.dims[0].dimension = DimensionClass::Other;
  positions.try_emplace(parameter, role);
}

Role RoleInference::getRoleOf(Value value) const {
  Role role;
  for (int64_t dim = 0; dim < cast<RankedTensorType>(value.getType()).getRank();
       ++dim)
    role.dims.push_back({getClass(value, dim)});
  return role;
}

/// The role of the table of a cache's pages. It lies where the slots do, as
/// keys and values.
static constexpr StringLiteral kPagesRole = "pages";

void RoleInference::setRole(BlockArgument argument, NamedAttrList &attributes) {
  unsigned number = argument.getArgNumber();
  auto type = dyn_cast<RankedTensorType>(argument.getType());
  if (!type || type.getRank() == 0 || !getRole(argument).empty())
    return;
  Role role = getRoleOf(argument);
  if (isParameter(argument)) {
    role.position = Position::Vector;
    if (auto known = positions.find(argument); known != positions.end())
      role = known->second;
    else if (has(role, DimensionClass::Vocabulary))
      role.position = Position::Table;
    // Of what no dimension is known, rules have nothing to say.
    if (llvm::all_of(role.dims, [](const RoleDim &dim) {
          return dim.dimension == DimensionClass::Other;
        }))
      return;
    role.path = getArgumentBuffer(function, number).getOf();
  } else {
    if (!has(role, DimensionClass::Batch))
      return;
    BufferAttr buffer = getArgumentBuffer(function, number);
    if (!holdsFloats(argument) && !(buffer && buffer.getRole() == kPagesRole))
      role.position = Position::Tokens;
  }
  attributes.set(OptimusDialect::kRole,
                 StringAttr::get(function.getContext(), role.toString()));
}

void RoleInference::setRole(Operation *op) {
  if (op->getNumResults() == 0 || op->hasAttr(OptimusDialect::kResultRoles))
    return;
  Value result = op->getResult(0);
  if (!isa<RankedTensorType>(result.getType()) || !holdsFloats(result) ||
      !getRole(result).empty() || ofParameters.contains(result))
    return;
  Role role = getRoleOf(result);
  role.path = getPath(op->getLoc());
  if (has(role, DimensionClass::Batch))
    op->setAttr(OptimusDialect::kRole,
                StringAttr::get(op->getContext(), role.toString()));
}

void mlir::optimus::inferRoles(func::FuncOp function) {
  RoleInference(function).run();
}
