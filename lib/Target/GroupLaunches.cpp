//===- GroupLaunches.cpp - One launch instead of many -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/Passes.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Exec/Transforms/Regions.h"
#include "optimus/Kernels/Grouped.h"
#include "optimus/Kernels/KernelFunctions.h"
#include "optimus/Kernels/PieceSchedule.h"
#include "optimus/Target/Target.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::optimus {
#define GEN_PASS_DEF_GROUPLAUNCHESPASS
#include "optimus/Target/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;
using exec::CommandOpInterface;
using exec::LaunchOp;

namespace {
/// Launches that are to be one, next to each other.
class Group {
public:
  ArrayRef<LaunchOp> getMembers() const { return members; }
  bool isEmpty() const { return members.empty(); }
  LaunchOp getLast() const { return members.back(); }

  /// The buffers that it takes with another launch: those that all read once,
  /// each other that a member has.
  int64_t getNumBuffers(LaunchOp another, ArrayRef<int64_t> pattern) const {
    int64_t count = 0;
    for (auto [position, buffer] : llvm::enumerate(another.getBuffers())) {
      if (pattern[position] != int64_t(position))
        continue;
      bool isShared = llvm::all_of(
          members, [&, at = position, b = buffer](LaunchOp member) {
            return member.getBuffers()[at] == b;
          });
      count += isShared ? 1 : members.size() + 1;
    }
    return count;
  }
  size_t getNumKernels(LaunchOp another) const {
    llvm::SetVector<StringRef> kernels;
    for (LaunchOp member : members)
      kernels.insert(LaunchOp(member).getKernel());
    kernels.insert(another.getKernel());
    return kernels.size();
  }
  void add(LaunchOp launch) { members.push_back(launch); }

private:
  SmallVector<LaunchOp> members;
};

/// Groups the launches of a function.
class Grouper {
public:
  Grouper(func::FuncOp function, const PieceSchedule &schedule,
          KernelDeclarations &kernels,
          const llvm::StringMap<DeclaredKernel> &known)
      : function(function), schedule(schedule), kernels(kernels), known(known) {
  }

  void run();
  int64_t numGroups = 0, numGrouped = 0;

private:
  /// The most bytes that may be in use for longer.
  static constexpr int64_t kMostHeldBytes = 64 << 10;
  /// The most bodies of a kernel: of rows, each extent has its own.
  static constexpr size_t kMostBodies = 16;

  Attribute getKey(LaunchOp launch);
  bool join(Group &group, LaunchOp launch);
  bool moveBehind(LaunchOp launch, LaunchOp last);
  bool moveBefore(ArrayRef<LaunchOp> members, LaunchOp launch);
  void write(Group &group);

  func::FuncOp function;
  const PieceSchedule &schedule;
  KernelDeclarations &kernels;
  const llvm::StringMap<DeclaredKernel> &known;
};
} // namespace

/// For each operand of a launch that is in place of another, that; for others
/// the operand itself.
static SmallVector<int64_t> getPattern(LaunchOp launch) {
  SmallVector<int64_t> pattern;
  for (auto [position, buffer] : llvm::enumerate(launch.getBuffers())) {
    bool isRead = launch.getAccess()[position] == LaunchOp::Read;
    auto first = llvm::find(launch.getBuffers(), buffer);
    pattern.push_back(isRead ? position : first - launch.getBuffers().begin());
  }
  return pattern;
}

/// Whether two commands must stay in order. A wait stands for what it awaits.
static bool mustFollow(CommandOpInterface a, CommandOpInterface b) {
  if (auto awaited =
          dyn_cast_or_null<CommandOpInterface>(a.getAwaitedCommand()))
    a = awaited;
  exec::CommandRegions first = exec::getRegions(a),
                       second = exec::getRegions(b);
  return exec::mayOverlap(first.written, second.written) ||
         exec::mayOverlap(first.written, second.read) ||
         exec::mayOverlap(first.read, second.written);
}

/// The commands between two operations.
static SmallVector<CommandOpInterface> getBetween(Operation *from,
                                                  Operation *to) {
  SmallVector<CommandOpInterface> commands;
  for (Operation *op = from->getNextNode(); op != to; op = op->getNextNode())
    if (auto command = dyn_cast<CommandOpInterface>(op))
      commands.push_back(command);
  return commands;
}

/// Whether a command on the far side of `end` touches a buffer, or a view of
/// it.
static bool isUsedBeyond(Value buffer, Operation *end, bool before) {
  return llvm::any_of(buffer.getUsers(), [&](Operation *user) {
    if (isa<exec::BufferViewOpInterface>(user))
      return isUsedBeyond(user->getResult(0), end, before);
    return user == end ||
           (before ? user->isBeforeInBlock(end) : end->isBeforeInBlock(user));
  });
}

/// The bytes that a launch has in use for longer when it is moved to `end`, as
/// the first that touches them or as the last.
static int64_t getHeldBytes(LaunchOp launch, Operation *end, bool before) {
  exec::CommandRegions regions =
      exec::getRegions(cast<CommandOpInterface>(*launch));
  llvm::SetVector<Value> bases;
  for (const exec::MemoryRegion &region : regions.read)
    bases.insert(region.base);
  for (const exec::MemoryRegion &region : regions.written)
    bases.insert(region.base);
  int64_t bytes = 0;
  for (Value base : bases)
    if (base.getDefiningOp() && !isUsedBeyond(base, end, before))
      bytes += exec::getBufferBytes(base);
  return bytes;
}

/// Moves what makes a value before `place`, and what that needs. It is no
/// command.
static void moveDefinitions(Value value, Operation *place) {
  Operation *definition = value.getDefiningOp();
  if (!definition || definition->isBeforeInBlock(place))
    return;
  for (Value operand : definition->getOperands())
    moveDefinitions(operand, place);
  definition->moveBefore(place);
}

Attribute Grouper::getKey(LaunchOp launch) {
  auto found = known.find(launch.getKernel());
  if (found == known.end())
    return {};
  Builder b(launch.getContext());
  const IterationSpace &space = found->second.description.getSpace();
  SmallVector<int64_t> iterations = {space.kind, space.lanes};
  if (space.kind != IterationSpace::Elements)
    iterations.append({space.cols, space.getLength()});
  return b.getArrayAttr({found->second.kernel.getForm(launch.getContext()),
                         b.getDenseI64ArrayAttr(iterations),
                         b.getDenseI64ArrayAttr(getPattern(launch))});
}

bool Grouper::moveBehind(LaunchOp launch, LaunchOp last) {
  SmallVector<CommandOpInterface> between = getBetween(last, launch);
  if (llvm::any_of(between, [&](CommandOpInterface command) {
        return mustFollow(command, cast<CommandOpInterface>(*launch));
      }))
    return false;
  if (between.empty())
    return true;
  if (getHeldBytes(launch, last, /*before=*/true) > kMostHeldBytes)
    return false;
  Operation *place = between.front();
  for (Value operand : launch->getOperands())
    moveDefinitions(operand, place);
  launch->moveBefore(place);
  return true;
}

bool Grouper::moveBefore(ArrayRef<LaunchOp> members, LaunchOp launch) {
  SmallVector<CommandOpInterface> between = getBetween(members.back(), launch);
  int64_t bytes = 0;
  for (LaunchOp member : members) {
    if (llvm::any_of(between, [&](CommandOpInterface command) {
          return mustFollow(command, cast<CommandOpInterface>(*member));
        }))
      return false;
    bytes += getHeldBytes(member, launch, /*before=*/false);
  }
  if (bytes > kMostHeldBytes)
    return false;
  for (LaunchOp member : members)
    member->moveBefore(launch);
  return true;
}

bool Grouper::join(Group &group, LaunchOp launch) {
  const DeclaredKernel &kernel = known.find(launch.getKernel())->second;
  bool hasBodies =
      kernel.description.getSpace().kind != IterationSpace::Elements;
  if (group.getNumBuffers(launch, getPattern(launch)) >
          schedule.getMostBuffers() ||
      (hasBodies && group.getNumKernels(launch) > kMostBodies))
    return false;
  auto command = cast<CommandOpInterface>(*launch);
  if (llvm::any_of(group.getMembers(), [&](LaunchOp member) {
        return mustFollow(cast<CommandOpInterface>(*member), command);
      }))
    return false;
  if (!moveBehind(launch, group.getLast()) &&
      !moveBefore(group.getMembers(), launch))
    return false;
  group.add(launch);
  return true;
}

void Grouper::write(Group &group) {
  if (group.getMembers().size() < 2)
    return;
  SmallVector<LaunchOp> members(group.getMembers());
  llvm::stable_sort(members, [](LaunchOp a, LaunchOp b) {
    return a.getKernel() < b.getKernel();
  });
  LaunchOp first = members.front();
  const DeclaredKernel &model = known.find(first.getKernel())->second;
  kernels::Grouped grouped;
  for (LaunchOp member : members)
    grouped.pieces.push_back(known.find(member.getKernel())->second.kernel);
  llvm::StringMap<Value> buffers;
  for (auto [position, same] : llvm::enumerate(getPattern(first))) {
    StringRef name = model.description.getOperands()[same].name;
    grouped.buffers.push_back(name.str());
    if (same != int64_t(position))
      continue;
    if (llvm::all_of(members, [&, at = position](LaunchOp member) {
          return member.getBuffers()[at] == first.getBuffers()[at];
        })) {
      grouped.shared.push_back(name.str());
      buffers[name] = first.getBuffers()[position];
      continue;
    }
    for (auto [number, member] : llvm::enumerate(members))
      buffers[kernels::Grouped::getOwnName(name, number)] =
          member.getBuffers()[position];
  }
  Kernel kernel(grouped);
  KernelDescription description = kernel.describe(function.getContext());
  SmallVector<Value> operands;
  for (const KernelOperand &operand : description.getOperands())
    operands.push_back(buffers[operand.name]);
  OpBuilder b(function.getContext());
  b.setInsertionPointAfter(group.getLast());
  kernels.launch(b, first.getLoc(), kernel, std::move(description), operands);
  for (LaunchOp member : members)
    member.erase();
  ++numGroups;
  numGrouped += members.size();
}

void Grouper::run() {
  llvm::MapVector<Attribute, SmallVector<LaunchOp>> byKey;
  for (auto launch : function.getOps<LaunchOp>())
    if (Attribute key = getKey(launch))
      byKey[key].push_back(launch);
  for (auto &[key, launches] : byKey) {
    Group group;
    for (LaunchOp launch : launches) {
      if (!group.isEmpty() && !join(group, launch)) {
        write(group);
        group = {};
      }
      if (group.isEmpty())
        group.add(launch);
    }
    write(group);
  }
  if (numGroups > 0)
    exec::numberCommands(function);
}

namespace {
class GroupLaunchesPass
    : public optimus::impl::GroupLaunchesPassBase<GroupLaunchesPass> {
public:
  using GroupLaunchesPassBase::GroupLaunchesPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    return checkTarget(context, target);
  }

  void runOnOperation() override {
    const PieceSchedule *schedule =
        findTarget(target)->getKernelSchedule().getPieces();
    if (!schedule)
      return markAllAnalysesPreserved();
    ModuleOp module = getOperation();
    if (failed(readKernels(*schedule)))
      return signalPassFailure();
    KernelDeclarations kernels(module);
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isExternal() || !function.getBody().hasOneBlock())
        continue;
      Grouper grouper(function, *schedule, kernels, known);
      grouper.run();
      numGroups += grouper.numGroups;
      numGrouped += grouper.numGrouped;
    }
    kernels.eraseUnused();
  }

private:
  /// Finds those that may be pieces: what narrower elements make of names is
  /// not for a list of many buffers.
  LogicalResult readKernels(const PieceSchedule &schedule) {
    known.clear();
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function->hasAttr(exec::ExecDialect::kComputes) ||
          !function.isExternal())
        continue;
      FailureOr<DeclaredKernel> declared = readKernel(function);
      if (failed(declared))
        return failure();
      const auto &[kernel, description] = *declared;
      const IterationSpace &space = description.getSpace();
      bool isNarrow = kernel.describe(&getContext()).getFunctionType() !=
                      function.getFunctionType();
      if (space.pieces.empty() && schedule.takes(space) &&
          description.getScalars().empty() && !isNarrow)
        known.try_emplace(function.getSymName(), std::move(*declared));
    }
    return success();
  }

  llvm::StringMap<DeclaredKernel> known;
};
} // namespace
