//===- OffloadRewriter.h - Copies between homes and the device --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OFFLOADREWRITER_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OFFLOADREWRITER_H

#include "Residency.h"
#include "TransferPlan.h"

#include "optimus/Dialect/Exec/Transforms/Bandwidth.h"

namespace mlir::exec {

/// Gives buffers a home in another memory space, and each of their resident
/// intervals a buffer in the device's memory.
class OffloadRewriter {
public:
  /// `plan` has the times of the commands, and takes the copies.
  OffloadRewriter(func::FuncOp function, ArrayRef<CommandOpInterface> commands,
                  MemorySpace space, const Bandwidth &rates, TransferPlan &plan)
      : function(function), commands(commands), space(space), rates(rates),
        plan(plan) {}

  /// Plans the copies of a buffer with these resident intervals.
  void add(Value base, ArrayRef<ResidentInterval> intervals);
  bool isEmpty() const { return buffers.empty(); }
  size_t getNumBuffers() const { return buffers.size(); }

  /// Takes a buffer of the device's memory in place of `base` at commands
  /// [first, last], once the plan has its schedule.
  using VisitRange =
      llvm::function_ref<void(Value base, int64_t first, int64_t last)>;
  void forEachRange(VisitRange visit) const;
  /// Whether a buffer has its home elsewhere.
  bool contains(Value base) const { return visitsOf.contains(base); }

  /// Rewrites the function, once the plan has its schedule.
  void run();

private:
  struct Buffer {
    Value base, home;
  };
  /// An interval and the copies around it, by their numbers in the plan.
  struct Visit {
    size_t buffer;
    ResidentInterval interval;
    std::optional<size_t> fetch = {}, store = {};
    Value slot = {};
  };

  CommandOpInterface getCommand(int64_t position) const {
    return commands[position];
  }
  void makeHome(Buffer &buffer);
  void makeSlot(Visit &visit, OpBuilder &builder);
  /// A copy of all of a buffer.
  CopyOp makeCopy(OpBuilder &builder, Location loc, Value from, Value to);
  void insertCopies();
  /// Lets the commands of the intervals use their buffers instead of the homes.
  void replaceUses();
  /// `value`, as the command at a position sees it.
  Value rebuild(Value value, int64_t position, OpBuilder &builder);
  Value findSlot(Value base, int64_t position) const;
  static void eraseUnusedViews(Block &block);
  /// Says of stores behind how many commands they have time to be done.
  void setLags();

  func::FuncOp function;
  ArrayRef<CommandOpInterface> commands;
  MemorySpace space;
  const Bandwidth &rates;
  TransferPlan &plan;
  std::vector<Buffer> buffers;
  std::vector<Visit> visits;
  /// By base, visits in order.
  llvm::DenseMap<Value, SmallVector<size_t>> visitsOf;
  /// Stores, and the commands up to which their memory stays; null: the end.
  SmallVector<std::pair<CopyOp, Operation *>> lagging;
};

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OFFLOADREWRITER_H
