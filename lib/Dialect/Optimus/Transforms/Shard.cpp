//===- Shard.cpp - Gives every value a sharding -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layout.h"
#include "ShardingPropagation.h"

#include "optimus/Analysis/DimensionClasses.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/Transforms/MeshOption.h"
#include "optimus/Dialect/Optimus/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/Transforms/Strategy.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#define DEBUG_TYPE "optimus-shard"

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
    if (failed(readStrategy()) || failed(findMesh()) || failed(checkAxes()))
      return signalPassFailure();
    LDBG() << "strategy '" << strategy << "' on " << meshOp.getAxes();
    layout.emplace(*table, ofEntries, meshOp);
    if (failed(layout->choose(layouts)))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(shard(function)))
        return signalPassFailure();
    settleUnused();
    if (failed(layout->checkChosen()))
      return signalPassFailure();
    if (noPad && failed(checkDivisibility(DimensionClasses(getOperation()))))
      return signalPassFailure();
  }

private:
  LogicalResult readStrategy();
  /// The module's mesh, or a new one as the option says.
  LogicalResult findMesh();
  /// Every axis of the strategy is one of the mesh and the other way round.
  LogicalResult checkAxes();
  LogicalResult checkDivisibility(const DimensionClasses &classes);
  LogicalResult checkDivisibility(Operation *op, Value value, Twine what,
                                  const DimensionClasses &classes);

  LogicalResult shard(func::FuncOp function);
  LogicalResult decideArguments(func::FuncOp function,
                                ShardingPropagation &known);
  LogicalResult decideResults(Operation *op, ShardingPropagation &known);
  void annotate(func::FuncOp function, const ShardingPropagation &known);
  LogicalResult shardResults(func::FuncOp function);
  /// Parameters without a use in a function lie there as elsewhere.
  void settleUnused();

  /// An annotation by the user, without the axes of one rank, since these shard
  /// nothing. It must fit the value and the mesh.
  FailureOr<ShardingAttr> readAnnotation(Operation *op, ShardingAttr sharding,
                                         Type type);
  /// How a value lies, if `given` or its role or path say it.
  LogicalResult decide(Operation *op, Value value, ShardingAttr given,
                       StringRef role, StringRef path,
                       ShardingPropagation &known);

  const Strategy *table = nullptr;
  SmallVector<EntryStrategy> ofEntries;
  MeshOp meshOp;
  std::optional<Layout> layout;
  /// How parameters lie, by the first function that uses them: the next ones
  /// use them so, whatever they do with them. A table of positions that one
  /// adds whole is looked up by another.
  llvm::StringMap<ShardingAttr> settled;
};
} // namespace

LogicalResult ShardPass::readStrategy() {
  table = lookupStrategy(strategy);
  if (!table)
    return getOperation().emitError("unknown strategy '")
           << strategy << "'; known are "
           << llvm::join(getKnownStrategies(), ", ");
  llvm::Expected<SmallVector<EntryStrategy>> parsed =
      parseEntryStrategies(entryStrategies, strategy);
  if (!parsed)
    return getOperation().emitError(llvm::toString(parsed.takeError()));
  ofEntries = std::move(*parsed);
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
  SmallVector<std::pair<StringRef, int64_t>> axes;
  for (MeshAxisAttr axis : meshOp.getAxisList())
    axes.push_back({axis.getName().getValue(), axis.getSize()});
  if (std::string misfit = table->explainMisfit(axes); !misfit.empty())
    return meshOp.emitOpError(misfit);
  return success();
}

/// Whether the values of the program have their roles already, as after
/// differentiation, or no parameters to infer roles from.
static bool hasRoles(func::FuncOp function) {
  bool hasParameter = false;
  for (BlockArgument argument : function.getArguments()) {
    BufferAttr buffer = getArgumentBuffer(function, argument.getArgNumber());
    hasParameter |= buffer && buffer.getLifetime() == Lifetime::Parameter;
    if (!getRole(argument).empty())
      return true;
  }
  return !hasParameter;
}

LogicalResult ShardPass::shard(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expected one block, found ")
           << function.getBody().getBlocks().size();
  if (!hasRoles(function))
    inferRoles(function);
  ShardingPropagation known(function, meshOp);
  if (failed(decideArguments(function, known)))
    return failure();
  for (Operation &op : function.front().without_terminator())
    if (failed(decideResults(&op, known)))
      return failure();
  if (failed(known.run()))
    return failure();
  annotate(function, known);
  for (BlockArgument argument : function.getArguments())
    if (BufferAttr buffer =
            getArgumentBuffer(function, argument.getArgNumber());
        buffer && buffer.getLifetime() == Lifetime::Parameter &&
        !argument.use_empty())
      settled.try_emplace(buffer.getOf().getValue(), known.get(argument));
  return shardResults(function);
}

void ShardPass::settleUnused() {
  for (auto function : getOperation().getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    updateArgAttrs(function, [&](unsigned number, NamedAttrList &attributes) {
      BufferAttr buffer = getArgumentBuffer(function, number);
      if (!buffer || buffer.getLifetime() != Lifetime::Parameter ||
          !function.getArgument(number).use_empty())
        return;
      if (ShardingAttr same = settled.lookup(buffer.getOf().getValue()))
        attributes.set(OptimusDialect::kSharding, same);
    });
  }
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
  return ShardingAttr::get(sharding.getMesh(), dims);
}

LogicalResult ShardPass::decide(Operation *op, Value value, ShardingAttr given,
                                StringRef role, StringRef path,
                                ShardingPropagation &known) {
  auto type = cast<RankedTensorType>(value.getType());
  if (given) {
    FailureOr<ShardingAttr> read = readAnnotation(op, given, type);
    if (failed(read))
      return failure();
    known.decide(value, *read, "by its annotation");
    return success();
  }
  FailureOr<ShardingAttr> sharding = layout->lookup(op, role, path, type);
  if (failed(sharding))
    return failure();
  ++(*sharding ? numFromRules : numPropagated);
  if (*sharding)
    known.decide(value, *sharding, "by the strategy or a layout");
  return success();
}

LogicalResult ShardPass::decideArguments(func::FuncOp function,
                                         ShardingPropagation &known) {
  unsigned numTokens = 0;
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      continue;
    BufferAttr buffer = getArgumentBuffer(function, argument.getArgNumber());
    std::string role = getRole(argument).str();
    // Before steps are built tokens and targets have no binding, but only they
    // are integers.
    bool isTokens = buffer ? buffer.getFilledBy() == FilledBy::Data
                           : type.getElementType().isInteger() && numTokens < 2;
    numTokens += isTokens;
    if (role.empty() && isTokens && type.getRank() == 2)
      role = Role{
          Position::Tokens,
          {{DimensionClass::Batch}, {DimensionClass::Sequence}},
          {}}.toString();
    StringRef path =
        buffer && buffer.getOf() ? buffer.getOf().getValue() : StringRef();
    if (ShardingAttr same =
            getSharding(argument) ? ShardingAttr() : settled.lookup(path)) {
      if (buffer.getLifetime() == Lifetime::Parameter) {
        known.decide(argument, same, "as in another function");
        continue;
      }
    }
    if (failed(decide(function, argument, getSharding(argument), role, path,
                      known)))
      return failure();
    if (getSharding(argument) && buffer &&
        buffer.getLifetime() == Lifetime::Parameter)
      layout->keep(path, known.get(argument));
  }
  return success();
}

LogicalResult ShardPass::decideResults(Operation *op,
                                       ShardingPropagation &known) {
  for (OpResult result : op->getResults()) {
    if (!isa<RankedTensorType>(result.getType()))
      return op->emitOpError("expected results that are tensors of static "
                             "shape, found ")
             << result.getType();
    bool isNamed = result.getResultNumber() == 0 &&
                   getPhase(op->getLoc()) == ProgramPhase::Forward;
    StringRef path = isNamed ? getPath(op->getLoc()) : StringRef();
    if (failed(decide(op, result, getSharding(result), getRole(result), path,
                      known)))
      return failure();
  }
  return success();
}

void ShardPass::annotate(func::FuncOp function,
                         const ShardingPropagation &known) {
  updateArgAttrs(function, [&](unsigned number, NamedAttrList &attributes) {
    BlockArgument argument = function.getArgument(number);
    if (isa<RankedTensorType>(argument.getType()))
      attributes.set(OptimusDialect::kSharding, known.get(argument));
  });
  for (Operation &op : function.front().without_terminator()) {
    if (op.hasTrait<MovesInPanels>() && !op.hasAttr(OptimusDialect::kMove) &&
        table->move != OptimusDialect::kMovePanels)
      op.setAttr(OptimusDialect::kMove,
                 StringAttr::get(&getContext(), table->move));
    SmallVector<Attribute> shardings;
    for (OpResult result : op.getResults())
      shardings.push_back(known.get(result));
    if (!shardings.empty())
      op.setAttr(OptimusDialect::kShardings,
                 ArrayAttr::get(&getContext(), shardings));
  }
}

LogicalResult ShardPass::shardResults(func::FuncOp function) {
  // A value in a buffer has the buffer's sharding, and another one of a
  // parameter the parameter's.
  llvm::StringMap<ShardingAttr> params, buffers;
  for (BlockArgument argument : function.getArguments())
    if (BufferAttr buffer =
            getArgumentBuffer(function, argument.getArgNumber())) {
      buffers[buffer.getName()] = getSharding(argument);
      if (buffer.getLifetime() == Lifetime::Parameter)
        params[buffer.getOf().getValue()] = getSharding(argument);
    }
  Operation *terminator = function.front().getTerminator();
  const SmallVector<BufferAttr> resultBuffers = getResultBuffers(function);
  updateResultAttrs(function, [&](unsigned number, NamedAttrList &attributes) {
    Value value = terminator->getOperand(number);
    if (!isa<RankedTensorType>(value.getType()))
      return;
    ShardingAttr sharding = getSharding(value);
    if (BufferAttr buffer = resultBuffers[number]) {
      StringAttr of = buffer.getOf();
      auto same = buffers.find(buffer.getName());
      auto param = of ? params.find(of.getValue()) : params.end();
      if (same != buffers.end())
        sharding = same->second;
      else if (param != params.end())
        sharding = param->second;
    }
    attributes.set(OptimusDialect::kSharding, sharding);
  });
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
