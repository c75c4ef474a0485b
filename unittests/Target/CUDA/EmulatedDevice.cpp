//===- EmulatedDevice.cpp - Runs kernels for GPUs on the host * -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedDevice.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"

#include <cstring>

using namespace mlir::optimus::emulator;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// What a kernel calls
//===----------------------------------------------------------------------===//

static int32_t readThread() { return EmulatedBlock::getCurrent().getThread(); }
static int32_t readBlock() {
  return EmulatedBlock::getCurrent().getBlockIndex();
}
static int32_t readNumBlocks() {
  return EmulatedBlock::getCurrent().getNumBlocks();
}
static void comeTogether(int32_t) {
  EmulatedBlock::getCurrent().waitForBlock();
}
static void comeTogetherInWarp(int32_t mask) {
  EmulatedBlock::getCurrent().waitForWarp(mask);
}
static int32_t shuffleInteger(int32_t mask, int32_t value, int32_t bits,
                              int32_t clamp) {
  return EmulatedBlock::getCurrent().exchange(mask, value, bits, clamp);
}
static float shuffleFloat(int32_t mask, float value, int32_t bits,
                          int32_t clamp) {
  return llvm::bit_cast<float>(EmulatedBlock::getCurrent().exchange(
      mask, llvm::bit_cast<uint32_t>(value), bits, clamp));
}
static void checkAccess(const void *address, int64_t bytes, int32_t isWrite,
                        int64_t alignment) {
  EmulatedBlock::getCurrent().access(address, bytes, isWrite, alignment);
}
#ifdef __x86_64__
// Processors without bf16 leave this to a function; its result is in xmm0.
static float narrowToBFloat16(float value) {
  uint32_t bits = llvm::bit_cast<uint32_t>(value);
  bool isNan = value != value;
  bits = isNan ? bits >> 16 | 0x40 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return llvm::bit_cast<float>(bits);
}
#endif

namespace {
struct Function {
  const char *name;
  void *address;
};
} // namespace

template <typename FunctionT>
static void *addressOf(FunctionT *function) {
  return reinterpret_cast<void *>(function);
}

static const char *const kCheckAccess = "emulated.access";

static std::vector<Function> getFunctions() {
  return {
      {"nvvm.read.ptx.sreg.tid.x", addressOf(readThread)},
      {"nvvm.read.ptx.sreg.ctaid.x", addressOf(readBlock)},
      {"nvvm.read.ptx.sreg.nctaid.x", addressOf(readNumBlocks)},
      {"nvvm.barrier.cta.sync.aligned.all", addressOf(comeTogether)},
      {"nvvm.bar.warp.sync", addressOf(comeTogetherInWarp)},
      {"nvvm.shfl.sync.bfly.i32", addressOf(shuffleInteger)},
      {"nvvm.shfl.sync.bfly.f32", addressOf(shuffleFloat)},
      {kCheckAccess, addressOf(checkAccess)},
#ifdef __x86_64__
      {"__truncsfbf2", addressOf(narrowToBFloat16)},
#endif
  };
}

//===----------------------------------------------------------------------===//
// The code
//===----------------------------------------------------------------------===//

static void replaceAll(std::string &text, StringRef from, StringRef to) {
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
  replaceAll(text, "addrspacecast", "bitcast");
  replaceAll(text, " addrspace(3)", "");
  replaceAll(text, "@llvm.nvvm.", "@nvvm.");
  replaceAll(text, " immarg", "");
  replaceAll(text, "ptx_kernel ", "");
  return text;
}

/// Calls checkAccess before everything that touches memory.
static void insertChecks(llvm::Module &module) {
  llvm::LLVMContext &context = module.getContext();
  llvm::IRBuilder<> b(context);
  const llvm::DataLayout &layout = module.getDataLayout();
  llvm::FunctionCallee check = module.getOrInsertFunction(
      kCheckAccess, b.getVoidTy(), b.getPtrTy(), b.getInt64Ty(), b.getInt32Ty(),
      b.getInt64Ty());
  auto insert = [&](llvm::Instruction *at, llvm::Value *address,
                    llvm::Value *bytes, bool isWrite, uint64_t alignment) {
    b.SetInsertPoint(at);
    b.CreateCall(check,
                 {address, bytes, b.getInt32(isWrite), b.getInt64(alignment)});
  };
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction :
         llvm::make_early_inc_range(llvm::instructions(function))) {
      auto size = [&](llvm::Type *type) {
        return b.getInt64(layout.getTypeStoreSize(type));
      };
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

static std::string getEntryName(StringRef kernel) {
  return ("emulated.run." + kernel).str();
}

/// void run(ptr args): calls the kernel with what the words of args hold.
static void addEntry(llvm::Function &kernel) {
  llvm::Module &module = *kernel.getParent();
  llvm::IRBuilder<> b(module.getContext());
  auto *entry = llvm::Function::Create(
      llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false),
      llvm::Function::ExternalLinkage, getEntryName(kernel.getName()), module);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", entry));
  std::vector<llvm::Value *> args;
  for (llvm::Argument &argument : kernel.args())
    args.push_back(
        b.CreateLoad(argument.getType(),
                     b.CreateConstGEP1_64(b.getInt64Ty(), entry->getArg(0),
                                          argument.getArgNo())));
  b.CreateCall(&kernel, args);
  b.CreateRetVoid();
}

template <typename... Args>
static llvm::Error makeError(const char *format, Args &&...args) {
  return llvm::createStringError(
      llvm::formatv(format, std::forward<Args>(args)...).str());
}

/// What the host's compiler is given.
static llvm::Error toHostModule(llvm::Module &module,
                                const std::vector<std::string> &shared) {
  std::vector<Function> known = getFunctions();
  std::vector<llvm::Function *> kernels;
  for (llvm::Function &function : module) {
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
    if (!function.isDeclaration()) {
      kernels.push_back(&function);
      continue;
    }
    if (!function.getName().starts_with("nvvm."))
      continue;
    if (llvm::none_of(known, [&](const Function &other) {
          return function.getName() == other.name;
        }))
      return makeError("there is no emulation of '{0}'", function.getName());
    function.setAttributes({});
    for (llvm::User *user : function.users())
      llvm::cast<llvm::CallInst>(user)->setAttributes({});
  }
  for (llvm::GlobalVariable &global : module.globals()) {
    global.setLinkage(llvm::GlobalValue::ExternalLinkage);
    if (llvm::is_contained(shared, global.getName()))
      global.setInitializer(
          llvm::Constant::getNullValue(global.getValueType()));
  }
  insertChecks(module);
  for (llvm::Function *kernel : kernels)
    addEntry(*kernel);
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(module, &stream))
    return makeError("the IR for the host is invalid: {0}", problems);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

EmulatedDevice::EmulatedDevice() = default;
EmulatedDevice::~EmulatedDevice() = default;

llvm::Expected<std::unique_ptr<EmulatedDevice>>
EmulatedDevice::create(const std::string &ir) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<llvm::LLVMContext>();
  std::vector<std::string> shared;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module =
      llvm::parseAssemblyString(toHostText(ir, shared), diagnostic, *context);
  if (!module)
    return makeError("line {0} of the IR: {1}", diagnostic.getLineNo(),
                     diagnostic.getMessage());

  std::unique_ptr<EmulatedDevice> device(new EmulatedDevice());
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  device->jit = std::move(*jit);
  llvm::orc::LLJIT &compiler = *device->jit;
  module->setTargetTriple(compiler.getTargetTriple());
  module->setDataLayout(compiler.getDataLayout());
  if (llvm::Error error = toHostModule(*module, shared))
    return error;

  struct Global {
    std::string name;
    size_t bytes;
    bool isShared;
  };
  std::vector<Global> globals;
  for (llvm::GlobalVariable &global : module->globals())
    globals.push_back(
        {global.getName().str(),
         module->getDataLayout().getTypeStoreSize(global.getValueType()),
         llvm::is_contained(shared, global.getName())});
  llvm::orc::SymbolMap symbols;
  for (const Function &function : getFunctions())
    symbols[compiler.mangleAndIntern(function.name)] = {
        llvm::orc::ExecutorAddr::fromPtr(function.address),
        llvm::JITSymbolFlags::Exported};
  if (llvm::Error error = compiler.getMainJITDylib().define(
          llvm::orc::absoluteSymbols(std::move(symbols))))
    return error;
  if (llvm::Error error = compiler.addIRModule(
          llvm::orc::ThreadSafeModule(std::move(module), std::move(context))))
    return error;
  for (const Global &global : globals) {
    auto address = compiler.lookup(global.name);
    if (!address)
      return address.takeError();
    void *begin = address->toPtr<void *>();
    if (global.isShared)
      device->memory.addShared(global.name, begin, global.bytes);
    else
      device->memory.addTable(global.name, begin, global.bytes);
  }
  return device;
}

std::string EmulatedDevice::run(const EmulatedLaunch &launch, Order order) {
  auto entry = jit->lookup(getEntryName(launch.kernel));
  if (!entry)
    return llvm::toString(entry.takeError());
  auto *kernel = entry->toPtr<void (*)(const void *)>();
  std::vector<int64_t> args{launch.iterations};
  memory.reset();
  for (const EmulatedLaunch::Buffer &buffer : launch.buffers) {
    args.push_back(reinterpret_cast<intptr_t>(buffer.begin));
    memory.addBuffer(buffer.name, buffer.begin, buffer.bytes, buffer.isWritten);
  }
  args.insert(args.end(), launch.scalars.begin(), launch.scalars.end());
  for (int32_t number = 0; number < launch.blocks; ++number)
    if (std::string problem = block.run(number, launch.blocks, launch.threads,
                                        order, [&] { kernel(args.data()); });
        !problem.empty())
      return launch.kernel + ": " + problem;
  return "";
}
