//===- ExecToProgram.cpp - The device program as tables of commands -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Conversion/ExecToProgram/ExecToProgram.h"

#include "FunctionBuilder.h"

#include "optimus/Analysis/KernelWork.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"

#include "optimus-support/ProgramKernels.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::optimus;

/// How the functions of a module follow each other in a step of training, where
/// they are there.
static void addSequences(program::ProgramTableT &table, ModuleOp module) {
  using KindCalls = SmallVector<std::pair<EntryKind, uint32_t>>;
  auto add = [&](const char *name, const KindCalls &kinds) {
    program::Calls calls;
    for (auto [kind, times] : kinds) {
      func::FuncOp function = findEntry(module, kind);
      if (!function)
        return;
      for (func::FuncOp preparer : findPreparers(function))
        calls.push_back({preparer.getSymName().str(), 1});
      calls.push_back({function.getSymName().str(), times});
    }
    program::addSequence(table, name, calls);
  };
  add("train", {{EntryKind::Train, 1}});
  // The runtime says how many microbatches there are.
  add("train_microbatches",
      {{EntryKind::Accumulate, 0}, {EntryKind::Update, 1}});
}

/// What predictions ask of a kernel, beside its signature.
static void addWork(exec::LaunchOp launch, program::KernelT &kernel) {
  if (std::optional<Work> work = getAttentionWork(launch)) {
    auto attention = std::make_unique<program::KernelAttentionT>();
    attention->flops = work->flops;
    attention->seq = work->seq;
    attention->head_dim = work->headDim;
    attention->causal = work->causal;
    attention->gradient = work->gradient;
    kernel.attention = std::move(attention);
  }
  for (unsigned buffer : getBuffersByColumns(launch).set_bits())
    kernel.buffers[buffer]->by_columns = true;
}

/// The same of all kernels that are launched.
static void addWork(ModuleOp module, program::TargetT &target,
                    NameTable &kernels) {
  llvm::StringSet<> known;
  module.walk([&](exec::LaunchOp launch) {
    if (known.insert(launch.getKernel()).second)
      addWork(launch, *target.kernels[kernels.getNumber(launch.getKernel())]);
  });
}

FailureOr<program::ProgramsT>
mlir::optimus::buildPrograms(ModuleOp module, StringRef target,
                             program::Checks checks) {
  program::ProgramsT programs;
  MeshOp mesh = getMesh(module);
  if (mesh)
    for (MeshAxisAttr axis : mesh.getAxisList()) {
      auto entry = std::make_unique<program::MeshAxisT>();
      entry->name = axis.getName().getValue();
      entry->size = axis.getSize();
      programs.mesh.push_back(std::move(entry));
    }
  const optimus_support::Mesh ranks = program::meshOf(programs);
  auto code = std::make_unique<program::TargetT>();
  code->name = target;
  code->ranks.emplace_back(0, static_cast<uint32_t>(ranks.numRanks()), 0);
  auto table = std::make_unique<program::ProgramTableT>();
  table->lanes = static_cast<uint32_t>(exec::getLanes(module));
  NameTable kernels, texts;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function->hasAttr(exec::ExecDialect::kKernel) ||
        function.isDeclaration())
      continue;
    auto result = std::make_unique<program::FunctionT>();
    if (failed(FunctionBuilder(function, mesh, ranks, *result, kernels, texts)
                   .build()))
      return failure();
    table->functions.push_back(std::move(result));
  }
  table->texts = std::move(texts.names);
  addSequences(*table, module);
  code->tables.push_back(std::move(table));
  for (const std::string &name : kernels.names) {
    code->kernels.push_back(std::make_unique<program::KernelT>());
    code->kernels.back()->name = name;
  }
  program::describeKernels(*code, ranks);
  addWork(module, *code, kernels);
  programs.targets.push_back(std::move(code));
  // What a runtime would refuse never leaves the compiler.
  if (optimus_support::Status status = program::check(programs, checks);
      !status.ok())
    return module.emitError("the table of commands is wrong: ")
           << status.message();
  return programs;
}
