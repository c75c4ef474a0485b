//===- ExecToLLVM.cpp - From the device program to LLVM ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Conversion.h"

#include "optimus/Conversion/ExecToLLVM/Passes.h"
#include "optimus/Conversion/ExecToProgram/ExecToProgram.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/VerifyExec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Kernels/KernelFunctions.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "llvm/Support/DebugLog.h"

#include <future>

#define DEBUG_TYPE "optimus-exec-to-llvm"

namespace mlir::optimus {
#define GEN_PASS_DEF_EXECTOLLVMPASS
#include "optimus/Conversion/ExecToLLVM/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::Status;

/// How a device launches the kernels of a module, by their names; empty where
/// the host calls them.
static FailureOr<DeviceKernels> getDeviceKernels(ModuleOp module,
                                                 const Target &target) {
  DeviceKernels kernels;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(exec::ExecDialect::kKernel))
      continue;
    StringRef name = function.getSymName();
    // The calls of kernels do not depend on their bodies.
    if (!target.getDeviceKernel(name, {IterationSpace::Items, 1, 1}))
      return DeviceKernels();
    FailureOr<DeclaredKernel> kernel = readKernel(function);
    if (failed(kernel))
      return failure();
    kernels.try_emplace(
        name, *target.getDeviceKernel(name, kernel->description.getSpace()));
  }
  return kernels;
}

/// Declares the kernels, whose code is in another object of the library, and
/// erases their tables.
static void declareWrappers(ModuleOp module) {
  for (Operation &op : llvm::make_early_inc_range(*module.getBody())) {
    OpBuilder b(&op);
    if (auto kernel = dyn_cast<func::FuncOp>(op))
      declareWrapper(b, kernel.getLoc(), kernel.getSymName());
    op.erase();
  }
}

namespace {
class ExecToLLVM : public optimus::impl::ExecToLLVMPassBase<ExecToLLVM> {
public:
  using ExecToLLVMPassBase::ExecToLLVMPassBase;
  ExecToLLVM(const ExecToLLVMPassOptions &options,
             std::shared_ptr<const DeviceImages> images,
             std::shared_ptr<TableCheck> check)
      : ExecToLLVMPassBase(options), images(std::move(images)),
        check(std::move(check)) {}

  LogicalResult initialize(MLIRContext *context) override {
    return checkTarget(context, target);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<optimus_support::program::ProgramsT> built =
        buildPrograms(module, target);
    if (failed(built))
      return signalPassFailure();
    auto programs = std::make_shared<optimus_support::program::ProgramsT>(
        std::move(*built));
    FailureOr<DeviceKernels> deviceKernels =
        getDeviceKernels(module, *findTarget(target));
    if (failed(deviceKernels))
      return signalPassFailure();
    std::future<Status> checked = startCheck(programs, takeCommands(module));
    if (isPlan || !deviceKernels->empty())
      // There is no code, or it is in the images.
      module.getBody()->clear();
    else if (kernelsApart)
      declareWrappers(module);
    else if (failed(convertKernels(module)))
      return signalPassFailure();
    auto manifest = module->getAttrOfType<StringAttr>(kManifestAttr);
    const std::string bytes = optimus_support::program::pack(*programs);
    const auto &code = *programs->targets.front();
    createModelQuery(module, manifest ? manifest.getValue() : "", bytes,
                     isPlan ? KernelList() : KernelList(code.kernels),
                     *deviceKernels, images ? *images : DeviceImages());
    module->removeAttr(kManifestAttr);
    if (check)
      check->status = std::move(checked);
    else if (failed(verifyPrograms(module, checked.get())))
      return signalPassFailure();
    for (const auto *function : optimus_support::program::functionsOf(code))
      numCommands += function->commands.size();
    numKernels += code.kernels.size();
    numProgramBytes += bytes.size();
    LDBG() << code.tables.size() << " tables of " << bytes.size() << " bytes, "
           << code.kernels.size() << " kernels, "
           << (isPlan                    ? "in no object"
               : !deviceKernels->empty() ? "in the images"
               : kernelsApart            ? "in another object"
                                         : "in this object");
  }

private:
  /// What a runtime would refuse never leaves the compiler. `commands` are of
  /// no use any more.
  std::future<Status>
  startCheck(std::shared_ptr<optimus_support::program::ProgramsT> programs,
             OwningOpRef<ModuleOp> commands) {
    using optimus_support::program::Checks;
    const bool hasThreads = getContext().isMultithreadingEnabled();
    return std::async(
        hasThreads ? std::launch::async : std::launch::deferred,
        [programs = std::move(programs), commands = std::move(commands),
         checks = isPlan ? Checks::ButOrder : Checks::All,
         verifies = check && check->verifiesCommands]() mutable -> Status {
          OPTRT_RETURN_IF_ERROR(
              optimus_support::program::check(*programs, checks));
          // A million commands take a while to free.
          programs.reset();
          for (auto function : commands->getOps<func::FuncOp>())
            if (verifies && failed(exec::verifyFunction(function)))
              return optimus_support::internal(
                  "a command breaks a rule of --optimus-verify-exec");
          commands = {};
          return optimus_support::okStatus();
        });
  }

  std::shared_ptr<const DeviceImages> images;
  std::shared_ptr<TableCheck> check;
};
} // namespace

std::unique_ptr<Pass>
mlir::optimus::createExecToLLVMPass(const ExecToLLVMPassOptions &options,
                                    std::shared_ptr<const DeviceImages> images,
                                    std::shared_ptr<TableCheck> check) {
  return std::make_unique<ExecToLLVM>(options, std::move(images),
                                      std::move(check));
}
