//===- MergeLaunches.cpp - One launch instead of several --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MergeLaunches.h"

#include "optimus/Dialect/Exec/IR/Commands.h"

#include "mlir/IR/Threading.h"

using namespace mlir;
using namespace mlir::optimus;
using exec::LaunchOp;

bool LaunchGroup::add(const KernelLaunch &launch) {
  if (!join(launch))
    return false;
  members.push_back(launch);
  return true;
}

bool LaunchGroup::write(KernelDeclarations &kernels) {
  if (members.size() < 2 || !isWorthOne())
    return false;
  writeOne(kernels);
  for (KernelLaunch &member : members)
    rewriter.eraseOp(member.launch);
  return true;
}

/// Merges the launches of a function.
static MergedCount mergeLaunches(func::FuncOp function, LaunchMerging &merging,
                                 LaunchMerging::ReadFn read,
                                 KernelDeclarations &kernels) {
  MergedCount count;
  for (const KernelLaunches &launches : merging.list(function, read)) {
    std::unique_ptr<LaunchGroup> group = merging.createGroup();
    int64_t size = 0;
    auto finish = [&] {
      if (group->write(kernels)) {
        ++count.groups;
        count.launches += size;
      }
      group = merging.createGroup();
      size = 0;
    };
    for (const KernelLaunch &launch : launches) {
      if (!group->add(launch)) {
        finish();
        // It may begin one of its own.
        if (!group->add(launch))
          continue;
      }
      ++size;
    }
    finish();
  }
  if (count.groups != 0)
    exec::numberCommands(function);
  return count;
}

FailureOr<MergedCount> mlir::optimus::mergeLaunches(
    ModuleOp module, function_ref<std::unique_ptr<LaunchMerging>()> create) {
  llvm::StringMap<DeclaredKernel> known;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isExternal() &&
        function->hasAttr(exec::ExecDialect::kComputes)) {
      FailureOr<DeclaredKernel> kernel = readKernel(function);
      if (failed(kernel))
        return failure();
      known.try_emplace(function.getSymName(), std::move(*kernel));
    }
  auto read = [&](LaunchOp launch) -> std::optional<KernelLaunch> {
    auto kernel = known.find(launch.getKernel());
    if (kernel == known.end())
      return std::nullopt;
    return KernelLaunch{&kernel->second, launch};
  };

  struct Merged {
    func::FuncOp function;
    OwningOpRef<ModuleOp> kernels;
    MergedCount count;
  };
  std::vector<Merged> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.getBody().hasOneBlock())
      functions.push_back({function, ModuleOp::create(module.getLoc()), {}});
  parallelForEach(module.getContext(), functions, [&](Merged &merged) {
    KernelDeclarations kernels(*merged.kernels);
    merged.count = ::mergeLaunches(merged.function, *create(), read, kernels);
  });
  // Kernels stand in the order in which functions launch them.
  KernelDeclarations kernels(module);
  MergedCount count;
  for (Merged &merged : functions) {
    kernels.take(*merged.kernels);
    count.groups += merged.count.groups;
    count.launches += merged.count.launches;
  }
  kernels.eraseUnused();
  return count;
}
