//===- CompiledKernels.cpp - Kernels compiled and called --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledKernels.h"

#include "optimus/Conversion/ExecToLLVM/Passes.h"
#include "optimus/Conversion/ExecToProgram/ProgramActionOpInterface.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Kernels/ElementwiseBodyOpInterface.h"
#include "optimus/Kernels/KernelBuilder.h"
#include "optimus/Target/CPU/CodeGen.h"
#include "optimus/Target/CPU/CpuDevice.h"
#include "optimus/Target/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"

#include <dlfcn.h>

using namespace mlir;
using namespace mlir::optimus;
namespace program = optimus_support::program;

static MLIRContext *load(MLIRContext &context) {
  DialectRegistry registry;
  registry.insert<OptimusDialect, exec::ExecDialect>();
  KernelBuilder::getDependentDialects(registry);
  registerProgramActions(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  attachElementwiseBodies(context);
  if (!findTarget("cpu"))
    registerCPUTarget();
  return &context;
}

CompiledKernels::CompiledKernels(const KernelSchedule &schedule)
    : schedule(schedule),
      module(ModuleOp::create(UnknownLoc::get(load(context)))),
      declarations(*module) {}

CompiledKernels::~CompiledKernels() {
  if (handle)
    dlclose(handle);
  if (!path.empty())
    llvm::sys::fs::remove(path);
}

KernelDescription
CompiledKernels::describe(const Kernel &kernel,
                          const std::vector<std::string> &narrow) {
  KernelDescription description = kernel.describe(&context);
  SmallVector<Type> types;
  for (const KernelOperand &operand : description.getOperands())
    types.push_back(llvm::is_contained(narrow, operand.name)
                        ? BFloat16Type::get(&context)
                        : operand.elementType);
  if (failed(description.setElementTypes(types)))
    llvm::report_fatal_error("an operand that is not f32 cannot be bf16");
  return description;
}

size_t CompiledKernels::add(const Kernel &kernel, std::vector<int64_t> scalars,
                            const std::vector<std::string> &narrow) {
  func::FuncOp function =
      declarations.declare(kernel, describe(kernel, narrow));
  FailureOr<ScheduledKernel> built = buildKernel(function, schedule);
  if (failed(built))
    llvm::report_fatal_error("a kernel that was declared cannot be built");
  SmallVector<Type> types(function.getArgumentTypes().drop_front(2));
  types.pop_back_n(scalars.size());
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  Location loc = b.getUnknownLoc();
  auto caller = func::FuncOp::create(
      b, loc, ("launch" + llvm::Twine(launches.size())).str(),
      b.getFunctionType(types, {}));
  b.setInsertionPointToStart(caller.addEntryBlock());
  SmallVector<Value> constants;
  for (int64_t scalar : scalars)
    constants.push_back(
        arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(scalar)));
  SmallVector<int32_t> access(types.size(), exec::LaunchOp::Update);
  exec::LaunchOp::create(
      b, loc, FlatSymbolRefAttr::get(function.getSymNameAttr()),
      b.getI64IntegerAttr(built->extent.extent),
      b.getI64IntegerAttr(built->extent.grain),
      ValueRange(caller.getArguments()), constants,
      b.getDenseI32ArrayAttr(access), b.getI32IntegerAttr(0),
      b.getStringAttr(exec::kComputeQueue), /*after=*/DenseI32ArrayAttr());
  func::ReturnOp::create(b, loc);
  launches.push_back({std::move(*built), std::move(scalars)});
  return launches.size() - 1;
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
  auto writer = LibraryWriter::create("optimus-kernels", target->triple);
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
  if (query(OPTRT_ABI_VERSION + 1))
    return "another version was not refused";
  model = query(OPTRT_ABI_VERSION);
  if (!model)
    return "the version was refused";
  auto read =
      program::unpack(std::span(model->programs, size_t(model->programs_size)));
  if (!read.ok())
    return read.status().message();
  programs = std::move(read).value();
  return getTable().functions.size() == launches.size()
             ? ""
             : "a function has no table";
}

static optrt_kernel findKernel(const optimus_model &model, StringRef name) {
  for (const optimus_kernel &kernel :
       ArrayRef(model.kernels, model.num_kernels))
    if (name == kernel.name)
      return kernel.run;
  return nullptr;
}

void CompiledKernels::run(size_t number, std::vector<void *> buffers,
                          int parts) {
  const program::FunctionT &function = *getTable().functions[number];
  const program::CommandT &command = *function.commands.front();
  const program::LaunchT &launch = *command.action.AsLaunch();
  std::vector<void *> args;
  for (const auto &operand : command.operands)
    args.push_back(
        buffers
            [function.addresses[operand->address]->location.AsPlace()->index]);
  // These are constants.
  for (uint32_t scalar : launch.scalars)
    args.push_back(&function.scalars[scalar]->number.AsInteger()->constant);
  optrt_kernel kernel =
      findKernel(*model, getTarget().kernels[launch.kernel]->name);
  const int64_t tasks = std::min<int64_t>(parts, launch.extent);
  for (int64_t task = tasks - 1; task >= 0; --task)
    kernel(launch.extent * task / tasks, launch.extent * (task + 1) / tasks,
           args.data());
}
