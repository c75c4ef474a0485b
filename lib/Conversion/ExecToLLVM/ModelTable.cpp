//===- ModelTable.cpp - What a library exports ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Conversion.h"

#include "optimus-support/ProgramKernels.h"
#include "optimus-support/model_abi.h"

using namespace mlir;
using namespace mlir::optimus;

static Value integer(OpBuilder &b, Location loc, unsigned width,
                     int64_t value) {
  Type type = b.getIntegerType(width);
  return LLVM::ConstantOp::create(b, loc, type, b.getIntegerAttr(type, value));
}

/// A constant of the module whose value `initialize` builds and returns.
static LLVM::GlobalOp
createConstant(ModuleOp module, StringRef name, Type type,
               function_ref<Value(OpBuilder &)> initialize) {
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  auto global = LLVM::GlobalOp::create(b, module.getLoc(), type,
                                       /*isConstant=*/true,
                                       LLVM::Linkage::Internal, name,
                                       /*value=*/Attribute());
  b.createBlock(&global.getInitializerRegion());
  LLVM::ReturnOp::create(b, module.getLoc(), initialize(b));
  return global;
}

/// A struct value with these members.
static Value buildStruct(OpBuilder &builder, Location loc,
                         LLVM::LLVMStructType type, ArrayRef<Value> members) {
  Value result = LLVM::UndefOp::create(builder, loc, type);
  for (auto [i, member] : llvm::enumerate(members))
    result = LLVM::InsertValueOp::create(builder, loc, result, member, i);
  return result;
}

/// Bytes in a section of their own, where tools find them without running
/// anything.
static LLVM::GlobalOp createBytes(ModuleOp module, StringRef name,
                                  StringRef section, StringRef bytes) {
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  auto global = LLVM::GlobalOp::create(
      b, module.getLoc(), LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size()),
      /*isConstant=*/true, LLVM::Linkage::Internal, name,
      b.getStringAttr(bytes));
  global.setAlignment(64);
  if (!section.empty())
    global.setSection(section);
  return global;
}

void mlir::optimus::createModelQuery(
    ModuleOp module, StringRef manifest, StringRef programs,
    const optimus_support::program::TargetT &target) {
  const auto &kernels = target.kernels;
  MLIRContext *context = module.getContext();
  Location loc = module.getLoc();
  Type ptr = LLVM::LLVMPointerType::get(context);
  Type i32 = IntegerType::get(context, 32), i64 = IntegerType::get(context, 64);
  LLVM::GlobalOp text = createBytes(module, "optimus.manifest",
                                    OPTIMUS_MANIFEST_SECTION, manifest);
  LLVM::GlobalOp commands = createBytes(module, "optimus.programs",
                                        OPTIMUS_PROGRAMS_SECTION, programs);

  // optimus_kernel kernels[]
  SmallVector<LLVM::GlobalOp> names;
  for (const auto &kernel : kernels)
    names.push_back(createBytes(module, "optimus.name." + kernel->name,
                                /*section=*/"", kernel->name + '\0'));
  auto entryType = LLVM::LLVMStructType::getLiteral(
      context, {ptr, ptr, i64, ptr, i32, i32});
  auto tableType = LLVM::LLVMArrayType::get(entryType, kernels.size());
  LLVM::GlobalOp table =
      createConstant(module, "optimus.kernels", tableType, [&](OpBuilder &b) {
        Value result = LLVM::UndefOp::create(b, loc, tableType);
        Value noName = LLVM::ZeroOp::create(b, loc, ptr);
        Value none = integer(b, loc, 32, 0);
        for (auto [i, kernel] : llvm::enumerate(kernels)) {
          Value name = LLVM::AddressOfOp::create(b, loc, names[i]);
          Value run =
              LLVM::AddressOfOp::create(b, loc, ptr, getWrapperName(kernel->name));
          Value signature = integer(
              b, loc, 64,
              static_cast<int64_t>(
                  optimus_support::program::signatureHash(*kernel)));
          result = LLVM::InsertValueOp::create(
              b, loc, result,
              buildStruct(b, loc, entryType,
                          {name, run, signature, noName, none, none}),
              i);
        }
        return result;
      });

  // optimus_model
  auto modelType = LLVM::LLVMStructType::getLiteral(
      context, {i32, ptr, i64, ptr, i64, i32, ptr, i32, ptr});
  LLVM::GlobalOp model =
      createConstant(module, "optimus.model", modelType, [&](OpBuilder &b) {
        return buildStruct(b, loc, modelType,
                           {integer(b, loc, 32, OPTRT_ABI_VERSION),
                            LLVM::AddressOfOp::create(b, loc, text),
                            integer(b, loc, 64, manifest.size()),
                            LLVM::AddressOfOp::create(b, loc, commands),
                            integer(b, loc, 64, programs.size()),
                            integer(b, loc, 32, kernels.size()),
                            LLVM::AddressOfOp::create(b, loc, table),
                            integer(b, loc, 32, 0),
                            LLVM::ZeroOp::create(b, loc, ptr)});
      });

  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto query =
      LLVM::LLVMFuncOp::create(b, loc, "optimus_model_query",
                               LLVM::LLVMFunctionType::get(ptr, {i32}));
  Block *entry = query.addEntryBlock(b);
  b.setInsertionPointToEnd(entry);
  Value same = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq,
                                    entry->getArgument(0),
                                    integer(b, loc, 32, OPTRT_ABI_VERSION));
  Value found = LLVM::AddressOfOp::create(b, loc, model);
  Value none = LLVM::ZeroOp::create(b, loc, ptr);
  Value result = LLVM::SelectOp::create(b, loc, same, found, none);
  LLVM::ReturnOp::create(b, loc, result);
}
