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

#include <functional>

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
  auto global =
      LLVM::GlobalOp::create(b, module.getLoc(), type,
                             /*isConstant=*/true, LLVM::Linkage::Internal, name,
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

namespace {
/// Writes the structures of model_abi.h.
class TableWriter {
public:
  TableWriter(ModuleOp module, const DeviceKernels &deviceKernels)
      : module(module), deviceKernels(deviceKernels), loc(module.getLoc()),
        ptr(LLVM::LLVMPointerType::get(module.getContext())),
        i32(IntegerType::get(module.getContext(), 32)),
        i64(IntegerType::get(module.getContext(), 64)) {}

  /// optimus_kernel kernels[]
  LLVM::GlobalOp createKernels(KernelList kernels) {
    SmallVector<StructFn> entries;
    for (const auto &kernel : kernels)
      entries.push_back(describeKernel(*kernel));
    return createArray("optimus.kernels", {ptr, ptr, i64, ptr, i32, i32},
                       entries);
  }

  /// optimus_image images[]
  LLVM::GlobalOp createImages(const DeviceImages &images) {
    SmallVector<StructFn> entries;
    for (const DeviceImage &image : images) {
      // Readers of PTX want a zero at its end, which its size does not count.
      LLVM::GlobalOp code =
          createBytes(module, "optimus.image." + image.architecture,
                      /*section=*/"", image.code + '\0');
      LLVM::GlobalOp name = createName(image.architecture);
      entries.push_back([this, &image, code, name](OpBuilder &b) {
        return SmallVector<Value>{getAddress(b, name), getAddress(b, code),
                                  integer(b, loc, 64, image.code.size())};
      });
    }
    return createArray("optimus.images", {ptr, ptr, i64}, entries);
  }

  Value getAddress(OpBuilder &b, LLVM::GlobalOp global) {
    return LLVM::AddressOfOp::create(b, loc, global);
  }

private:
  using StructFn = std::function<SmallVector<Value>(OpBuilder &)>;

  LLVM::GlobalOp createName(const std::string &name) {
    std::string symbol = "optimus.name." + name;
    if (auto known = module.lookupSymbol<LLVM::GlobalOp>(symbol))
      return known;
    return createBytes(module, symbol, /*section=*/"", name + '\0');
  }

  LLVM::GlobalOp createArray(StringRef name, ArrayRef<Type> members,
                             ArrayRef<StructFn> entries) {
    auto entry = LLVM::LLVMStructType::getLiteral(module.getContext(), members);
    auto type = LLVM::LLVMArrayType::get(entry, entries.size());
    return createConstant(module, name, type, [&](OpBuilder &b) {
      Value result = LLVM::UndefOp::create(b, loc, type);
      for (auto [i, getMembers] : llvm::enumerate(entries))
        result = LLVM::InsertValueOp::create(
            b, loc, result, buildStruct(b, loc, entry, getMembers(b)), i);
      return result;
    });
  }

  StructFn describeKernel(const optimus_support::program::KernelT &kernel) {
    LLVM::GlobalOp name = createName(kernel.name), deviceName;
    DeviceKernel device{};
    auto found = deviceKernels.find(kernel.name);
    bool isOfDevice = found != deviceKernels.end();
    if (isOfDevice) {
      device = found->second;
      deviceName = createName(device.name);
    }
    return [=, this, &kernel](OpBuilder &b) -> SmallVector<Value> {
      Value none = LLVM::ZeroOp::create(b, loc, ptr);
      Value run = none;
      if (!isOfDevice)
        run =
            LLVM::AddressOfOp::create(b, loc, ptr, getWrapperName(kernel.name));
      return {getAddress(b, name),
              run,
              integer(b, loc, 64,
                      static_cast<int64_t>(
                          optimus_support::program::signatureHash(kernel))),
              isOfDevice ? getAddress(b, deviceName) : none,
              integer(b, loc, 32, device.threads),
              integer(b, loc, 32, device.iterations)};
    };
  }

  ModuleOp module;
  const DeviceKernels &deviceKernels;
  Location loc;
  Type ptr, i32, i64;
};
} // namespace

void mlir::optimus::createModelQuery(ModuleOp module, StringRef manifest,
                                     StringRef programs, KernelList kernels,
                                     const DeviceKernels &deviceKernels,
                                     const DeviceImages &images) {
  MLIRContext *context = module.getContext();
  Location loc = module.getLoc();
  Type ptr = LLVM::LLVMPointerType::get(context);
  Type i32 = IntegerType::get(context, 32), i64 = IntegerType::get(context, 64);
  LLVM::GlobalOp text = createBytes(module, "optimus.manifest",
                                    OPTIMUS_MANIFEST_SECTION, manifest);
  LLVM::GlobalOp commands = createBytes(module, "optimus.programs",
                                        OPTIMUS_PROGRAMS_SECTION, programs);
  TableWriter writer(module, deviceKernels);
  LLVM::GlobalOp table = writer.createKernels(kernels);
  LLVM::GlobalOp code = writer.createImages(images);

  // optimus_model
  auto modelType = LLVM::LLVMStructType::getLiteral(
      context, {i32, ptr, i64, ptr, i64, i32, ptr, i32, ptr});
  LLVM::GlobalOp model =
      createConstant(module, "optimus.model", modelType, [&](OpBuilder &b) {
        return buildStruct(
            b, loc, modelType,
            {integer(b, loc, 32, OPTRT_ABI_VERSION), writer.getAddress(b, text),
             integer(b, loc, 64, manifest.size()),
             writer.getAddress(b, commands),
             integer(b, loc, 64, programs.size()),
             integer(b, loc, 32, kernels.size()), writer.getAddress(b, table),
             integer(b, loc, 32, images.size()), writer.getAddress(b, code)});
      });

  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto query = LLVM::LLVMFuncOp::create(
      b, loc, "optimus_model_query", LLVM::LLVMFunctionType::get(ptr, {i32}));
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
