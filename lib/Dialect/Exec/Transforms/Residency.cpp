//===- Residency.cpp - Intervals in which buffers are used ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Residency.h"

using namespace mlir;
using namespace mlir::exec;

namespace {
/// What a command does to a buffer.
struct Use {
  bool reads = false, writes = false;
  /// Whether nothing is left of what was there.
  bool overwrites = false;
};
} // namespace

/// Whether an access covers all of the buffer that it names.
static bool isWhole(const Access &access, Value base) {
  if (access.operand->get() != base || access.part)
    return false;
  int64_t elements = cast<MemRefType>(base.getType()).getNumElements();
  bool isDense = access.rows == 1 || access.cols == access.ld;
  return access.cols == 0 || (isDense && access.rows * access.cols == elements);
}

static llvm::SmallMapVector<Value, Use, 4> getUses(CommandOpInterface command) {
  llvm::SmallMapVector<Value, Use, 4> uses;
  for (const Access &access : command.getAccesses()) {
    SmallVector<Value> written;
    if (access.writes)
      written = getBases(access.part ? access.part : access.operand->get());
    for (Value base : getBases(access.operand->get())) {
      Use &use = uses[base];
      bool writes = llvm::is_contained(written, base);
      // What lies where another rank writes is read there.
      use.reads |= access.reads || !writes;
      use.writes |= writes;
      use.overwrites |= writes && isWhole(access, base);
    }
  }
  return uses;
}

llvm::MapVector<Value, SmallVector<ResidentInterval>>
mlir::exec::collectResidentIntervals(
    ArrayRef<CommandOpInterface> commands,
    llvm::function_ref<bool(Value)> counts,
    llvm::function_ref<bool(Value, int64_t, int64_t)> belongTogether) {
  llvm::MapVector<Value, SmallVector<ResidentInterval>> result;
  auto add = [&](Value base, int64_t position, const Use &use) {
    if (getMemorySpace(base) != MemorySpace::Device || !counts(base))
      return;
    SmallVector<ResidentInterval> &intervals = result[base];
    if (intervals.empty() ||
        !belongTogether(base, intervals.back().last, position))
      intervals.push_back(
          {position, position, use.reads || !use.overwrites, false});
    intervals.back().last = position;
    intervals.back().writes |= use.writes;
  };
  for (auto [position, each] : llvm::enumerate(commands)) {
    CommandOpInterface command = each;
    for (const auto &[base, use] : getUses(command))
      add(base, position, use);
    // Until here it may still be read and written: no interval ends before.
    if (auto awaited =
            dyn_cast_or_null<CommandOpInterface>(command.getAwaitedCommand()))
      for (const auto &[base, use] : getUses(awaited))
        if (auto found = result.find(base); found != result.end())
          found->second.back().last = position;
  }
  return result;
}
