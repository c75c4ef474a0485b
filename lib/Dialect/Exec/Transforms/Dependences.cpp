//===- Dependences.cpp - Which commands must stay in order ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dependences.h"

#include "optimus/Dialect/Exec/Transforms/Regions.h"

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
/// few, so their stretches stand closely together.
class Records {
public:
  Record &add(Record record) {
    stretches.push_back({record.region.begin, record.region.getEnd()});
    return records.emplace_back(std::move(record));
  }

  /// Visits the records near the region, and erases those for which `visit`
  /// returns true.
  void visitNear(const MemoryRegion &region,
                 llvm::function_ref<bool(Record &)> visit) {
    const int64_t begin = region.begin, end = region.getEnd();
    for (size_t i = 0; i < stretches.size();) {
      auto [otherBegin, otherEnd] = stretches[i];
      if (otherBegin >= end || begin >= otherEnd || !visit(records[i])) {
        ++i;
        continue;
      }
      std::swap(stretches[i], stretches.back());
      stretches.pop_back();
      std::swap(records[i], records.back());
      records.pop_back();
    }
  }

private:
  std::vector<std::pair<int64_t, int64_t>> stretches;
  std::vector<Record> records;
};

class DependenceBuilder {
public:
  explicit DependenceBuilder(std::vector<ProgramNode> &nodes) : nodes(nodes) {}

  void run() {
    for (unsigned node = 0; node < nodes.size(); ++node) {
      CommandRegions regions = getRegions(nodes[node].command);
      for (const MemoryRegion &region : regions.read)
        read(node, region);
      for (const MemoryRegion &region : regions.written)
        write(node, region);
    }
    for (unsigned node = 0; node < nodes.size(); ++node) {
      SmallVectorImpl<unsigned> &before = nodes[node].before;
      llvm::sort(before);
      before.erase(llvm::unique(before), before.end());
      for (unsigned earlier : before)
        nodes[earlier].after.push_back(node);
    }
  }

private:
  void addEdge(unsigned earlier, unsigned node) {
    if (earlier != node)
      nodes[node].before.push_back(earlier);
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

  void write(unsigned node, const MemoryRegion &region) {
    Records &records = recordsOf[region.base];
    records.visitNear(region, [&](Record &record) {
      if (!record.region.mayOverlap(region))
        return false;
      for (unsigned reader : record.readers)
        addEdge(reader, node);
      if (record.writer)
        addEdge(*record.writer, node);
      return region.contains(record.region);
    });
    records.add({region, node, {}});
  }

  std::vector<ProgramNode> &nodes;
  llvm::DenseMap<Value, Records> recordsOf;
};
} // namespace

std::vector<ProgramNode> mlir::exec::computeDependences(func::FuncOp function) {
  std::vector<ProgramNode> nodes;
  for (Operation &op : function.getBody().front()) {
    auto command = dyn_cast<CommandOpInterface>(op);
    // Counted with what it waits for.
    if (!command || command.getAwaitedCommand())
      continue;
    nodes.push_back(
        {command,
         dyn_cast_or_null<CommandOpInterface>(command.getWaitingCommand()),
         {},
         {}});
  }
  DependenceBuilder(nodes).run();
  return nodes;
}
