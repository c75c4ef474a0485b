//===- CompiledKernels.cpp - Kernels compiled and called --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledKernels.h"

#include "optimus/Conversion/ExecToLLVM/Passes.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Target/CPU/CodeGen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"

#include <dlfcn.h>

using namespace mlir;
using namespace mlir::optimus;

/// What `optrt_rank` is here: how many tasks a launch is split into.
struct optrt_rank {
  int parts;
};

/// The status of a launch that was asked for no task.
static constexpr int32_t kRefused = 77;

static int32_t launch(optrt_rank *rank, uint32_t, const optrt_launch_desc *desc,
                      optrt_kernel kernel, void *const *args) {
  if (rank->parts == 0)
    return kRefused;
  int64_t parts = std::min<int64_t>(rank->parts, desc->extent);
  for (int64_t part = parts - 1; part >= 0; --part)
    kernel(desc->extent * part / parts, desc->extent * (part + 1) / parts,
           args);
  return 0;
}

static const optrt_api api = [] {
  optrt_api table{};
  table.version = OPTRT_ABI_VERSION;
  table.launch = launch;
  return table;
}();

static MLIRContext *load(MLIRContext &context) {
  DialectRegistry registry;
  registry.insert<OptimusDialect, exec::ExecDialect>();
  KernelLibrary::getDependentDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  return &context;
}

CompiledKernels::CompiledKernels()
    : module(ModuleOp::create(UnknownLoc::get(load(context)))),
      library(*module) {}

CompiledKernels::~CompiledKernels() {
  if (handle)
    dlclose(handle);
  if (!path.empty())
    llvm::sys::fs::remove(path);
}

size_t CompiledKernels::add(KernelLaunch launch, std::vector<int64_t> scalars) {
  auto kernel = module->lookupSymbol<func::FuncOp>(launch.kernel.getAttr());
  SmallVector<Type> types(kernel.getArgumentTypes().drop_front(2));
  types.pop_back_n(scalars.size());
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  Location loc = b.getUnknownLoc();
  auto function = func::FuncOp::create(b, loc, ("launch" + llvm::Twine(count)).str(),
                                       b.getFunctionType(types, {}));
  b.setInsertionPointToStart(function.addEntryBlock());
  SmallVector<Value> constants;
  for (int64_t scalar : scalars)
    constants.push_back(
        arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(scalar)));
  SmallVector<int32_t> access(types.size(), exec::LaunchOp::Update);
  exec::LaunchOp::create(
      b, loc, launch.kernel, b.getI64IntegerAttr(launch.extent),
      b.getI64IntegerAttr(launch.grain), ValueRange(function.getArguments()),
      constants, b.getDenseI32ArrayAttr(access), b.getI32IntegerAttr(0));
  func::ReturnOp::create(b, loc);
  return count++;
}

std::string CompiledKernels::compile() {
  PassManager passes(&context);
  passes.addPass(createExecToLLVMPass());
  if (failed(passes.run(*module)))
    return "--optimus-exec-to-llvm failed";
  SmallString<128> temporary;
  if (llvm::sys::fs::createTemporaryFile("optimus-kernels", "so", temporary))
    return "no temporary file";
  path = temporary.str().str();
  auto target = CpuTarget::get("native");
  if (!target)
    return llvm::toString(target.takeError());
  auto writer = LibraryWriter::create("optimus-kernels");
  if (!writer.ok())
    return writer.status().message();
  if (auto written = writer->write(*module, *target, path); !written.ok())
    return written.message();
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return dlerror();
  auto query = reinterpret_cast<optimus_model_query_fn>(
      dlsym(handle, "optimus_model_query"));
  if (!query)
    return "no optimus_model_query";
  if (query(OPTRT_ABI_VERSION + 1, &api))
    return "another version was not refused";
  model = query(OPTRT_ABI_VERSION, &api);
  return model ? "" : "the version was refused";
}

int32_t CompiledKernels::run(size_t number, std::vector<void *> buffers,
                             int parts) {
  optrt_rank rank{parts};
  return model->functions[number].run(&rank, nullptr, buffers.data());
}
