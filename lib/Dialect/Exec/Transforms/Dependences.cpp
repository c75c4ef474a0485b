//===- Dependences.cpp - Which commands must stay in order ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dependences.h"

#include "Regions.h"

using namespace mlir;
using namespace mlir::exec;

namespace {
/// What was last done to a region: at most one write, and reads since.
struct Record {
  MemoryRegion region;
  std::optional<unsigned> writer;
  SmallVector<unsigned, 2> readers;
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
    SmallVectorImpl<Record> &records = recordsOf[region.base];
    Record *same = nullptr;
    for (Record &record : records) {
      if (record.region == region)
        same = &record;
      if (record.writer && record.region.mayOverlap(region))
        addEdge(*record.writer, node);
    }
    if (!same) {
      records.push_back({region, std::nullopt, {}});
      same = &records.back();
    }
    same->readers.push_back(node);
  }

  void write(unsigned node, const MemoryRegion &region) {
    SmallVectorImpl<Record> &records = recordsOf[region.base];
    for (Record &record : records) {
      if (!record.region.mayOverlap(region))
        continue;
      for (unsigned reader : record.readers)
        addEdge(reader, node);
      if (record.writer)
        addEdge(*record.writer, node);
    }
    llvm::erase_if(records, [&](const Record &record) {
      return region.contains(record.region);
    });
    records.push_back({region, node, {}});
  }

  std::vector<ProgramNode> &nodes;
  llvm::DenseMap<Value, SmallVector<Record, 4>> recordsOf;
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
