//===- CodeGen.cpp - From kernels to PTX ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CUDA/CodeGen.h"

#include "optimus/Target/LLVMCode.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::internal;
using optimus_support::invalidArgument;
using optimus_support::StatusOr;

static llvm::Triple getDeviceTriple() {
  return llvm::Triple("nvptx64-nvidia-cuda");
}

static StatusOr<const llvm::Target *> lookupDeviceTarget() {
  auto target = lookupCodeGenerator(getDeviceTriple());
  if (!target)
    return optimus_support::unavailable(
        "LLVM has no code generator for NVIDIA's GPUs: " +
        llvm::toString(target.takeError()));
  return *target;
}

unsigned mlir::optimus::getArchitectureNumber(StringRef name) {
  unsigned number = 0;
  if (name.consume_front("sm_"))
    name.consumeInteger(10, number);
  return number;
}

StatusOr<std::vector<std::string>>
mlir::optimus::readCudaArchitectures(StringRef text) {
  OPTRT_ASSIGN_OR_RETURN(const llvm::Target *target, lookupDeviceTarget());
  std::unique_ptr<llvm::MCSubtargetInfo> known(
      target->createMCSubtargetInfo(getDeviceTriple(), "", ""));
  std::vector<std::string> result;
  for (StringRef name : llvm::split(text, ',')) {
    // What LLVM calls generic is no architecture.
    bool isKnown = name.starts_with("sm_") && known->isCPUStringValid(name);
    if (!isKnown && name != kEmulated)
      return invalidArgument(
          llvm::formatv("expected architectures as {0}, or {1}; found '{2}', "
                        "which LLVM does not know",
                        kCudaArchitectures, kEmulated, name)
              .str());
    if (isKnown && getArchitectureNumber(name) < kOldestArchitecture)
      return invalidArgument(
          llvm::formatv("expected sm_{0} or newer, whose tensor cores know "
                        "bf16; found '{1}'",
                        kOldestArchitecture, name)
              .str());
    if (!llvm::is_contained(result, name))
      result.push_back(name.str());
  }
  return result;
}

StringRef
mlir::optimus::getNewestArchitecture(ArrayRef<std::string> architectures) {
  return *llvm::max_element(architectures, [](StringRef a, StringRef b) {
    return getArchitectureNumber(a) < getArchitectureNumber(b);
  });
}

static StatusOr<LLVMCode> optimizeKernels(ModuleOp module,
                                          const std::string &architecture) {
  OPTRT_ASSIGN_OR_RETURN(const llvm::Target *target, lookupDeviceTarget());
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      getDeviceTriple(), architecture, "", llvm::TargetOptions(), std::nullopt,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return internal("LLVM cannot make code for " + architecture);
  OPTRT_ASSIGN_OR_RETURN(
      LLVMCode code,
      LLVMCode::translate(module, "optimus-kernels", std::move(machine)));
  code.optimize();
  return code;
}

StatusOr<std::string>
mlir::optimus::generateCudaIR(ModuleOp module,
                              const std::string &architecture) {
  OPTRT_ASSIGN_OR_RETURN(LLVMCode code, optimizeKernels(module, architecture));
  return code.print();
}

StatusOr<std::string>
mlir::optimus::generatePtx(ModuleOp module, const std::string &architecture) {
  OPTRT_ASSIGN_OR_RETURN(LLVMCode code, optimizeKernels(module, architecture));
  llvm::SmallString<0> ptx;
  llvm::raw_svector_ostream stream(ptx);
  OPTRT_RETURN_IF_ERROR(code.emit(llvm::CodeGenFileType::AssemblyFile, stream));
  return ptx.str().str();
}
