//===- EmulatedIntrinsics.cpp - What an emulator does for a GPU -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedIntrinsics.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"

using namespace mlir::optimus;
using llvm::StringRef;
using optimus_support::internal;
using optimus_support::Status;

static constexpr const char *kProduct = "optimus_emulated_product";
/// The product of a warp, whose result is a structure.
static constexpr StringRef kProductIntrinsic = "nvvm.mma.m16n8k16.row.col.bf16";
/// Matrices for a warp, whose result is one, too; and those transposed.
static constexpr const char *kMatrices = "optimus_emulated_matrices";
static constexpr StringRef kMatricesIntrinsics[] = {
    "nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3",
    "nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3"};
/// Copies, of so many bytes: all of them, or with a suffix some.
static constexpr const char *kCopy = "optimus_emulated_copy";
static constexpr std::pair<StringRef, int> kCopyIntrinsics[] = {
    {"nvvm.cp.async.ca.shared.global.4", 4},
    {"nvvm.cp.async.cg.shared.global.16", 16}};
static constexpr StringRef kOfSome = ".s";

/// What is called in place of an intrinsic.
static StringRef getEmulation(StringRef intrinsic) {
  static constexpr std::pair<StringRef, StringRef> known[] = {
      {"read.ptx.sreg.tid.x", "optimus_emulated_thread"},
      {"read.ptx.sreg.ctaid.x", "optimus_emulated_block"},
      {"read.ptx.sreg.nctaid.x", "optimus_emulated_num_blocks"},
      {"barrier.cta.sync.aligned.all", "optimus_emulated_barrier"},
      {"bar.warp.sync", "optimus_emulated_warp_barrier"},
      {"shfl.sync.bfly.i32", "optimus_emulated_shuffle"},
      {"shfl.sync.bfly.f32", "optimus_emulated_shuffle_float"},
      {"cp.async.commit.group", "optimus_emulated_copy_commit"},
      {"cp.async.wait.group", "optimus_emulated_copy_wait"},
      {"ex2.approx.ftz.f32", "optimus_emulated_exp2"},
  };
  for (auto [name, function] : known)
    if (name == intrinsic)
      return function;
  return "";
}

namespace {
class Intrinsics {
public:
  explicit Intrinsics(llvm::Module &module)
      : module(module), b(module.getContext()) {}

  Status run() {
    emulateProducts();
    emulateMatrices();
    emulateCopies();
    return emulateCalls();
  }

private:
  void emulateProducts();
  void emulateMatrices();
  void emulateCopies();
  /// Room on the stack of the function that makes a call, the same for all of
  /// its calls: stacks are small.
  llvm::Value *getRoom(llvm::CallInst &call, llvm::Type *type);
  /// Replaces a call, whose results are in memory.
  void replaceByLoads(llvm::CallInst &call, llvm::Value *results);
  Status emulateCalls();

  llvm::Module &module;
  llvm::IRBuilder<> b;
  llvm::DenseMap<std::pair<llvm::Function *, llvm::Type *>, llvm::Value *>
      rooms;
};
} // namespace

llvm::Value *Intrinsics::getRoom(llvm::CallInst &call, llvm::Type *type) {
  // A product's operands, the most that there are.
  constexpr unsigned kMost = 10;
  llvm::Value *&room = rooms[{call.getFunction(), type}];
  if (!room) {
    b.SetInsertPoint(&*call.getFunction()->getEntryBlock().begin());
    room = b.CreateAlloca(type, b.getInt32(kMost));
  }
  b.SetInsertPoint(&call);
  return room;
}

void Intrinsics::replaceByLoads(llvm::CallInst &call, llvm::Value *results) {
  auto *type = llvm::cast<llvm::StructType>(call.getType());
  llvm::Value *all = llvm::PoisonValue::get(type);
  for (auto [number, element] : llvm::enumerate(type->elements()))
    all = b.CreateInsertValue(
        all,
        b.CreateLoad(element, b.CreateConstGEP1_32(element, results, number)),
        number);
  call.replaceAllUsesWith(all);
  call.eraseFromParent();
}

/// Operands and result go through memory.
void Intrinsics::emulateProducts() {
  llvm::Function *intrinsic = module.getFunction(kProductIntrinsic);
  if (!intrinsic)
    return;
  llvm::FunctionCallee product = module.getOrInsertFunction(
      kProduct, b.getVoidTy(), b.getPtrTy(), b.getPtrTy());
  for (llvm::User *user : llvm::make_early_inc_range(intrinsic->users())) {
    auto *call = llvm::cast<llvm::CallInst>(user);
    llvm::Value *words = getRoom(*call, b.getInt32Ty());
    llvm::Value *result = getRoom(*call, b.getFloatTy());
    for (auto [number, word] : llvm::enumerate(call->args()))
      b.CreateStore(word, b.CreateConstGEP1_32(b.getInt32Ty(), words, number));
    b.CreateCall(product, {words, result});
    replaceByLoads(*call, result);
  }
  intrinsic->eraseFromParent();
}

void Intrinsics::emulateMatrices() {
  for (auto [isTransposed, name] : llvm::enumerate(kMatricesIntrinsics)) {
    llvm::Function *intrinsic = module.getFunction(name);
    if (!intrinsic)
      continue;
    llvm::FunctionCallee matrices = module.getOrInsertFunction(
        kMatrices, b.getVoidTy(), b.getPtrTy(), b.getInt32Ty(), b.getPtrTy());
    for (llvm::User *user : llvm::make_early_inc_range(intrinsic->users())) {
      auto *call = llvm::cast<llvm::CallInst>(user);
      llvm::Value *words = getRoom(*call, b.getInt32Ty());
      b.CreateCall(matrices,
                   {call->getArgOperand(0), b.getInt32(isTransposed), words});
      replaceByLoads(*call, words);
    }
    intrinsic->eraseFromParent();
  }
}

void Intrinsics::emulateCopies() {
  for (auto [name, bytes] : kCopyIntrinsics)
    for (bool isOfSome : {false, true}) {
      llvm::Function *intrinsic =
          module.getFunction(isOfSome ? (name + kOfSome).str() : name.str());
      if (!intrinsic)
        continue;
      llvm::FunctionCallee copy = module.getOrInsertFunction(
          kCopy, b.getVoidTy(), b.getPtrTy(), b.getPtrTy(), b.getInt32Ty(),
          b.getInt32Ty());
      for (llvm::User *user : llvm::make_early_inc_range(intrinsic->users())) {
        auto *call = llvm::cast<llvm::CallInst>(user);
        b.SetInsertPoint(call);
        b.CreateCall(copy,
                     {call->getArgOperand(0), call->getArgOperand(1),
                      b.getInt32(bytes),
                      isOfSome ? call->getArgOperand(2) : b.getInt32(bytes)});
        call->eraseFromParent();
      }
      intrinsic->eraseFromParent();
    }
}

Status Intrinsics::emulateCalls() {
  for (llvm::Function &function : module) {
    StringRef name = function.getName();
    if (!function.isDeclaration() || !name.consume_front(kEmulatedIntrinsic))
      continue;
    StringRef emulation = getEmulation(name);
    if (emulation.empty())
      return internal("there is no emulation of '" + name.str() + "'");
    function.setName(emulation);
    function.setAttributes({});
    for (llvm::User *user : function.users())
      llvm::cast<llvm::CallInst>(user)->setAttributes({});
  }
  return optimus_support::okStatus();
}

Status mlir::optimus::emulateIntrinsics(llvm::Module &module) {
  return Intrinsics(module).run();
}
