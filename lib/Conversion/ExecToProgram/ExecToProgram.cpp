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

#include "mlir/IR/Threading.h"
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

namespace {
/// A function's table, whose kernels and texts it numbers by itself.
struct BuiltFunction {
  func::FuncOp function;
  std::unique_ptr<program::FunctionT> table =
      std::make_unique<program::FunctionT>();
  NameTable kernels = {}, texts = {};
  /// The first of each kernel.
  SmallVector<exec::LaunchOp> launches = {};
};
} // namespace

/// The same of all kernels that are launched.
static void addWork(ArrayRef<BuiltFunction> functions, program::TargetT &target,
                    NameTable &kernels) {
  llvm::StringSet<> known;
  for (const BuiltFunction &built : functions)
    for (exec::LaunchOp launch : built.launches)
      if (known.insert(launch.getKernel()).second)
        addWork(launch, *target.kernels[kernels.getNumber(launch.getKernel())]);
}

/// Gives a table the numbers that its names have among those of all functions.
static void numberNames(BuiltFunction &built, NameTable &kernels,
                        NameTable &texts) {
  auto numberIn = [](const NameTable &own, NameTable &all) {
    std::vector<uint32_t> numbers;
    for (const std::string &name : own.names)
      numbers.push_back(all.getNumber(name));
    return [numbers = std::move(numbers)](uint32_t &number) {
      if (number != program::kNone)
        number = numbers[number];
    };
  };
  const auto numberKernel = numberIn(built.kernels, kernels),
             numberText = numberIn(built.texts, texts);
  for (const std::unique_ptr<program::CommandT> &command :
       built.table->commands) {
    numberText(command->path);
    numberText(command->source);
    program::ActionUnion &action = command->action;
    if (auto *launch = action.AsLaunch())
      numberKernel(launch->kernel);
    else if (auto *gemm = action.AsGemm())
      numberKernel(gemm->kernel);
    else if (auto *copy = action.AsCopy())
      numberKernel(copy->kernel);
    else if (auto *collective = action.AsCollective())
      numberKernel(collective->kernel);
  }
  for (const std::unique_ptr<program::BufferT> &buffer : built.table->buffers) {
    for (uint32_t *text :
         {&buffer->category, &buffer->name, &buffer->path, &buffer->source})
      numberText(*text);
    for (uint32_t &value : buffer->values)
      numberText(value);
  }
}

FailureOr<program::ProgramsT> mlir::optimus::buildPrograms(ModuleOp module,
                                                           StringRef target) {
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
  std::vector<BuiltFunction> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function->hasAttr(exec::ExecDialect::kKernel) &&
        !function.isDeclaration())
      functions.push_back({function});
  if (failed(failableParallelForEach(
          module.getContext(), functions, [&](BuiltFunction &built) {
            FunctionBuilder builder(built.function, mesh, ranks, *built.table,
                                    built.kernels, built.texts);
            if (failed(builder.build()))
              return failure();
            built.launches = builder.takeLaunches();
            return success();
          })))
    return failure();
  NameTable kernels, texts;
  for (BuiltFunction &built : functions) {
    numberNames(built, kernels, texts);
    table->functions.push_back(std::move(built.table));
  }
  table->texts = std::move(texts.names);
  addSequences(*table, module);
  code->tables.push_back(std::move(table));
  for (const std::string &name : kernels.names) {
    code->kernels.push_back(std::make_unique<program::KernelT>());
    code->kernels.back()->name = name;
  }
  program::describeKernels(*code, ranks);
  addWork(functions, *code, kernels);
  programs.targets.push_back(std::move(code));
  return programs;
}

LogicalResult
mlir::optimus::verifyPrograms(ModuleOp module,
                              const optimus_support::Status &checked) {
  if (checked.ok())
    return success();
  return module.emitError("the table of commands is wrong: ")
         << checked.message();
}
