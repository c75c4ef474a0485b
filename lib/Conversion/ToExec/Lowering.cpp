//===- Lowering.cpp - What the lowering of every operation uses -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "optimus/Dialect/Exec/IR/WeightBlocks.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Kernels/ElementwiseKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::optimus;

int64_t mlir::optimus::getNumElements(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getNumElements();
}

int64_t mlir::optimus::getLastDim(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape().back();
}

int64_t mlir::optimus::getNumRows(Value tensor) {
  return getNumElements(tensor) / getLastDim(tensor);
}

Value Lowering::getBufferAt(int64_t index) {
  if (!values[index]) {
    const Buffer &buffer = assignment.getBuffers()[index];
    assert(buffer.kind == Buffer::Allocated && "arguments are there at first");
    values[index] =
        allocate(buffer.type, buffer.category, /*name=*/StringAttr(),
                 builder.getStrArrayAttr(SmallVector<StringRef>(
                     buffer.values.begin(), buffer.values.end())));
  }
  return values[index];
}

Value Lowering::allocate(MemRefType type, StringRef category, StringAttr name,
                         ArrayAttr values) {
  int64_t alignment = target.getBufferAlignment();
  return exec::AllocOp::create(builder, location, type,
                               builder.getStringAttr(category), name, values,
                               alignment == exec::kLeastAlignment
                                   ? IntegerAttr()
                                   : builder.getI64IntegerAttr(alignment));
}

Value Lowering::allocateWorkspace(int64_t extent, Type elementType,
                                  StringRef name, StringRef value) {
  return allocate(MemRefType::get({extent}, elementType), "workspace",
                  builder.getStringAttr(name),
                  value.empty() ? ArrayAttr() : builder.getStrArrayAttr(value));
}

Value Lowering::slice(Value buffer, int64_t offset, int64_t extent) {
  auto type = cast<MemRefType>(buffer.getType());
  if (offset == 0 && extent == type.getNumElements())
    return buffer;
  return exec::SliceOp::create(builder, location,
                               MemRefType::get({extent}, type.getElementType()),
                               buffer, offset);
}

/// Whether a weight is read once by a product of few tokens: packing it would
/// move three times the bytes.
static bool isForFewRows(const Gemm &gemm) {
  constexpr int64_t kFewRows = 16;
  auto argument = dyn_cast<BlockArgument>(gemm.b.buffer);
  auto function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
               : func::FuncOp();
  return gemm.m <= kFewRows && function &&
         llvm::is_contained(kGenerationKinds, getEntryKind(function));
}

void Lowering::setB(Gemm &gemm, Value tensor, int64_t ld) {
  Value parameter = weights.getParameter(tensor);
  gemm.b = {getBuffer(parameter ? parameter : tensor), ld};
  gemm.isWeightB = parameter != nullptr;
  gemm.blocks = weights.getBlocks(tensor);
}

Value Lowering::getBlocks(exec::Blocks blocks, Value parameter, int64_t k,
                          int64_t n, int64_t ld, bool trans) {
  const optimus_support::BlockLayout layout =
      exec::getBlockLayout(blocks, k, n);
  return pack({n, k, ld, trans, blocks, /*packed=*/{}}, parameter,
              MemRefType::get({layout.words().get().value_or(0)},
                              builder.getI32Type()));
}

Value Lowering::getPacked(const Gemm &gemm) {
  if (!gemm.isWeightB)
    return nullptr;
  if (gemm.blocks != exec::Blocks::None)
    return getBlocks(gemm.blocks, gemm.b.buffer, gemm.k, gemm.n, gemm.b.ld,
                     gemm.transB);
  // What is packed is f32; a frozen parameter may be narrower.
  if (isForFewRows(gemm) || !getElementTypeOrSelf(gemm.b.buffer).isF32())
    return nullptr;
  bool isDense =
      gemm.a.ld == (gemm.transA ? gemm.m : gemm.k) && gemm.c.ld == gemm.n;
  bool adds = gemm.bias || gemm.epilogue == exec::Epilogue::Add;
  std::optional<int64_t> elements = target.getPackedElements(
      {gemm.m, gemm.n, gemm.k, gemm.transA, gemm.transB, adds, isDense},
      processor);
  if (!elements)
    return nullptr;
  return pack({gemm.n, gemm.k, gemm.b.ld, gemm.transB, exec::Blocks::None,
               /*packed=*/{}},
              gemm.b.buffer,
              MemRefType::get({*elements}, builder.getF32Type()));
}

Value Lowering::pack(const PackedWeight &weight, Value buffer,
                     MemRefType type) {
  SmallVectorImpl<PackedWeight> &known = packedWeights[buffer];
  auto isSame = [&](const PackedWeight &other) {
    return std::tie(other.n, other.k, other.ld, other.trans, other.blocks) ==
           std::tie(weight.n, weight.k, weight.ld, weight.trans, weight.blocks);
  };
  if (auto *found = llvm::find_if(known, isSame); found != known.end())
    return found->packed;
  // Each of its layouts is a value of its own.
  StringAttr value =
      builder.getStringAttr(getParameterName(buffer).getValue() +
                            (weight.trans ? " packed transposed" : " packed"));
  Value packed = allocate(type, "packed weight", /*name=*/StringAttr(),
                          builder.getArrayAttr(value));
  exec::PackOp::create(builder, location, buffer, packed, weight.k, weight.n,
                       weight.ld, weight.trans, weight.blocks,
                       /*id=*/IntegerAttr(), /*queue=*/StringAttr(),
                       /*after=*/DenseI32ArrayAttr());
  known.push_back(weight);
  known.back().packed = packed;
  return packed;
}

Value Lowering::matchElements(Value buffer, Value result, StringRef name) {
  Type type = getElementTypeOrSelf(result.getType());
  if (!buffer || target.mixesElements() ||
      getElementTypeOrSelf(buffer.getType()) == type)
    return buffer;
  Value matched = allocateWorkspace(
      cast<MemRefType>(buffer.getType()).getNumElements(), type, name);
  convert(buffer, matched);
  return matched;
}

void Lowering::gemm(Gemm gemm) {
  gemm.bias = matchElements(gemm.bias, gemm.c.buffer, "narrow bias");
  if (target.hasEpilogue(gemm.epilogue)) {
    gemm.extra.buffer =
        matchElements(gemm.extra.buffer, gemm.c.buffer, "narrow residual");
    return createGemm(gemm);
  }
  assert(gemm.epilogue == exec::Epilogue::Mul && gemm.c.ld == gemm.n &&
         gemm.extra.ld == gemm.n && "only whole products are multiplied");
  Value factor = gemm.extra.buffer;
  gemm.epilogue = exec::Epilogue::None;
  gemm.extra = {};
  createGemm(gemm);
  int64_t extent = gemm.m * gemm.n;
  launch(kernels::elementwise<MulOp>(getContext(), {extent, extent}),
         {{"operand0", gemm.c.buffer},
          {"operand1", factor},
          {"result0", gemm.c.buffer}});
}

void Lowering::createGemm(const Gemm &gemm) {
  Value packed = getPacked(gemm);
  Value b = packed ? packed : gemm.b.buffer;
  int64_t ldb =
      packed ? cast<MemRefType>(b.getType()).getNumElements() : gemm.b.ld;
  exec::GemmOp::create(builder, location, gemm.a.buffer, b, gemm.c.buffer,
                       gemm.bias, gemm.extra.buffer, gemm.live, gemm.m, gemm.n,
                       gemm.k, gemm.a.ld, ldb, gemm.c.ld,
                       gemm.extra.buffer ? gemm.extra.ld : 0, gemm.transA,
                       gemm.transB && !packed, gemm.accumulate, gemm.epilogue,
                       /*packed_b=*/packed != nullptr, gemm.blocks,
                       /*kernel=*/FlatSymbolRefAttr(), /*id=*/IntegerAttr(),
                       /*queue=*/StringAttr(), /*after=*/DenseI32ArrayAttr());
}

void Lowering::copy(Matrix src, Matrix dst, int64_t rows, int64_t cols) {
  exec::CopyOp::create(builder, location, src.buffer, dst.buffer, rows, cols,
                       src.ld, dst.ld, /*lag=*/IntegerAttr(),
                       /*kernel=*/FlatSymbolRefAttr(), /*id=*/IntegerAttr(),
                       /*queue=*/StringAttr(),
                       /*after=*/DenseI32ArrayAttr());
}

void Lowering::copy(Value src, Value dst) {
  int64_t extent = cast<MemRefType>(dst.getType()).getNumElements();
  copy({src, extent}, {dst, extent}, /*rows=*/1, extent);
}

void Lowering::convert(Value src, Value dst) {
  int64_t extent = cast<MemRefType>(dst.getType()).getNumElements();
  launch(kernels::elementwise<CastOp>(getContext(), extent),
         {{"operand0", src}, {"result0", dst}});
}

void Lowering::moveStrided(const Collective &collective) {
  auto start = exec::CollectiveStartOp::create(
      builder, location, exec::TokenType::get(builder.getContext()),
      collective.kind, collective.reduction, collective.axis, collective.root,
      collective.src.buffer, collective.dst.buffer, collective.outer,
      collective.inner, collective.src.ld, collective.dst.ld,
      /*kernel=*/FlatSymbolRefAttr(), /*carried=*/IntegerAttr(),
      /*id=*/IntegerAttr(), /*queue=*/StringAttr(),
      /*after=*/DenseI32ArrayAttr());
  exec::WaitOp::create(builder, location, start.getToken(),
                       /*id=*/IntegerAttr(), /*queue=*/StringAttr(),
                       /*after=*/DenseI32ArrayAttr());
}

void Lowering::launch(const Kernel &kernel, ArrayRef<NamedBuffer> buffers,
                      ArrayRef<Value> scalars) {
  KernelDescription description = kernel.describe(getContext());
  SmallVector<Value> values(buffers.size());
  for (const NamedBuffer &buffer : buffers) {
    std::optional<unsigned> position = description.findOperand(buffer.operand);
    assert(position && !values[*position] && "no such operand, or given twice");
    values[*position] = buffer.buffer;
  }
  declarations.launch(builder, location, kernel, std::move(description), values,
                      scalars);
}

void Lowering::launch(const Kernel &kernel, Operation *op,
                      ArrayRef<Value> scalars) {
  KernelDescription description = kernel.describe(getContext());
  SmallVector<Value> buffers;
  for (Value operand : op->getOperands())
    buffers.push_back(getBuffer(operand));
  for (Value result : op->getResults())
    if (buffers.size() < description.getOperands().size())
      buffers.push_back(getBuffer(result));
  declarations.launch(builder, location, kernel, std::move(description),
                      buffers, scalars);
}

Value Lowering::createConstant(int64_t value) {
  return arith::ConstantIntOp::create(builder, location, value, /*width=*/64);
}

ArrayAttr Lowering::getAxes(Type type, int64_t dim) {
  return builder.getStrArrayAttr(ccl::getDimAxes(type, dim));
}

Value Lowering::createRealExtent(Type type, int64_t dim) {
  int64_t local = cast<RankedTensorType>(type).getDimSize(dim);
  int64_t total = ccl::getGlobalShape(type)[dim];
  ArrayAttr axes = getAxes(type, dim);
  if (axes.empty())
    return createConstant(std::min(local, total));
  return exec::RealExtentOp::create(builder, location, builder.getI64Type(),
                                    local, total, axes);
}

Value Lowering::createPartOffset(Type type, int64_t dim, int64_t stride) {
  ArrayAttr axes = getAxes(type, dim);
  if (axes.empty())
    return createConstant(0);
  return exec::PartOffsetOp::create(
      builder, location, builder.getI64Type(),
      cast<RankedTensorType>(type).getDimSize(dim) * stride, axes);
}

bool mlir::optimus::isParameter(Value tensor) {
  return getParameterName(tensor) != nullptr;
}
