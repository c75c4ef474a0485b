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
// Functions for generation share prepared weights. Products of few rows read
// them too, instead of the parameter, so `prepare` alone needs that one. Each
// parameter has a function of its own, so that a rank can load one after the
// other into the same memory:
//
//   prefill(%w):               exec.pack %w into %packed; gemm %x, %packed, …
//   decode(%w):                gemm %y, %w, …
//   becomes
//   prepare:w(%w, %packed):    exec.pack %w into %packed
//   prefill(%packed):          gemm %x, %packed, …
//   decode(%packed):           gemm %y, %packed, …
//
//===----------------------------------------------------------------------===//

#include "OwnBuffers.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/IR/WeightBlocks.h"
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
using optimus::getParameterName;
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
  int64_t arguments = 0, peak = 0; ///< of the function with most
  int64_t staged = 0; ///< the largest parameter that is held while it is loaded

  void include(func::FuncOp function,
               const llvm::DenseSet<StringAttr> &sources) {
    int64_t bytes = 0;
    for (BlockArgument argument : function.getArguments()) {
      auto buffer = dyn_cast<MemRefType>(argument.getType());
      if (!buffer)
        continue;
      int64_t size = optimus::getBytes(buffer);
      if (sources.contains(getParameterName(argument)))
        staged = std::max(staged, size);
      else
        bytes += size;
    }
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
  if (!found.parameter || !found.filled || !isWeight(found.filled) ||
      !getParameterName(found.parameter))
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

/// Whether a product could read a pack instead of a whole parameter.
static bool isPackFor(PackOp pack, GemmOp gemm) {
  return pack && pack.getBlocks() == Blocks::None && !gemm.getPackedB() &&
         pack.getRows() == gemm.getK() && pack.getCols() == gemm.getN() &&
         pack.getLd() == gemm.getLdb() && pack.getTrans() == gemm.getTransB();
}

/// The parameters that readers need for preparations alone.
static llvm::DenseSet<StringAttr> findSources(ArrayRef<func::FuncOp> readers,
                                              ArrayRef<Preparation> list) {
  llvm::DenseMap<StringAttr, SmallVector<PackOp>> packs;
  llvm::DenseSet<Operation *> moved;
  llvm::DenseSet<StringAttr> sources;
  for (Preparation one : list) {
    StringAttr name = getParameterName(one.parameter);
    sources.insert(name);
    moved.insert(one.command);
    if (auto pack = dyn_cast<PackOp>(one.command.getOperation()))
      packs[name].push_back(pack);
  }
  for (func::FuncOp reader : readers)
    for (BlockArgument argument : reader.getArguments()) {
      StringAttr name = getParameterName(argument);
      auto isPrepared = [&](OpOperand &use) {
        auto gemm = dyn_cast<GemmOp>(use.getOwner());
        return moved.contains(use.getOwner()) ||
               (gemm && &use == &gemm.getBMutable() &&
                llvm::any_of(packs[name], [&](PackOp pack) {
                  return isPackFor(pack, gemm);
                }));
      };
      if (name && !llvm::all_of(argument.getUses(), isPrepared))
        sources.erase(name);
    }
  return sources;
}

namespace {
/// How many functions prepare.
enum class Preparers {
  One,       ///< which reads all parameters
  Parameter, ///< one for each
};

/// A command of a preparing function, and what it fills.
struct Prepared {
  CommandOpInterface command;
  StringAttr parameter;
  MemRefType type;
  optimus::BufferAttr buffer; ///< that it fills
};

/// Moves what is prepared out of functions. What several of them make of a
/// parameter alike is made once.
class PrepareWeights {
public:
  /// `known` counts the names that buffers have.
  PrepareWeights(ArrayRef<func::FuncOp> readers, Preparers count,
                 llvm::StringMap<int> &known)
      : readers(readers), count(count), known(known) {}

  void run(ArrayRef<Preparation> list) {
    // Parameters first, as in other functions.
    for (const Preparation &one : list)
      addParameter(one.parameter);
    for (const Preparation &one : list)
      move(one);
    for (func::FuncOp prepare : preparers) {
      auto builder = OpBuilder::atBlockEnd(&prepare.front());
      func::ReturnOp::create(builder, prepare.getLoc());
      numberCommands(prepare);
    }
  }

  /// Lets products read the packed weight instead of the parameter.
  int readPacked(func::FuncOp function) {
    int count = 0;
    for (auto gemm : function.getOps<GemmOp>())
      if (Prepared *packed = findPacked(gemm)) {
        gemm.getBMutable().assign(getArgument(function, *packed));
        gemm.setLdb(packed->type.getNumElements());
        gemm.setTransB(false);
        gemm.setPackedB(true);
        ++count;
      }
    return count;
  }

private:
  /// The function that prepares something of a parameter.
  func::FuncOp getPreparer(StringAttr parameter) {
    if (count == Preparers::One && !preparers.empty())
      return preparers.front();
    func::FuncOp first = readers.front();
    OpBuilder builder(first->getContext());
    std::string name = "prepare";
    if (count == Preparers::Parameter)
      name += ":" + parameter.str();
    auto prepare = func::FuncOp::create(
        first.getLoc(), name,
        builder.getFunctionType(/*inputs=*/{}, /*results=*/{}));
    SymbolTable(first->getParentOp()).insert(prepare, first->getIterator());
    prepare->setAttr(OptimusDialect::kEntry,
                     optimus::EntryAttr::get(builder.getContext(),
                                             EntryKind::Prepare, /*batch=*/0,
                                             /*sequence=*/0));
    prepare.addEntryBlock();
    preparers.push_back(prepare);
    return prepare;
  }

  void addParameter(BlockArgument parameter) {
    Value &known = parameters[getParameterName(parameter)];
    if (known)
      return;
    auto function = cast<func::FuncOp>(parameter.getOwner()->getParentOp());
    func::FuncOp prepare = getPreparer(getParameterName(parameter));
    const unsigned number = prepare.getNumArguments();
    (void)prepare.insertArgument(
        number, parameter.getType(),
        function.getArgAttrDict(parameter.getArgNumber()), parameter.getLoc());
    known = prepare.getArgument(number);
  }

  /// The buffer under a name of its own: a parameter may have several.
  optimus::BufferAttr getBuffer(Preparation one) {
    StringAttr of = getParameterName(one.parameter);
    std::string role = one.filled.getCategory().split(' ').first.str();
    if (int number = ++known[role + ":" + of.str()]; number > 1)
      role += "_" + std::to_string(number);
    return optimus::BufferAttr::get(
        of.getContext(), role, of, optimus::Lifetime::Sequence,
        /*init=*/{}, optimus::Reset::Never, optimus::FilledBy::Program,
        optimus::SavedIn::Nowhere);
  }

  BlockArgument append(func::FuncOp to, const Prepared &one,
                       StringRef access) const {
    return appendOwnBuffer(to, one.type, one.buffer, access,
                           one.command->getLoc());
  }

  /// The argument of a reader with the buffer; if need be, a new one.
  BlockArgument getArgument(func::FuncOp reader, const Prepared &one) {
    for (BlockArgument argument : reader.getArguments())
      if (reader.getArgAttr(argument.getArgNumber(),
                            OptimusDialect::kBinding) == one.buffer)
        return argument;
    return append(reader, one, ExecDialect::kAccessRead);
  }

  /// What makes the same of the same parameter.
  Prepared *findAlike(Preparation one) {
    return llvm::find_if(made, [&](Prepared &other) {
      return other.parameter == getParameterName(one.parameter) &&
             other.type == one.filled.getType() &&
             OperationEquivalence::isEquivalentTo(
                 other.command, one.command,
                 OperationEquivalence::ignoreValueEquivalence,
                 /*markEquivalent=*/nullptr,
                 OperationEquivalence::IgnoreLocations);
    });
  }

  void move(Preparation one) {
    // Numbers, which commands get afterwards, are no difference.
    one.command.setCommandId(0);
    Prepared *found = findAlike(one);
    if (found == made.end()) {
      Prepared next{
          nullptr, getParameterName(one.parameter), one.filled.getType(), {}};
      next.buffer = getBuffer(one);
      LDBG() << "prepare " << next.buffer;
      next.command = one.command;
      Value parameter = parameters[next.parameter];
      auto prepare =
          cast<func::FuncOp>(parameter.getParentBlock()->getParentOp());
      auto builder = OpBuilder::atBlockEnd(&prepare.front());
      IRMapping mapping;
      mapping.map(one.parameter, parameter);
      mapping.map(one.filled.getResult(),
                  append(prepare, next, ExecDialect::kAccessWrite));
      next.command = cast<CommandOpInterface>(
          builder.clone(*one.command.getOperation(), mapping));
      made.push_back(std::move(next));
      found = &made.back();
    }
    auto reader = one.filled->getParentOfType<func::FuncOp>();
    one.filled.getResult().replaceAllUsesExcept(getArgument(reader, *found),
                                                one.command.getOperation());
    one.command->erase();
    one.filled.erase();
  }

  /// What was packed of a product's B, if it reads a whole parameter.
  Prepared *findPacked(GemmOp gemm) {
    auto argument = dyn_cast<BlockArgument>(gemm.getB());
    if (!argument)
      return nullptr;
    for (Prepared &one : made)
      if (getParameterName(argument) == one.parameter &&
          isPackFor(dyn_cast<PackOp>(one.command.getOperation()), gemm))
        return &one;
    return nullptr;
  }

  ArrayRef<func::FuncOp> readers;
  Preparers count;
  llvm::StringMap<int> &known;
  SmallVector<func::FuncOp> preparers;
  llvm::DenseMap<StringAttr, Value> parameters; ///< of these functions
  SmallVector<Prepared> made;
};
} // namespace

/// Parameters that a function reads no more are not its arguments.
static void dropUnusedParameters(func::FuncOp function) {
  BitVector unused(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (argument.use_empty() && getParameterName(argument))
      unused.set(argument.getArgNumber());
  (void)function.eraseArguments(unused);
}

namespace {
class PrepareWeightsPass
    : public exec::impl::PrepareWeightsPassBase<PrepareWeightsPass> {
public:
  using PrepareWeightsPassBase::PrepareWeightsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (optimus::findEntry(module, EntryKind::Prepare))
      return;
    auto find = [&](EntryKind kind) {
      return optimus::findEntries(module, kind);
    };
    SmallVector<func::FuncOp> accumulate = find(EntryKind::Accumulate),
                              update = find(EntryKind::Update), generation;
    if (!accumulate.empty() && !update.empty())
      (void)prepareFor(accumulate.front(), {accumulate.front(), update.front()},
                       Preparers::One);
    for (EntryKind kind : optimus::kGenerationKinds)
      llvm::append_range(generation, find(kind));
    if (!prepareFor(generation, generation, Preparers::Parameter))
      return;
    for (func::FuncOp function : generation)
      dropUnusedParameters(function);
  }

private:
  /// Adds functions that prepare weights for `readers`, if a rank can hold them
  /// beside all of `called`. Returns whether it did.
  bool prepareFor(ArrayRef<func::FuncOp> readers, ArrayRef<func::FuncOp> called,
                  Preparers count) {
    SmallVector<Preparation> list;
    for (func::FuncOp reader : readers)
      for (CommandOpInterface command : getCommands(reader))
        if (std::optional<Preparation> found = findPreparation(command))
          list.push_back(*found);
    llvm::DenseSet<StringAttr> sources;
    if (count == Preparers::Parameter)
      sources = findSources(readers, list);
    if (list.empty() || !fits(called, list, sources))
      return false;
    PrepareWeights prepare(readers, count, known);
    prepare.run(list);
    for (func::FuncOp reader : readers) {
      // Of a token a slot, products read weights as they lie.
      if (optimus::getEntryKind(reader) != EntryKind::Accumulate)
        prepare.readPacked(reader);
      numberCommands(reader);
    }
    numPrepared += list.size();
    return true;
  }

  /// Whether a rank can hold it in addition to all that functions need at their
  /// fullest time. A schedule may add a tenth to the arena.
  bool fits(ArrayRef<func::FuncOp> called, ArrayRef<Preparation> list,
            const llvm::DenseSet<StringAttr> &sources) const {
    if (budget == 0)
      return true;
    // There are no calls that make blocks of few bits for themselves.
    if (llvm::any_of(list, [](Preparation one) {
          auto pack = dyn_cast<PackOp>(one.command.getOperation());
          return pack && isFewBits(getWeightBlocks(pack.getBlocks()));
        }))
      return true;
    HeldBytes held;
    for (func::FuncOp function : called)
      held.include(function, sources);
    // What an earlier function makes of a parameter is there for later ones.
    using Kind = std::pair<Attribute, Type>;
    llvm::DenseMap<Kind, Block *> first;
    int64_t prepared = 0;
    for (const Preparation &one : list) {
      AllocOp filled = one.filled;
      Block *body = one.parameter.getOwner();
      const Kind kind{getParameterName(one.parameter), filled.getType()};
      if (first.try_emplace(kind, body).first->second == body)
        prepared += optimus::getBytes(filled.getType());
    }
    LDBG() << "of weights " << prepared << " bytes can be prepared, beside "
           << held.arguments << " of arguments, " << held.staged
           << " of a parameter that is loaded and " << held.peak
           << " of an arena";
    return held.arguments + prepared + held.staged + held.peak +
               held.peak / 10 <=
           budget;
  }

  llvm::StringMap<int> known; ///< names that buffers have
};
} // namespace
