//===- CodeGen.cpp - From kernels to PTX ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CUDA/CodeGen.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::internal;
using optimus_support::invalidArgument;
using optimus_support::StatusOr;

// The packaged LLVM exports these, whatever the host's target is.
extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

static llvm::Triple getDeviceTriple() {
  return llvm::Triple("nvptx64-nvidia-cuda");
}

static StatusOr<const llvm::Target *> lookupDeviceTarget() {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(getDeviceTriple(), message);
  if (!target)
    return optimus_support::unavailable(
        "LLVM has no code generator for NVIDIA's GPUs: " + message);
  return target;
}

StatusOr<std::vector<std::string>>
mlir::optimus::readCudaArchitectures(StringRef text) {
  OPTRT_ASSIGN_OR_RETURN(const llvm::Target *target, lookupDeviceTarget());
  std::unique_ptr<llvm::MCSubtargetInfo> known(
      target->createMCSubtargetInfo(getDeviceTriple(), "", ""));
  std::vector<std::string> result;
  for (StringRef name : llvm::split(text, ',')) {
    // What LLVM calls generic is no architecture.
    if (!name.starts_with("sm_") || !known->isCPUStringValid(name))
      return invalidArgument(
          llvm::formatv("expected architectures as {0}, found '{1}', which "
                        "LLVM does not know",
                        kCudaArchitectures, name)
              .str());
    if (!llvm::is_contained(result, name))
      result.push_back(name.str());
  }
  return result;
}

static void optimizeForDevice(llvm::Module &module,
                              llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, modules);
}

StatusOr<CudaCode>
mlir::optimus::generateCudaCode(ModuleOp module,
                                const std::string &architecture) {
  MLIRContext *context = module.getContext();
  registerBuiltinDialectTranslation(*context);
  registerLLVMDialectTranslation(*context);
  registerNVVMDialectTranslation(*context);
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, llvmContext, "optimus-kernels");
  if (!code)
    return internal("the kernels cannot be translated to LLVM IR");
  OPTRT_ASSIGN_OR_RETURN(const llvm::Target *target, lookupDeviceTarget());
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      getDeviceTriple(), architecture, "", llvm::TargetOptions(), std::nullopt,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return internal("LLVM cannot make code for " + architecture);
  code->setTargetTriple(getDeviceTriple());
  code->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *code)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", architecture);
      function.addFnAttr(llvm::Attribute::NoUnwind);
    }
  std::string problems;
  llvm::raw_string_ostream problemStream(problems);
  if (llvm::verifyModule(*code, &problemStream))
    return internal("the LLVM IR of the kernels is invalid: " + problems);
  optimizeForDevice(*code, *machine);

  CudaCode result;
  llvm::raw_string_ostream(result.ir) << *code;
  llvm::SmallString<0> ptx;
  llvm::raw_svector_ostream stream(ptx);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return internal("LLVM cannot write PTX");
  passes.run(*code);
  result.ptx = ptx.str().str();
  return result;
}
