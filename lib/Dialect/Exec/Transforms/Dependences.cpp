//===- Dependences.cpp - Which commands must stay in order ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dependences.h"

#include "optimus/Dialect/Exec/Transforms/Regions.h"

#include "llvm/Support/MathExtras.h"

#include <functional>
#include <map>

using namespace mlir;
using namespace mlir::exec;

namespace {
/// What was last done to a region: at most one write, and reads since.
struct Record {
  MemoryRegion region;
  std::optional<unsigned> writer;
  SmallVector<unsigned, 2> readers;
};

/// The records of a base. An arena has thousands, of which an access touches a
/// few: they lie in order of where they begin, by sizes. Of each size within a
/// factor of two, those that begin no further before an access than the longest
/// one is long may reach it.
class Records {
public:
  Record &add(Record record) {
    const int64_t begin = record.region.begin;
    const int64_t size = record.region.getEnd() - begin;
    const unsigned power = llvm::Log2_64(std::max<uint64_t>(size, 1));
    auto found = llvm::find_if(
        sizes, [&](const Size &known) { return known.power == power; });
    if (found == sizes.end())
      found = sizes.insert(found, {power, {}});
    return found->records.emplace(begin, std::move(record))->second;
  }

  /// Visits the records near the region, and erases those for which `visit`
  /// returns true.
  void visitNear(const MemoryRegion &region,
                 llvm::function_ref<bool(Record &)> visit) {
    const int64_t begin = region.begin, end = region.getEnd();
    for (auto &[power, records] : sizes) {
      const int64_t longest = (int64_t(2) << power) - 1;
      for (auto it = records.upper_bound(begin - longest);
           it != records.end() && it->first < end;)
        it = it->second.region.getEnd() > begin && visit(it->second)
                 ? records.erase(it)
                 : std::next(it);
    }
  }

private:
  struct Size {
    unsigned power;
    std::multimap<int64_t, Record> records;
  };
  std::vector<Size> sizes;
};

/// Follows commands in their order.
class AccessFollower {
public:
  explicit AccessFollower(llvm::function_ref<void(unsigned, unsigned)> visit)
      : visit(visit) {}

  void add(unsigned node, CommandOpInterface command) {
    CommandRegions regions = getRegions(command);
    for (const MemoryRegion &region : regions.read)
      read(node, region);
    for (const MemoryRegion &region : regions.written)
      write(node, region);
  }

private:
  void addEdge(unsigned earlier, unsigned node) {
    if (earlier != node)
      visit(earlier, node);
  }

  void read(unsigned node, const MemoryRegion &region) {
    Records &records = recordsOf[region.base];
    Record *same = nullptr;
    records.visitNear(region, [&](Record &record) {
      if (record.region == region)
        same = &record;
      if (record.writer && record.region.mayOverlap(region))
        addEdge(*record.writer, node);
      return false;
    });
    if (!same)
      same = &records.add({region, std::nullopt, {}});
    same->readers.push_back(node);
  }

  /// Whatever comes after a write comes after all earlier accesses to its bytes,
  /// too: of these accesses, records keep the other bytes.
  void write(unsigned node, const MemoryRegion &region) {
    Records &records = recordsOf[region.base];
    SmallVector<Record, 2> rests;
    records.visitNear(region, [&](Record &record) {
      if (!record.region.mayOverlap(region))
        return false;
      for (unsigned reader : record.readers)
        addEdge(reader, node);
      if (record.writer)
        addEdge(*record.writer, node);
      if (region.contains(record.region))
        return true;
      if (!region.isStretch() || !record.region.isStretch())
        return false;
      auto keep = [&](int64_t begin, int64_t end) {
        if (begin < end)
          rests.push_back({MemoryRegion::stretch(region.base, begin, end),
                           record.writer, record.readers});
      };
      keep(record.region.begin, region.begin);
      keep(region.getEnd(), record.region.getEnd());
      return true;
    });
    for (Record &rest : rests)
      records.add(std::move(rest));
    records.add({region, node, {}});
  }

  llvm::function_ref<void(unsigned, unsigned)> visit;
  llvm::DenseMap<Value, Records> recordsOf;
};
} // namespace

void mlir::exec::visitDependences(
    ArrayRef<CommandOpInterface> commands,
    llvm::function_ref<void(unsigned, unsigned)> visit) {
  AccessFollower follower(visit);
  for (unsigned number = 0; number < commands.size(); ++number)
    // Counted with what it waits for.
    if (CommandOpInterface command = commands[number];
        !command.getAwaitedCommand())
      follower.add(number, command);
}

std::vector<ProgramNode> mlir::exec::computeDependences(func::FuncOp function) {
  std::vector<ProgramNode> nodes;
  SmallVector<CommandOpInterface> commands;
  for (auto command : function.getBody().front().getOps<CommandOpInterface>()) {
    if (command.getAwaitedCommand())
      continue;
    commands.push_back(command);
    nodes.push_back(
        {command,
         dyn_cast_or_null<CommandOpInterface>(command.getWaitingCommand()),
         {},
         {}});
  }
  visitDependences(commands, [&](unsigned earlier, unsigned later) {
    nodes[later].before.push_back(earlier);
  });
  for (unsigned node = 0; node < nodes.size(); ++node) {
    SmallVectorImpl<unsigned> &before = nodes[node].before;
    // With a comparator it is not the C library's.
    llvm::sort(before, std::less<>());
    before.erase(llvm::unique(before), before.end());
    for (unsigned earlier : before)
      nodes[earlier].after.push_back(node);
  }
  return nodes;
}
