//===- ModelTable.cpp - Constants and the entry of a library ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Conversion.h"

#include "optimus-support/model_abi.h"

using namespace mlir;
using namespace mlir::optimus;

static LLVM::LLVMPointerType getPtr(MLIRContext *context) {
  return LLVM::LLVMPointerType::get(context);
}

LLVM::GlobalOp
mlir::optimus::createConstant(ModuleOp module, StringRef name, Type type,
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

Value mlir::optimus::buildStruct(OpBuilder &builder, Location loc,
                                 LLVM::LLVMStructType type,
                                 ArrayRef<Value> members) {
  Value result = LLVM::UndefOp::create(builder, loc, type);
  for (auto [i, member] : llvm::enumerate(members))
    result = LLVM::InsertValueOp::create(builder, loc, result, member, i);
  return result;
}

static Value integer(OpBuilder &b, Location loc, unsigned width,
                     int64_t value) {
  Type type = b.getIntegerType(width);
  return LLVM::ConstantOp::create(b, loc, type, b.getIntegerAttr(type, value));
}

LLVM::GlobalOp ModuleConstants::getString(StringRef text) {
  LLVM::GlobalOp &global = known[("string:" + text).str()];
  if (!global) {
    OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
    std::string bytes = (text + Twine('\0')).str();
    auto type = LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size());
    global = LLVM::GlobalOp::create(
        b, module.getLoc(), type, /*isConstant=*/true, LLVM::Linkage::Internal,
        ("optimus.name." + text).str(), b.getStringAttr(bytes));
  }
  return global;
}

LLVM::GlobalOp ModuleConstants::getStruct(
    StringRef prefix, ArrayRef<std::pair<unsigned, int64_t>> fields) {
  std::string key = prefix.str();
  for (auto [width, value] : fields)
    key += (":" + Twine(value)).str();
  LLVM::GlobalOp &global = known[key];
  if (!global) {
    MLIRContext *context = module.getContext();
    SmallVector<Type> types;
    for (auto [width, value] : fields)
      types.push_back(IntegerType::get(context, width));
    auto type = LLVM::LLVMStructType::getLiteral(context, types);
    std::string name =
        ("optimus." + prefix + "." + Twine(numDescriptors++)).str();
    global = createConstant(module, name, type, [&](OpBuilder &b) {
      SmallVector<Value> members;
      for (auto [width, value] : fields)
        members.push_back(integer(b, module.getLoc(), width, value));
      return buildStruct(b, module.getLoc(), type, members);
    });
  }
  return global;
}

LLVM::GlobalOp ModuleConstants::getLaunch(StringRef kernel, int64_t extent,
                                          int64_t grain) {
  LLVM::GlobalOp name = getString(kernel);
  std::string key = ("launch:" + kernel + ":" + Twine(extent) + ":" +
                     Twine(grain)).str();
  LLVM::GlobalOp &global = known[key];
  if (!global) {
    MLIRContext *context = module.getContext();
    Location loc = module.getLoc();
    Type i64 = IntegerType::get(context, 64);
    auto type =
        LLVM::LLVMStructType::getLiteral(context, {getPtr(context), i64, i64});
    std::string symbol = ("optimus.launch." + Twine(numDescriptors++)).str();
    global = createConstant(module, symbol, type, [&](OpBuilder &b) {
      return buildStruct(b, loc, type,
                         {LLVM::AddressOfOp::create(b, loc, name),
                          integer(b, loc, 64, extent),
                          integer(b, loc, 64, grain)});
    });
  }
  return global;
}

LLVM::GlobalOp mlir::optimus::getOrCreateApiGlobal(ModuleOp module) {
  constexpr StringLiteral name = "optimus.api";
  if (auto global = module.lookupSymbol<LLVM::GlobalOp>(name))
    return global;
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  auto global = LLVM::GlobalOp::create(
      b, module.getLoc(), getPtr(module.getContext()), /*isConstant=*/false,
      LLVM::Linkage::Internal, name, /*value=*/Attribute());
  b.createBlock(&global.getInitializerRegion());
  Value null = LLVM::ZeroOp::create(b, module.getLoc(), global.getType());
  LLVM::ReturnOp::create(b, module.getLoc(), null);
  return global;
}

void mlir::optimus::createModelQuery(
    ModuleOp module,
    ArrayRef<std::pair<std::string, LLVM::LLVMFuncOp>> functions,
    StringRef manifest) {
  MLIRContext *context = module.getContext();
  Location loc = module.getLoc();
  Type ptr = getPtr(context);
  Type i32 = IntegerType::get(context, 32), i64 = IntegerType::get(context, 64);
  ModuleConstants constants(module);

  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  auto text = LLVM::GlobalOp::create(
      b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), manifest.size()),
      /*isConstant=*/true, LLVM::Linkage::Internal, "optimus.manifest",
      b.getStringAttr(manifest));

  // optimus_function functions[]
  SmallVector<LLVM::GlobalOp> names;
  for (auto &[name, function] : functions) {
    // Not through ModuleConstants::getString: a kernel may share the name.
    std::string bytes = name + '\0';
    names.push_back(LLVM::GlobalOp::create(
        b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size()),
        /*isConstant=*/true, LLVM::Linkage::Internal, ("optimus.entry." + Twine(name)).str(),
        b.getStringAttr(bytes)));
  }
  auto entryType = LLVM::LLVMStructType::getLiteral(context, {ptr, ptr});
  auto tableType = LLVM::LLVMArrayType::get(entryType, functions.size());
  LLVM::GlobalOp table =
      createConstant(module, "optimus.functions", tableType, [&](OpBuilder &b) {
        Value result = LLVM::UndefOp::create(b, loc, tableType);
        for (auto [i, entry] : llvm::enumerate(functions)) {
          Value name = LLVM::AddressOfOp::create(b, loc, names[i]);
          Value run = LLVM::AddressOfOp::create(b, loc, entry.second);
          result = LLVM::InsertValueOp::create(
              b, loc, result, buildStruct(b, loc, entryType, {name, run}), i);
        }
        return result;
      });

  // optimus_model
  auto modelType =
      LLVM::LLVMStructType::getLiteral(context, {i32, ptr, i64, i32, ptr});
  LLVM::GlobalOp model =
      createConstant(module, "optimus.model", modelType, [&](OpBuilder &b) {
        return buildStruct(b, loc, modelType,
                           {integer(b, loc, 32, OPTRT_ABI_VERSION),
                            LLVM::AddressOfOp::create(b, loc, text),
                            integer(b, loc, 64, manifest.size()),
                            integer(b, loc, 32, functions.size()),
                            LLVM::AddressOfOp::create(b, loc, table)});
      });

  LLVM::GlobalOp api = getOrCreateApiGlobal(module);
  b.setInsertionPointToEnd(module.getBody());
  auto query = LLVM::LLVMFuncOp::create(
      b, loc, "optimus_model_query",
      LLVM::LLVMFunctionType::get(ptr, {i32, ptr}));
  Block *entry = query.addEntryBlock(b);
  Block *accept = b.createBlock(&query.getBody());
  Block *reject = b.createBlock(&query.getBody());
  b.setInsertionPointToEnd(entry);
  Value same = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq,
                                    entry->getArgument(0),
                                    integer(b, loc, 32, OPTRT_ABI_VERSION));
  LLVM::CondBrOp::create(b, loc, same, accept, reject);
  b.setInsertionPointToEnd(accept);
  LLVM::StoreOp::create(b, loc, entry->getArgument(1),
                        LLVM::AddressOfOp::create(b, loc, api));
  Value result = LLVM::AddressOfOp::create(b, loc, model);
  LLVM::ReturnOp::create(b, loc, result);
  b.setInsertionPointToEnd(reject);
  Value null = LLVM::ZeroOp::create(b, loc, ptr);
  LLVM::ReturnOp::create(b, loc, null);
}
