//===- Shard.cpp - Gives every value a sharding -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/DimensionClasses.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/Transforms/MeshOption.h"
#include "optimus/Dialect/Optimus/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/Transforms/Strategy.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {
#define GEN_PASS_DEF_SHARDPASS
#include "optimus/Dialect/Optimus/Transforms/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

namespace {
class ShardPass : public mlir::optimus::impl::ShardPassBase<ShardPass> {
public:
  using ShardPassBase::ShardPassBase;

  void runOnOperation() override {
    if (failed(readOptions()) || failed(findMesh()) || failed(checkAxes()))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(shard(function)))
        return signalPassFailure();
    if (noPad && failed(checkDivisibility(DimensionClasses(getOperation()))))
      return signalPassFailure();
  }

private:
  LogicalResult readOptions();
  /// The module's mesh, or a new one as the option says.
  LogicalResult findMesh();
  /// Every axis of the strategy is one of the mesh and the other way round.
  LogicalResult checkAxes();
  LogicalResult checkDivisibility(const DimensionClasses &classes);
  LogicalResult checkDivisibility(Operation *op, Value value, Twine what,
                                  const DimensionClasses &classes);

  LogicalResult shard(func::FuncOp function);
  LogicalResult shardArguments(func::FuncOp function);
  LogicalResult shardResults(func::FuncOp function);
  LogicalResult shard(Operation *op);

  /// An annotation of the user's, which must fit the value and the mesh,
  /// without the axes of one rank, which shard nothing.
  FailureOr<ShardingAttr> readAnnotation(Operation *op, ShardingAttr sharding,
                                         Type type);
  /// What the table says of a role; null where it says nothing.
  FailureOr<ShardingAttr> lookupRole(Operation *op, StringRef role,
                                     RankedTensorType type);
  /// `sharding` with the data axis sharding a dimension that it divides as it
  /// is, if there is one.
  ShardingAttr cutState(ShardingAttr sharding, RankedTensorType type);
  /// `sharding` of a sum over tokens, of which the ranks that differ in tokens
  /// alone hold partial sums.
  ShardingAttr addUp(ShardingAttr sharding);
  /// What follows from the operands along the rule's factors.
  ShardingAttr propagate(Operation *op, unsigned result);

  FlatSymbolRefAttr getMeshRef() {
    return FlatSymbolRefAttr::get(meshOp.getSymNameAttr());
  }
  ShardingAttr getReplicated(int64_t rank) {
    return ShardingAttr::getReplicated(getMeshRef(), rank);
  }

  const Strategy *table = nullptr;
  ChosenLayouts chosen;
  MeshOp meshOp;
};
} // namespace

LogicalResult ShardPass::readOptions() {
  table = lookupStrategy(strategy);
  if (!table)
    return getOperation().emitError("unknown strategy '")
           << strategy << "'; known are "
           << llvm::join(getKnownStrategies(), ", ");
  llvm::Expected<ChosenLayouts> parsed = parseChosenLayouts(layouts);
  if (!parsed)
    return getOperation().emitError("layouts: ")
           << llvm::toString(parsed.takeError());
  chosen = std::move(*parsed);
  return success();
}

LogicalResult ShardPass::findMesh() {
  ModuleOp module = getOperation();
  meshOp = getMesh(module);
  if (mesh.empty()) {
    if (meshOp)
      return success();
    return module.emitError("expected the option mesh, as mesh=row:2,col:2, or "
                            "an optimus.mesh in the module");
  }
  llvm::Expected<MeshOption> option = MeshOption::parse(mesh);
  if (!option)
    return module.emitError(llvm::toString(option.takeError()));
  Builder builder(module.getContext());
  SmallVector<Attribute> axes;
  for (const auto &[name, size] : option->axes)
    axes.push_back(MeshAxisAttr::get(module.getContext(),
                                     builder.getStringAttr(name), size));
  ArrayAttr wanted = builder.getArrayAttr(axes);
  if (meshOp && meshOp.getAxes() != wanted)
    return meshOp.emitOpError("is not the mesh '")
           << mesh << "' that the option asks for; leave the option out or "
           << "this operation";
  if (meshOp)
    return success();
  OpBuilder atStart = OpBuilder::atBlockBegin(module.getBody());
  meshOp = MeshOp::create(atStart, module.getLoc(), "mesh", wanted);
  return success();
}

LogicalResult ShardPass::checkAxes() {
  SmallVector<StringRef> used = table->getAxes();
  for (StringRef axis : used)
    if (!meshOp.getAxisSize(axis) && !table->isOptional(axis))
      return meshOp.emitOpError("has no axis '")
             << axis << "', which strategy '" << table->name << "' uses; give "
             << (used.size() > 1 ? "both, as row:1,col:4" : "it, as data:4");
  for (MeshAxisAttr axis : meshOp.getAxisList())
    if (axis.getSize() > 1 && !llvm::is_contained(used, axis.getName()))
      return meshOp.emitOpError("has an axis ")
             << axis.getName() << " of size " << axis.getSize()
             << " that strategy '" << table->name
             << "' does not use: its ranks would all do the same";
  return success();
}

LogicalResult ShardPass::shard(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expected one block, found ")
           << function.getBody().getBlocks().size();
  if (failed(shardArguments(function)))
    return failure();
  for (Operation &op : function.front().without_terminator())
    if (failed(shard(&op)))
      return failure();
  return shardResults(function);
}

FailureOr<ShardingAttr>
ShardPass::readAnnotation(Operation *op, ShardingAttr sharding, Type type) {
  ++numUserShardings;
  // Whoever wrote it may not have known the mesh, which can be new.
  if (failed(verifySharding(op, "the annotation", type, sharding)))
    return failure();
  if (!sharding.getUnreduced().empty())
    return op->emitOpError(
               "expected the annotation of a complete value, found ")
           << sharding;
  SmallVector<SmallVector<StringRef>> dims;
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim) {
    dims.push_back(sharding.getDimAxes(dim));
    llvm::erase_if(dims.back(), [&](StringRef axis) {
      return *meshOp.getAxisSize(axis) == 1;
    });
  }
  return ShardingAttr::get(getMeshRef(), dims);
}

ShardingAttr ShardPass::cutState(ShardingAttr sharding, RankedTensorType type) {
  int64_t size = meshOp.getAxisSize(Strategy::kDataAxis).value_or(1);
  if (size == 1)
    return sharding;
  for (auto [dim, extent] : llvm::enumerate(type.getShape())) {
    SmallVector<StringRef> axes = sharding.getDimAxes(dim);
    if (extent % (meshOp.getProduct(axes) * size) != 0)
      continue;
    axes.push_back(Strategy::kDataAxis);
    return sharding.withDimAxes(dim, axes);
  }
  return sharding;
}

ShardingAttr ShardPass::addUp(ShardingAttr sharding) {
  SmallVector<StringRef> used, unreduced;
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    llvm::append_range(used, sharding.getDimAxes(dim));
  for (StringRef axis :
       llvm::split(table->lookup("tokens").split(',').first, '+'))
    if (axis != "-" && meshOp.getAxisSize(axis).value_or(1) > 1 &&
        !llvm::is_contained(used, axis))
      unreduced.push_back(axis);
  return sharding.withUnreduced(unreduced);
}

FailureOr<ShardingAttr> ShardPass::lookupRole(Operation *op, StringRef role,
                                              RankedTensorType type) {
  bool isState = role.consume_front(OptimusDialect::kStateRole);
  bool isSum = role.consume_front(kSumRole);
  // A value whose role has a typing mistake would lie anywhere but there.
  if (!role.empty())
    if (std::string problem = checkRole(role); !problem.empty())
      return op->emitOpError(problem);
  StringRef layout = table->lookup(role);
  auto *own = llvm::find_if(
      chosen, [&](const auto &entry) { return entry.first == role; });
  if (own != chosen.end())
    layout = own->second;
  if (layout.empty())
    return ShardingAttr();
  SmallVector<SmallVector<StringRef>> dims;
  for (StringRef dim : llvm::split(layout, ',')) {
    dims.emplace_back();
    // An axis of one rank shards nothing.
    for (StringRef axis : llvm::split(dim, '+'))
      if (axis != "-" && meshOp.getAxisSize(axis).value_or(1) > 1)
        dims.back().push_back(axis);
  }
  if (static_cast<int64_t>(dims.size()) != type.getRank())
    return op->emitOpError("has a value of rank ")
           << type.getRank() << " with role '" << role << "', which "
           << (own == chosen.end() ? ("strategy '" + table->name + "'").str()
                                   : "the option layouts")
           << " lays out as [" << layout << ']';
  auto sharding = ShardingAttr::get(getMeshRef(), dims);
  if (isSum)
    return addUp(sharding);
  return isState ? cutState(sharding, type) : sharding;
}

LogicalResult ShardPass::shardArguments(func::FuncOp function) {
  // Before steps are built tokens and targets have no binding, but only they
  // are integers.
  StringRef unbound[] = {"tokens", "targets"};
  unsigned numUnbound = 0;
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      continue;
    unsigned number = argument.getArgNumber();
    if (ShardingAttr given = getSharding(argument)) {
      FailureOr<ShardingAttr> read = readAnnotation(function, given, type);
      if (failed(read))
        return failure();
      function.setArgAttr(number, OptimusDialect::kSharding, *read);
      continue;
    }
    StringRef role = getRole(argument);
    BufferAttr buffer = getArgumentBuffer(function, number);
    if (role.empty() && buffer && !buffer.getOf() &&
        checkRole(buffer.getRole()).empty())
      role = buffer.getRole();
    if (role.empty() && !buffer && type.getElementType().isInteger() &&
        numUnbound < 2)
      role = unbound[numUnbound++];
    FailureOr<ShardingAttr> sharding = lookupRole(function, role, type);
    if (failed(sharding))
      return failure();
    ++(*sharding ? numFromTable : numPropagated);
    function.setArgAttr(number, OptimusDialect::kSharding,
                        *sharding ? *sharding : getReplicated(type.getRank()));
  }
  return success();
}

ShardingAttr ShardPass::propagate(Operation *op, unsigned result) {
  int64_t rank =
      cast<RankedTensorType>(op->getResult(result).getType()).getRank();
  SmallVector<SmallVector<StringRef>> dims(rank);
  auto interface = dyn_cast<ShardingRuleOpInterface>(op);
  if (!interface)
    return getReplicated(rank);
  ShardingRule rule = interface.getShardingRule();
  llvm::SmallDenseSet<StringRef> taken;
  for (auto [dim, factor] : llvm::enumerate(rule.results[result])) {
    if (rule.factors[factor].kind == FactorKind::Whole)
      continue;
    for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands))
      for (auto [operandDim, operandFactor] : llvm::enumerate(factors)) {
        if (operandFactor != factor || !dims[dim].empty())
          continue;
        SmallVector<StringRef> axes =
            getSharding(operand).getDimAxes(operandDim);
        if (llvm::any_of(axes, [&](StringRef a) { return taken.contains(a); }))
          continue;
        dims[dim] = axes;
        taken.insert_range(axes);
      }
  }
  return ShardingAttr::get(getMeshRef(), dims);
}

LogicalResult ShardPass::shard(Operation *op) {
  SmallVector<Attribute> shardings;
  for (OpResult result : op->getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type)
      return op->emitOpError("expected results that are tensors of static "
                             "shape, found ")
             << result.getType();
    if (ShardingAttr given = getSharding(result)) {
      FailureOr<ShardingAttr> read = readAnnotation(op, given, type);
      if (failed(read))
        return failure();
      shardings.push_back(*read);
      continue;
    }
    FailureOr<ShardingAttr> sharding = lookupRole(op, getRole(result), type);
    if (failed(sharding))
      return failure();
    ++(*sharding ? numFromTable : numPropagated);
    shardings.push_back(*sharding ? *sharding
                                  : propagate(op, result.getResultNumber()));
  }
  if (op->hasTrait<MovesInPanels>() && !op->hasAttr(OptimusDialect::kMove) &&
      table->move != OptimusDialect::kMovePanels)
    op->setAttr(OptimusDialect::kMove,
                StringAttr::get(&getContext(), table->move));
  if (!shardings.empty())
    op->setAttr(OptimusDialect::kShardings,
                ArrayAttr::get(&getContext(), shardings));
  return success();
}

LogicalResult ShardPass::shardResults(func::FuncOp function) {
  // What is in a buffer lies where that did, and what else belongs to a
  // parameter where the parameter does.
  llvm::StringMap<ShardingAttr> params, buffers;
  for (BlockArgument argument : function.getArguments())
    if (BufferAttr buffer =
            getArgumentBuffer(function, argument.getArgNumber())) {
      buffers[buffer.getName()] = getSharding(argument);
      if (buffer.getLifetime() == Lifetime::Parameter)
        params[buffer.getOf().getValue()] = getSharding(argument);
    }
  Operation *terminator = function.front().getTerminator();
  for (auto [number, value] : llvm::enumerate(terminator->getOperands())) {
    if (!isa<RankedTensorType>(value.getType()))
      continue;
    ShardingAttr sharding = getSharding(value);
    if (BufferAttr buffer = getResultBuffer(function, number)) {
      StringAttr of = buffer.getOf();
      auto same = buffers.find(buffer.getName());
      auto param = of ? params.find(of.getValue()) : params.end();
      if (same != buffers.end())
        sharding = same->second;
      else if (param != params.end())
        sharding = param->second;
    }
    function.setResultAttr(number, OptimusDialect::kSharding, sharding);
  }
  return success();
}

LogicalResult ShardPass::checkDivisibility(const DimensionClasses &classes) {
  for (auto function : getOperation().getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    for (Operation &op : function.front()) {
      for (OpOperand &operand : op.getOpOperands())
        if (failed(checkDivisibility(
                &op, operand.get(),
                "operand " + Twine(operand.getOperandNumber()), classes)))
          return failure();
      for (OpResult result : op.getResults())
        if (failed(checkDivisibility(
                &op, result, "result " + Twine(result.getResultNumber()),
                classes)))
          return failure();
    }
  }
  return success();
}

LogicalResult ShardPass::checkDivisibility(Operation *op, Value value,
                                           Twine what,
                                           const DimensionClasses &classes) {
  ShardingAttr sharding = getSharding(value);
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim) {
    const DimensionClasses::Class &known = classes.getClass(value, dim);
    if (known.size % known.multiple == 0)
      continue;
    InFlightDiagnostic error = op->emitOpError("dimension ")
                               << dim << " (\"" << known.name << "\") of "
                               << what << " has size " << known.size
                               << ", which is no multiple of " << known.multiple
                               << ", as the mesh's";
    for (auto [index, axis] : llvm::enumerate(known.axes))
      error << (index ? " and" : "") << " axis \"" << axis << "\" of size "
            << *meshOp.getAxisSize(axis);
    error << (known.axes.size() > 1 ? " need" : " needs")
          << "; choose another mesh, or let the dimension be padded";
    return error;
  }
  return success();
}
