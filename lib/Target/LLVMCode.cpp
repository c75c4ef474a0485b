//===- LLVMCode.cpp - LLVM IR for one kind of machine -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/LLVMCode.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

#include <mutex>

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::internal;
using optimus_support::Status;
using optimus_support::StatusOr;

// The packaged LLVM exports these, whatever the host's target is.
extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

/// Adds a triple's code generator to LLVM's list, some with all others.
static void addCodeGenerators(const llvm::Triple &triple) {
  if (triple == llvm::Triple(llvm::sys::getDefaultTargetTriple())) {
    [[maybe_unused]] static const bool isKnown =
        !llvm::InitializeNativeTarget() &&
        !llvm::InitializeNativeTargetAsmPrinter();
  } else if (triple.isNVPTX()) {
    [[maybe_unused]] static const bool isKnown = [] {
      LLVMInitializeNVPTXTargetInfo();
      LLVMInitializeNVPTXTarget();
      LLVMInitializeNVPTXTargetMC();
      LLVMInitializeNVPTXAsmPrinter();
      return true;
    }();
  } else {
    [[maybe_unused]] static const bool areKnown = [] {
      llvm::InitializeAllTargetInfos();
      llvm::InitializeAllTargets();
      llvm::InitializeAllTargetMCs();
      llvm::InitializeAllAsmPrinters();
      return true;
    }();
  }
}

llvm::Expected<const llvm::Target *>
mlir::optimus::lookupCodeGenerator(const llvm::Triple &triple) {
  static std::mutex mutex;
  std::lock_guard guard(mutex);
  addCodeGenerators(triple);
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return llvm::createStringError(message);
  return target;
}

static void setAttributes(llvm::Module &module,
                          const llvm::TargetMachine &machine) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    if (StringRef features = machine.getTargetFeatureString();
        !features.empty())
      function.addFnAttr("target-features", features);
    // Else LLVM keeps to half of what AVX-512 has.
    if (machine.getTargetTriple().isX86())
      function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

StatusOr<LLVMCode>
LLVMCode::create(std::unique_ptr<llvm::LLVMContext> context,
                 std::unique_ptr<llvm::Module> module,
                 std::unique_ptr<llvm::TargetMachine> machine) {
  LLVMCode code;
  code.context = std::move(context);
  code.module = std::move(module);
  code.machine = std::move(machine);
  code.module->setTargetTriple(code.machine->getTargetTriple());
  code.module->setDataLayout(code.machine->createDataLayout());
  setAttributes(*code.module, *code.machine);
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(*code.module, &stream))
    return internal("the LLVM IR of " + code.module->getName().str() +
                    " is invalid: " + problems);
  return code;
}

StatusOr<LLVMCode>
LLVMCode::translate(ModuleOp module, StringRef name,
                    std::unique_ptr<llvm::TargetMachine> machine) {
  MLIRContext *context = module.getContext();
  registerBuiltinDialectTranslation(*context);
  registerLLVMDialectTranslation(*context);
  registerNVVMDialectTranslation(*context);
  auto llvmContext = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, *llvmContext, name);
  if (!code)
    return internal(name.str() + " cannot be translated to LLVM IR");
  return create(std::move(llvmContext), std::move(code), std::move(machine));
}

void LLVMCode::optimize() {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(*module, modules);
}

std::string LLVMCode::print() const {
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

Status LLVMCode::emit(llvm::CodeGenFileType type,
                      llvm::raw_pwrite_stream &stream) {
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, type))
    return internal("LLVM cannot write such files for " +
                    machine->getTargetTriple().str());
  passes.run(*module);
  return optimus_support::okStatus();
}
