//===- GroupLaunches.cpp - One launch instead of many -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockOrder.h"
#include "MergeLaunches.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Exec/Transforms/Regions.h"
#include "optimus/Kernels/Grouped.h"
#include "optimus/Kernels/GroupedLaunchSchedule.h"
#include "optimus/Target/Passes.h"
#include "optimus/Target/Target.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-group-launches"

namespace mlir::optimus {
#define GEN_PASS_DEF_GROUPLAUNCHESPASS
#include "optimus/Target/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;
using exec::CommandOpInterface;
using exec::LaunchOp;

namespace {
/// Launches of kernels that differ in their extents alone.
class Group final : public LaunchGroup {
public:
  /// `order` is the rewriter's listener.
  Group(RewriterBase &rewriter, const BlockOrder &order,
        const GroupedLaunchSchedule &schedule)
      : LaunchGroup(rewriter), schedule(schedule), order(order) {}

private:
  /// The most bytes that may be in use for longer.
  static constexpr int64_t kMostHeldBytes = 64 << 10;
  /// The most bodies of a kernel: of rows, each extent has its own.
  static constexpr size_t kMostBodies = 16;

  bool join(const KernelLaunch &piece) override;
  void writeOne(KernelDeclarations &kernels) override;

  /// The buffers and the kernels that it has with another launch. A buffer read
  /// by all counts once, each member's own buffer by itself.
  int64_t getNumBuffers(LaunchOp another) const;
  size_t getNumKernels(LaunchOp another) const;
  /// Whether all members have a buffer at a position.
  bool isShared(size_t position, Value buffer) const {
    return llvm::all_of(members, [&](const KernelLaunch &member) {
      return LaunchOp(member.launch).getBuffers()[position] == buffer;
    });
  }
  /// Whether a command on the far side of `end` touches a buffer, or a view of
  /// it.
  bool isUsedBeyond(Value buffer, Operation *end, bool before) const;
  /// The bytes in use for longer if a launch moves to `end`, either as their
  /// first user or as their last.
  int64_t getHeldBytes(LaunchOp launch, Operation *end, bool before) const;
  /// Moves the definition of a value before `place`, and its operands'
  /// definitions. None of these is a command.
  void moveDefinitions(Value value, Operation *place) const;
  bool moveBehind(LaunchOp launch) const;
  bool moveBefore(LaunchOp launch) const;

  const GroupedLaunchSchedule &schedule;
  const BlockOrder &order;
};
} // namespace

/// For each in-place operand of a launch, the operand in whose place it is; for
/// others the operand itself.
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

bool Group::isUsedBeyond(Value buffer, Operation *end, bool before) const {
  return llvm::any_of(buffer.getUsers(), [&](Operation *user) {
    if (isa<exec::BufferViewOpInterface>(user))
      return isUsedBeyond(user->getResult(0), end, before);
    return user == end ||
           (before ? order.isBefore(user, end) : order.isBefore(end, user));
  });
}

int64_t Group::getHeldBytes(LaunchOp launch, Operation *end,
                            bool before) const {
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

void Group::moveDefinitions(Value value, Operation *place) const {
  Operation *definition = value.getDefiningOp();
  if (!definition || order.isBefore(definition, place))
    return;
  for (Value operand : definition->getOperands())
    moveDefinitions(operand, place);
  rewriter.moveOpBefore(definition, place);
}

int64_t Group::getNumBuffers(LaunchOp another) const {
  int64_t count = 0;
  for (auto [position, same] : llvm::enumerate(getPattern(another)))
    if (same == int64_t(position))
      count += isShared(position, another.getBuffers()[position])
                   ? 1
                   : members.size() + 1;
  return count;
}

size_t Group::getNumKernels(LaunchOp another) const {
  llvm::SetVector<StringRef> kernels;
  for (const KernelLaunch &member : members)
    kernels.insert(LaunchOp(member.launch).getKernel());
  kernels.insert(another.getKernel());
  return kernels.size();
}

bool Group::moveBehind(LaunchOp launch) const {
  LaunchOp last = members.back().launch;
  auto command = cast<CommandOpInterface>(*launch);
  Operation *place = launch;
  // What the launch reads was most often written shortly before.
  for (Operation *op = launch->getPrevNode(); op != last;
       op = op->getPrevNode())
    if (auto between = dyn_cast<CommandOpInterface>(op)) {
      if (mustFollow(between, command))
        return false;
      place = op;
    }
  if (place == launch)
    return true;
  if (getHeldBytes(launch, last, /*before=*/true) > kMostHeldBytes)
    return false;
  for (Value operand : launch->getOperands())
    moveDefinitions(operand, place);
  rewriter.moveOpBefore(launch, place);
  return true;
}

bool Group::moveBefore(LaunchOp launch) const {
  Operation *last = members.back().launch;
  for (Operation *op = last->getNextNode(); op != launch;
       op = op->getNextNode())
    if (auto between = dyn_cast<CommandOpInterface>(op))
      for (LaunchOp member : getLaunches())
        if (mustFollow(between, cast<CommandOpInterface>(*member)))
          return false;
  int64_t bytes = 0;
  for (LaunchOp member : getLaunches())
    bytes += getHeldBytes(member, launch, /*before=*/false);
  if (bytes > kMostHeldBytes)
    return false;
  for (LaunchOp member : getLaunches())
    rewriter.moveOpBefore(member, launch);
  return true;
}

bool Group::join(const KernelLaunch &piece) {
  if (members.empty())
    return true;
  LaunchOp launch = piece.launch;
  bool hasBodies = piece.getSpace().kind != IterationSpace::Elements;
  if (getNumBuffers(launch) > schedule.getMostBuffers() ||
      (hasBodies && getNumKernels(launch) > kMostBodies)) {
    LDBG() << "full: " << members.size() << " launches, the next of @"
           << launch.getKernel() << " begins another";
    return false;
  }
  auto command = cast<CommandOpInterface>(*launch);
  if (llvm::any_of(getLaunches(), [&](LaunchOp member) {
        return mustFollow(cast<CommandOpInterface>(*member), command);
      }))
    return false;
  return moveBehind(launch) || moveBefore(launch);
}

void Group::writeOne(KernelDeclarations &kernels) {
  LaunchOp last = members.back().launch;
  RewriterBase &b = rewriter;
  b.setInsertionPointAfter(last);
  llvm::stable_sort(members, [](const KernelLaunch &x, const KernelLaunch &y) {
    return LaunchOp(x.launch).getKernel() < LaunchOp(y.launch).getKernel();
  });
  LaunchOp first = members.front().launch;
  kernels::Grouped grouped;
  for (const KernelLaunch &member : members)
    grouped.pieces.push_back(member.getKernel());
  llvm::StringMap<Value> buffers;
  for (auto [position, same] : llvm::enumerate(getPattern(first))) {
    StringRef name = members.front().getDescription().getOperands()[same].name;
    grouped.buffers.push_back(name.str());
    if (same != int64_t(position))
      continue;
    if (isShared(position, first.getBuffers()[position])) {
      grouped.shared.push_back(name.str());
      buffers[name] = first.getBuffers()[position];
      continue;
    }
    for (auto [number, member] : llvm::enumerate(getLaunches()))
      buffers[kernels::Grouped::getOwnName(name, number)] =
          member.getBuffers()[position];
  }
  LDBG() << "one launch for " << members.size() << ", the first of @"
         << first.getKernel() << ", " << grouped.shared.size()
         << " buffers shared";
  Kernel kernel(grouped);
  KernelDescription description = kernel.describe(b.getContext());
  SmallVector<Value> operands;
  for (const KernelOperand &operand : description.getOperands())
    operands.push_back(buffers[operand.name]);
  kernels.launch(b, first.getLoc(), kernel, std::move(description), operands);
}

/// What the kernels of a group have in common; nothing of one that cannot be in
/// one. What narrower elements make of names is not for a list of many buffers.
static Attribute getForm(const KernelLaunch &piece,
                         const GroupedLaunchSchedule &schedule) {
  MLIRContext *context = LaunchOp(piece.launch).getContext();
  const IterationSpace &space = piece.getSpace();
  bool isNarrow = piece.getKernel().describe(context).getFunctionType() !=
                  piece.getDescription().getFunctionType();
  if (!space.pieces.empty() || !schedule.takes(space) ||
      !piece.getDescription().getScalars().empty() || isNarrow)
    return {};
  Builder b(context);
  SmallVector<int64_t> iterations = {space.kind, space.lanes};
  if (space.kind != IterationSpace::Elements)
    iterations.append({space.cols, space.getLength()});
  return b.getArrayAttr(
      {piece.getKernel().getForm(context), b.getDenseI64ArrayAttr(iterations)});
}

/// What the launches of a group have in common.
static Attribute getKey(Attribute form, LaunchOp launch) {
  Builder b(launch.getContext());
  return b.getArrayAttr({form, b.getDenseI64ArrayAttr(getPattern(launch))});
}

namespace {
class LaunchGrouping final : public LaunchMerging {
public:
  LaunchGrouping(MLIRContext *context, const GroupedLaunchSchedule &schedule)
      : schedule(schedule), rewriter(context, &order) {}

private:
  SmallVector<KernelLaunches> list(func::FuncOp function,
                                   ReadFn read) override {
    order.begin(function.front());
    llvm::MapVector<Attribute, KernelLaunches> byKey;
    // By kernel: a function launches few, and each often.
    llvm::StringMap<Attribute> forms;
    for (auto launch : function.getOps<LaunchOp>()) {
      auto [form, isNew] = forms.try_emplace(launch.getKernel());
      if (!isNew && !form->second)
        continue;
      std::optional<KernelLaunch> piece = read(launch);
      if (isNew && piece)
        form->second = getForm(*piece, schedule);
      if (form->second)
        byKey[getKey(form->second, launch)].push_back(std::move(*piece));
    }
    return llvm::map_to_vector(
        byKey, [](auto &entry) { return std::move(entry.second); });
  }

  std::unique_ptr<LaunchGroup> createGroup() override {
    return std::make_unique<Group>(rewriter, order, schedule);
  }

  const GroupedLaunchSchedule &schedule;
  BlockOrder order;
  IRRewriter rewriter;
};

class GroupLaunchesPass
    : public optimus::impl::GroupLaunchesPassBase<GroupLaunchesPass> {
public:
  using GroupLaunchesPassBase::GroupLaunchesPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    return checkTarget(context, target);
  }

  void runOnOperation() override {
    const GroupedLaunchSchedule *schedule =
        findTarget(target)->getKernelSchedule().getGroupedLaunches();
    if (!schedule)
      return markAllAnalysesPreserved();
    FailureOr<MergedCount> count = mergeLaunches(getOperation(), [&] {
      return std::make_unique<LaunchGrouping>(&getContext(), *schedule);
    });
    if (failed(count))
      return signalPassFailure();
    numGroups += count->groups;
    numGrouped += count->launches;
  }
};
} // namespace
