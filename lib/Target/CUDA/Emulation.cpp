//===- Emulation.cpp - Kernels of GPUs as code for the host -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CUDA/Emulation.h"

#include "EmulatedIntrinsics.h"

#include "optimus-support/emulator_abi.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir::optimus;
using llvm::StringRef;
using optimus_support::internal;
using optimus_support::Status;
using optimus_support::StatusOr;

static constexpr const char *kAccess = "optimus_emulated_access";
/// Of how many threads a block is.
static constexpr const char *kBlockThreads = "nvvm.reqntid";

//===----------------------------------------------------------------------===//
// The text
//===----------------------------------------------------------------------===//

static void replaceEach(std::string &text, StringRef from, StringRef to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
}

/// The text of a module for the host; `shared` are the names of what threads of
/// a block share.
static std::string toHostText(StringRef ir, std::vector<std::string> &shared) {
  std::string text;
  llvm::SmallVector<StringRef> lines;
  ir.split(lines, '\n');
  for (StringRef line : lines) {
    if (line.starts_with("target "))
      continue;
    if (line.starts_with("@") && line.contains(" addrspace(3) global"))
      shared.push_back(line.drop_front().split(" =").first.str());
    text += line.str() + "\n";
  }
  replaceEach(text, "addrspacecast", "bitcast");
  for (StringRef space : {" addrspace(1)", " addrspace(3)", " addrspace(4)"})
    replaceEach(text, space, "");
  // What is called so is no intrinsic.
  replaceEach(text, "@llvm.nvvm.", ("@" + kEmulatedIntrinsic).str());
  replaceEach(text, " immarg", "");
  replaceEach(text, "ptx_kernel ", "");
  return text;
}

//===----------------------------------------------------------------------===//
// The code
//===----------------------------------------------------------------------===//

namespace {
class HostModule {
public:
  HostModule(llvm::Module &module, const std::vector<std::string> &shared)
      : module(module), shared(shared), b(module.getContext()) {}

  Status run() {
    for (llvm::Function &function : module) {
      if (function.isDeclaration())
        continue;
      function.removeFnAttr("target-cpu");
      kernels.push_back(&function);
    }
    for (llvm::GlobalVariable &global : module.globals()) {
      globals.push_back(&global);
      if (isShared(global))
        global.setInitializer(
            llvm::Constant::getNullValue(global.getValueType()));
    }
    for (llvm::Function *kernel : kernels)
      announceAccesses(*kernel);
    // What these put on the stack is no access.
    OPTRT_RETURN_IF_ERROR(emulateIntrinsics(module));
    addNarrowing();
    return addTable();
  }

private:
  void announceAccesses(llvm::Function &function);
  void addNarrowing();
  StatusOr<llvm::Function *> addEntry(llvm::Function &kernel);
  Status addTable();

  bool isShared(const llvm::GlobalVariable &global) const {
    return llvm::is_contained(shared, global.getName());
  }
  llvm::Constant *getName(StringRef name) {
    return b.CreateGlobalString(name, "", 0, &module);
  }
  /// An array of structures of constants, or null where there are none.
  llvm::Constant *getArray(llvm::ArrayRef<llvm::Constant *> entries);

  llvm::Module &module;
  const std::vector<std::string> &shared;
  llvm::IRBuilder<> b;
  std::vector<llvm::Function *> kernels;
  std::vector<llvm::GlobalVariable *> globals;
};
} // namespace

/// Whether it reads an array among the parameters, which is no memory of the
/// device.
static bool isOfParameters(const llvm::Instruction &instruction) {
  auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
  auto *argument =
      load ? llvm::dyn_cast<llvm::Argument>(
                 llvm::getUnderlyingObject(load->getPointerOperand()))
           : nullptr;
  return argument && argument->hasByValAttr();
}

/// The words of eight bytes that a parameter has.
static uint32_t getNumWords(const llvm::Argument &parameter) {
  auto *array =
      parameter.hasByValAttr()
          ? llvm::dyn_cast<llvm::ArrayType>(parameter.getParamByValType())
          : nullptr;
  return array ? uint32_t(array->getNumElements()) : 1;
}

void HostModule::announceAccesses(llvm::Function &function) {
  const llvm::DataLayout &layout = module.getDataLayout();
  llvm::FunctionCallee access = module.getOrInsertFunction(
      kAccess, b.getVoidTy(), b.getPtrTy(), b.getInt64Ty(), b.getInt32Ty(),
      b.getInt64Ty());
  auto insert = [&](llvm::Instruction *at, llvm::Value *address,
                    llvm::Value *bytes, bool isWrite, uint64_t alignment) {
    b.SetInsertPoint(at);
    b.CreateCall(access,
                 {address, bytes, b.getInt32(isWrite), b.getInt64(alignment)});
  };
  auto size = [&](llvm::Type *type) {
    return b.getInt64(layout.getTypeStoreSize(type));
  };
  for (llvm::Instruction &instruction :
       llvm::make_early_inc_range(llvm::instructions(function))) {
    if (isOfParameters(instruction))
      continue;
    if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction))
      insert(load, load->getPointerOperand(), size(load->getType()), false,
             load->getAlign().value());
    else if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
      insert(store, store->getPointerOperand(),
             size(store->getValueOperand()->getType()), true,
             store->getAlign().value());
    else if (auto *fill = llvm::dyn_cast<llvm::MemIntrinsic>(&instruction)) {
      insert(fill, fill->getRawDest(), fill->getLength(), true, 1);
      if (auto *copy = llvm::dyn_cast<llvm::MemTransferInst>(fill))
        insert(fill, copy->getRawSource(), copy->getLength(), false, 1);
    }
  }
}

/// Processors without bf16 leave rounding to it to a function, which an image
/// has none to import.
void HostModule::addNarrowing() {
  llvm::Type *narrow = b.getBFloatTy();
  auto *function = llvm::Function::Create(
      llvm::FunctionType::get(narrow, {b.getFloatTy()}, false),
      llvm::Function::ExternalLinkage, "__truncsfbf2", module);
  function->setVisibility(llvm::GlobalValue::HiddenVisibility);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", function));
  llvm::Value *value = function->getArg(0);
  llvm::Value *bits = b.CreateBitCast(value, b.getInt32Ty());
  llvm::Value *high = b.CreateLShr(bits, 16);
  llvm::Value *nan = b.CreateOr(high, 0x40);
  // To the nearest, and of two of them to the even one.
  llvm::Value *rounded =
      b.CreateAdd(b.CreateAdd(bits, b.getInt32(0x7FFF)), b.CreateAnd(high, 1));
  llvm::Value *result = b.CreateSelect(b.CreateFCmpUNO(value, value), nan,
                                       b.CreateLShr(rounded, 16));
  b.CreateRet(b.CreateBitCast(b.CreateTrunc(result, b.getInt16Ty()), narrow));
}

/// void run(ptr parameters): calls the kernel with what the addresses have.
StatusOr<llvm::Function *> HostModule::addEntry(llvm::Function &kernel) {
  auto *entry = llvm::Function::Create(
      llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false),
      llvm::Function::InternalLinkage, "run." + kernel.getName(), module);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", entry));
  std::vector<llvm::Value *> args;
  for (llvm::Argument &argument : kernel.args()) {
    llvm::Type *type = argument.getType();
    if (!type->isPointerTy() && !type->isIntegerTy(64))
      return internal(kernel.getName().str() +
                      " has a parameter that is no pointer and no i64");
    llvm::Value *address = b.CreateLoad(
        b.getPtrTy(), b.CreateConstGEP1_64(b.getPtrTy(), entry->getArg(0),
                                           argument.getArgNo()));
    // What is given by value has its words one after the other.
    args.push_back(argument.hasByValAttr() ? address
                                           : b.CreateLoad(type, address));
    argument.removeAttr(llvm::Attribute::ByVal);
  }
  b.CreateCall(&kernel, args);
  b.CreateRetVoid();
  return entry;
}

llvm::Constant *HostModule::getArray(llvm::ArrayRef<llvm::Constant *> entries) {
  if (entries.empty())
    return llvm::Constant::getNullValue(b.getPtrTy());
  auto *type = llvm::ArrayType::get(entries.front()->getType(), entries.size());
  return new llvm::GlobalVariable(module, type, /*isConstant=*/true,
                                  llvm::GlobalValue::InternalLinkage,
                                  llvm::ConstantArray::get(type, entries));
}

Status HostModule::addTable() {
  std::vector<llvm::Constant *> kernelList, globalList;
  for (llvm::Function *kernel : kernels) {
    uint32_t threads = 0;
    if (kernel->getFnAttribute(kBlockThreads)
            .getValueAsString()
            .getAsInteger(10, threads))
      return internal(kernel->getName().str() + " has no '" + kBlockThreads +
                      "'");
    uint32_t words = 0;
    for (const llvm::Argument &parameter : kernel->args())
      words += getNumWords(parameter);
    OPTRT_ASSIGN_OR_RETURN(llvm::Function * entry, addEntry(*kernel));
    kernelList.push_back(llvm::ConstantStruct::getAnon(
        {getName(kernel->getName()), entry, b.getInt32(words),
         b.getInt32(threads)}));
    kernel->setLinkage(llvm::GlobalValue::InternalLinkage);
  }
  for (llvm::GlobalVariable *global : globals) {
    uint64_t bytes =
        module.getDataLayout().getTypeStoreSize(global->getValueType());
    globalList.push_back(llvm::ConstantStruct::getAnon(
        {getName(global->getName()), global, b.getInt64(bytes),
         b.getInt64(isShared(*global))}));
    global->setLinkage(llvm::GlobalValue::InternalLinkage);
  }
  auto *code =
      llvm::ConstantStruct::getAnon({getArray(kernelList), getArray(globalList),
                                     b.getInt32(uint32_t(kernelList.size())),
                                     b.getInt32(uint32_t(globalList.size()))});
  new llvm::GlobalVariable(module, code->getType(), /*isConstant=*/true,
                           llvm::GlobalValue::ExternalLinkage, code,
                           "optimus_emulated_image");
  return optimus_support::okStatus();
}

StatusOr<std::unique_ptr<llvm::Module>>
mlir::optimus::emulateCudaCode(StringRef ir, llvm::LLVMContext &context,
                               const llvm::TargetMachine &host) {
  std::vector<std::string> shared;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module =
      llvm::parseAssemblyString(toHostText(ir, shared), diagnostic, context);
  if (!module)
    return internal(llvm::formatv("line {0} of the IR for the host: {1}",
                                  diagnostic.getLineNo(),
                                  diagnostic.getMessage())
                        .str());
  module->setModuleIdentifier("optimus-emulated");
  module->setTargetTriple(host.getTargetTriple());
  module->setDataLayout(host.createDataLayout());
  OPTRT_RETURN_IF_ERROR(HostModule(*module, shared).run());
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(*module, &stream))
    return internal("the IR for the host is invalid: " + problems);
  return module;
}
