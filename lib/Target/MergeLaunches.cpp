//===- MergeLaunches.cpp - One launch instead of several --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MergeLaunches.h"

#include "optimus/Dialect/Exec/IR/Commands.h"

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

FailureOr<MergedCount>
mlir::optimus::mergeLaunches(ModuleOp module, const LaunchMerging &merging) {
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
    return KernelLaunch{kernel->second, launch};
  };

  KernelDeclarations kernels(module);
  MergedCount count;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      continue;
    const int64_t before = count.groups;
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
    if (count.groups != before)
      exec::numberCommands(function);
  }
  kernels.eraseUnused();
  return count;
}
