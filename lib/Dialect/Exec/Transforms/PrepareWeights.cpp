//===- PrepareWeights.cpp - What a step makes once of weights ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A command is moved if it reads parameters alone and fills a buffer that no
// other command writes:
//
//   accumulate(%w):            exec.pack %w into %packed; gemm %x, %packed, …
//   becomes
//   prepare(%w, %packed):      exec.pack %w into %packed
//   accumulate(%w, %packed):   gemm %x, %packed, …
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-prepare-weights"

namespace mlir::exec {
#define GEN_PASS_DEF_PREPAREWEIGHTSPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;
using optimus::EntryKind;
using optimus::OptimusDialect;

namespace {
/// A command with its source, a parameter, and the buffer that it fills.
struct Preparation {
  CommandOpInterface command;
  BlockArgument parameter;
  AllocOp filled;
};

/// What a rank holds for the calls of a step.
struct HeldBytes {
  int64_t arguments = 0, peak = 0;

  void include(func::FuncOp function) {
    int64_t bytes = 0;
    for (Type type : function.getArgumentTypes())
      if (auto buffer = dyn_cast<MemRefType>(type))
        bytes += optimus::getBytes(buffer);
    arguments = std::max(arguments, bytes);
    peak = std::max(peak, computePeakBytes(function));
  }
};
} // namespace

static bool isWeight(AllocOp allocation) {
  StringRef category = allocation.getCategory();
  return category == "packed weight" || category == "narrow weight";
}

/// The source and the result of a command, if it touches nothing else: a
/// parameter, and a weight that no other command writes.
static std::optional<Preparation> findPreparation(CommandOpInterface command) {
  // What is started in a call is awaited there.
  if (command->getNumOperands() != 2 || command.getWaitingCommand())
    return std::nullopt;
  Preparation found{command, {}, {}};
  for (const Access &access : command.getAccesses()) {
    Value buffer = access.operand->get();
    if (access.reads && !access.writes)
      found.parameter = dyn_cast<BlockArgument>(buffer);
    else if (access.writes && !access.reads)
      found.filled = buffer.getDefiningOp<AllocOp>();
  }
  if (!found.parameter || !found.filled || !isWeight(found.filled))
    return std::nullopt;
  auto function = cast<func::FuncOp>(found.parameter.getOwner()->getParentOp());
  if (!function.getArgAttr(found.parameter.getArgNumber(),
                           OptimusDialect::kParam))
    return std::nullopt;
  for (Operation *user : found.filled->getUsers()) {
    auto other = dyn_cast<CommandOpInterface>(user);
    if (!other)
      return std::nullopt;
    if (other != command &&
        llvm::any_of(other.getAccesses(), [&](const Access &access) {
          return access.writes &&
                 access.operand->get() == found.filled.getResult();
        }))
      return std::nullopt;
  }
  return found;
}

/// A rank's own elements, which no other one has.
static RankedTensorType getOwnType(MemRefType type, optimus::MeshOp mesh) {
  int64_t elements = type.getNumElements(), all = elements;
  SmallVector<StringRef> axes;
  if (mesh)
    for (optimus::MeshAxisAttr axis : mesh.getAxisList()) {
      axes.push_back(axis.getName().getValue());
      all *= axis.getSize();
    }
  if (axes.empty())
    return RankedTensorType::get({elements}, type.getElementType());
  auto sharding =
      optimus::ShardingAttr::get(FlatSymbolRefAttr::get(mesh.getSymNameAttr()),
                                 ArrayRef<SmallVector<StringRef>>(axes));
  return RankedTensorType::get(
      {elements}, type.getElementType(),
      ccl::LocalAttr::get(type.getContext(), {all}, sharding));
}

namespace {
/// Moves what is prepared out of a function.
class PrepareWeights {
public:
  PrepareWeights(func::FuncOp function, ArrayRef<Preparation> list)
      : function(function), list(list), mesh(optimus::getMesh(function)) {}

  void run() {
    OpBuilder builder(function->getContext());
    prepare = func::FuncOp::create(
        function.getLoc(), "prepare",
        builder.getFunctionType(/*inputs=*/{}, /*results=*/{}));
    SymbolTable(function->getParentOp())
        .insert(prepare, function->getIterator());
    prepare->setAttr(OptimusDialect::kEntry,
                     optimus::EntryAttr::get(builder.getContext(),
                                             EntryKind::Prepare, /*batch=*/0,
                                             /*sequence=*/0));
    prepare.addEntryBlock();
    // Parameters first, as in other functions.
    for (const Preparation &one : list)
      addParameter(one.parameter);
    builder.setInsertionPointToEnd(&prepare.front());
    for (const Preparation &one : list)
      move(one, builder);
    func::ReturnOp::create(builder, function.getLoc());
    numberCommands(prepare);
    numberCommands(function);
  }

private:
  void addParameter(BlockArgument parameter) {
    if (mapping.contains(parameter))
      return;
    const unsigned number = prepare.getNumArguments();
    (void)prepare.insertArgument(
        number, parameter.getType(),
        function.getArgAttrDict(parameter.getArgNumber()), parameter.getLoc());
    mapping.map(parameter, prepare.getArgument(number));
  }

  /// The buffer under a name of its own: a parameter may have several.
  optimus::BufferAttr getBuffer(Preparation one) {
    auto name = function.getArgAttrOfType<StringAttr>(
        one.parameter.getArgNumber(), OptimusDialect::kParam);
    std::string role = one.filled.getCategory().split(' ').first.str();
    if (int number = ++known[role + ":" + name.str()]; number > 1)
      role += "_" + std::to_string(number);
    return optimus::BufferAttr::get(
        function->getContext(), role, name, optimus::Lifetime::Sequence,
        /*init=*/{}, optimus::Reset::Never, optimus::FilledBy::Program,
        optimus::SavedIn::Nowhere);
  }

  /// Appends the buffer to a function's arguments.
  static BlockArgument append(func::FuncOp to, MemRefType type,
                              NamedAttrList attributes, StringRef access,
                              Location location) {
    attributes.set(ExecDialect::kAccess,
                   StringAttr::get(to.getContext(), access));
    const unsigned number = to.getNumArguments();
    (void)to.insertArgument(
        number, type, attributes.getDictionary(to.getContext()), location);
    return to.getArgument(number);
  }

  void move(Preparation one, OpBuilder &builder) {
    const MemRefType type = one.filled.getType();
    NamedAttrList attributes;
    attributes.set(OptimusDialect::kBinding, getBuffer(one));
    attributes.set(ExecDialect::kLocalType,
                   TypeAttr::get(getOwnType(type, mesh)));
    LDBG() << "prepare " << attributes.get(OptimusDialect::kBinding);
    mapping.map(one.filled.getResult(),
                append(prepare, type, attributes, ExecDialect::kAccessWrite,
                       one.filled.getLoc()));
    builder.clone(*one.command.getOperation(), mapping);
    one.filled.getResult().replaceAllUsesExcept(
        append(function, type, attributes, ExecDialect::kAccessRead,
               one.filled.getLoc()),
        one.command.getOperation());
    one.command->erase();
    one.filled.erase();
  }

  func::FuncOp function, prepare;
  ArrayRef<Preparation> list;
  optimus::MeshOp mesh;
  IRMapping mapping;
  llvm::StringMap<int> known;
};

class PrepareWeightsPass
    : public exec::impl::PrepareWeightsPassBase<PrepareWeightsPass> {
public:
  using PrepareWeightsPassBase::PrepareWeightsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp accumulate = optimus::findEntry(module, EntryKind::Accumulate),
                 update = optimus::findEntry(module, EntryKind::Update);
    if (!accumulate || !update ||
        optimus::findEntry(module, EntryKind::Prepare))
      return;
    SmallVector<Preparation> list;
    for (CommandOpInterface command : getCommands(accumulate))
      if (std::optional<Preparation> found = findPreparation(command))
        list.push_back(*found);
    if (list.empty() || !fits(accumulate, update, list))
      return;
    PrepareWeights(accumulate, list).run();
    numPrepared += list.size();
  }

private:
  /// Whether a rank can hold it in addition to all that a step needs at its
  /// fullest time. A schedule may add a tenth to the arena.
  bool fits(func::FuncOp accumulate, func::FuncOp update,
            ArrayRef<Preparation> list) const {
    if (budget == 0)
      return true;
    HeldBytes held;
    held.include(accumulate);
    held.include(update);
    int64_t prepared = 0;
    for (const Preparation &one : list)
      prepared += optimus::getBytes(AllocOp(one.filled).getType());
    LDBG() << "of weights " << prepared << " bytes can be prepared, beside "
           << held.arguments << " of arguments and " << held.peak
           << " of an arena";
    return held.arguments + prepared + held.peak + held.peak / 10 <= budget;
  }
};
} // namespace
