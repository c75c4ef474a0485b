//===- CudaTensorCores.cpp - Products of tensor cores -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaTensorCores.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::optimus;

/// What a product sums over.
static constexpr int64_t kDepth = 16;

CudaTensorCores::CudaTensorCores(KernelBuilder &k, CudaTiles &tiles,
                                 int64_t dim, int64_t tileRows)
    : k(k), b(k.getBuilder()), threads(k), tiles(tiles),
      element(b.getBF16Type()), dim(dim), tileRows(tileRows) {
  assert(dim % kDepth == 0 && "rows have whole products");
  assert(tileRows % kDepth == 0 && "tiles have whole products");
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

// Lowering makes a structure of a buffer, with its address, and then folds this
// cast.
Value CudaTensorCores::getAddress(KernelBuffer memory, Value at) {
  MLIRContext *context = b.getContext();
  auto type = cast<MemRefType>(memory.getMemory().getType());
  Type pointer =
      LLVM::LLVMPointerType::get(context, type.getMemorySpaceAsInt());
  Type numbers = LLVM::LLVMArrayType::get(b.getI64Type(), 1);
  Type structure = LLVM::LLVMStructType::getLiteral(
      context, {pointer, pointer, b.getI64Type(), numbers, numbers});
  Value parts =
      UnrealizedConversionCastOp::create(b, structure, memory.getMemory())
          .getResult(0);
  Value begin = LLVM::ExtractValueOp::create(b, parts, 1);
  Value offset = arith::IndexCastOp::create(b, b.getI64Type(), at);
  return LLVM::GEPOp::create(b, pointer, type.getElementType(), begin,
                             ValueRange{offset},
                             LLVM::GEPNoWrapFlags::inbounds);
}

Value CudaTensorCores::addAddress(Value address, Type element, int64_t number) {
  return LLVM::GEPOp::create(b, address.getType(), element, address,
                             ArrayRef<LLVM::GEPArg>{int32_t(number)},
                             LLVM::GEPNoWrapFlags::inbounds);
}

//===----------------------------------------------------------------------===//
// Rows of the warp
//===----------------------------------------------------------------------===//

static Value getRegister(KernelBuilder &k, Value pair) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  return vector::ExtractOp::create(
      b,
      vector::BitCastOp::create(b, cast<VectorType>(k.vectorOf(1, k.i32())),
                                pair),
      0);
}

/// Two neighbours as a register.
Value CudaTensorCores::loadPair(KernelBuffer memory, Value at) {
  return getRegister(k, memory.loadElements(at, k.vectorOf(2, element)));
}

CudaTensorCores::Own CudaTensorCores::getOwn(KernelBuffer memory, Value first,
                                             Value second, bool hold) {
  Own own = {memory, {first, second}, {}};
  SmallVector<Value> held;
  for (int64_t column = 0; hold && column < dim; column += kDepth)
    held.append(loadOwn(own, column));
  own.held = std::move(held);
  return own;
}

SmallVector<Value> CudaTensorCores::loadOwn(const Own &own, int64_t column) {
  if (!own.held.empty())
    return SmallVector<Value>(ArrayRef(own.held).slice(column / 4, 4));
  SmallVector<Value> pairs;
  Value pair = k.mulIndex(tiles.getMember(), k.index(2));
  for (int64_t part : {0, 8})
    for (Value begin : own.begins)
      pairs.push_back(
          loadPair(own.memory, k.addIndex(begin, addTo(pair, column + part))));
  return pairs;
}

//===----------------------------------------------------------------------===//
// Rows of the block
//===----------------------------------------------------------------------===//

CudaTensorCores::Shared CudaTensorCores::allocate(StringRef name) {
  return {{k, threads.getShared(name, 2 * tileRows * getStride(), element)}};
}

void CudaTensorCores::copyAsync(Value to, Value from, int64_t bytes,
                                Value some) {
  // Whole pieces are read once: they need not stay in the SM's cache.
  auto kind = bytes == kLoadBytes ? NVVM::LoadCacheModifierKind::CG
                                  : NVVM::LoadCacheModifierKind::CA;
  Type global = LLVM::LLVMPointerType::get(b.getContext(), kGlobalMemory);
  if (from.getType() != global)
    from = LLVM::AddrSpaceCastOp::create(b, global, from);
  NVVM::CpAsyncOp::create(b, to, from, bytes, kind, some);
}

// Neighbours copy neighbouring pieces of a row, and a thread the same column of
// several: one address, and distances that the code knows, serve all.
void CudaTensorCores::copy(const Rows &rows, const Shared &to, Value stage) {
  const int64_t inRow = dim / kPiece, across = llvm::bit_ceil(uint64_t(inRow)),
                down = threads.getBlock().threads / across,
                step = std::min(down, tileRows);
  assert(tileRows % step == 0 && "all threads have as many rows");
  Value first = tiles.divide(threads.getThread(), across);
  Value piece = tiles.remainder(threads.getThread(), across);
  Value column = k.mulIndex(piece, k.index(kPiece));
  auto getPlace = [&](Value row, int64_t stride) {
    return k.addIndex(k.mulIndex(row, k.index(stride)), column);
  };
  Value target = getAddress(
      to.memory, k.addIndex(k.mulIndex(stage, k.index(tileRows * getStride())),
                            getPlace(first, getStride())));
  auto copyRows = [&](bool isWhole) {
    Value source = getAddress(
        rows.memory, k.addIndex(rows.begin, getPlace(first, rows.stride)));
    for (int64_t turn = 0; turn < tileRows; turn += step) {
      Value some, from = addAddress(source, element, turn * rows.stride);
      if (!isWhole) {
        Value row = addTo(first, turn);
        Value left = k.subIndex(rows.limit, rows.first);
        some = getBytes(k.less(row, left), kLoadBytes);
        row = k.minIndex(row, k.subIndex(left, k.index(1)));
        from = getAddress(rows.memory,
                          k.addIndex(rows.begin, getPlace(row, rows.stride)));
      }
      copyAsync(addAddress(target, element, turn * getStride()), from,
                kLoadBytes, some);
    }
  };
  auto copyPieces = [&] {
    if (rows.isWhole)
      return copyRows(true);
    Value end = k.addIndex(rows.first, k.index(tileRows));
    k.when(
        k.less(rows.limit, end), [&] { copyRows(false); },
        [&] { copyRows(true); });
  };
  if (across == inRow && down == step)
    return copyPieces();
  // The others have nothing to copy.
  k.when(
      k.both(k.less(piece, k.index(inRow)), k.less(first, k.index(tileRows))),
      copyPieces);
}

Value CudaTensorCores::getBytes(Value isThere, int64_t bytes) {
  return arith::IndexCastOp::create(
      b, k.i32(),
      arith::SelectOp::create(b, isThere, k.index(bytes), k.index(0)));
}

void CudaTensorCores::copyNumbers(KernelBuffer from, Value begin, Value first,
                                  Value limit, KernelBuffer to, Value stage,
                                  int64_t place, int64_t kinds) {
  constexpr int64_t kBytes = 4;
  // Each kind of numbers has threads of its own.
  Value number = k.subIndex(threads.getThread(), k.index(place * tileRows));
  Value isMine =
      k.both(k.less(number, k.index(tileRows)), k.less(k.index(-1), number));
  k.when(isMine, [&] {
    Value left = k.subIndex(limit, first);
    Value some = getBytes(k.less(number, left), kBytes);
    Value source = k.minIndex(number, k.subIndex(left, k.index(1)));
    Value target = k.addIndex(k.mulIndex(stage, k.index(kinds * tileRows)),
                              threads.getThread());
    copyAsync(getAddress(to, target),
              getAddress(from, k.addIndex(begin, source)), kBytes, some);
  });
}

void CudaTensorCores::commit() { NVVM::CpAsyncCommitGroupOp::create(b); }

void CudaTensorCores::await() {
  NVVM::CpAsyncWaitGroupOp::create(b, 0);
  threads.synchronizeBlock();
}

Value CudaTensorCores::getMatrixAddress(const Shared &others, Value stage,
                                        int64_t rowBit, int64_t columnBit) {
  auto getBit = [&](int64_t bit) {
    return tiles.remainder(tiles.divide(tiles.getLane(), bit), 2);
  };
  Value row = k.addIndex(tiles.remainder(tiles.getLane(), kTile),
                         k.mulIndex(getBit(rowBit), k.index(kTile)));
  Value at = k.addIndex(k.mulIndex(row, k.index(getStride())),
                        k.mulIndex(getBit(columnBit), k.index(kTile)));
  return getAddress(
      others.memory,
      k.addIndex(k.mulIndex(stage, k.index(tileRows * getStride())), at));
}

SmallVector<Value> CudaTensorCores::loadMatrices(Value address,
                                                 bool transposed) {
  constexpr int64_t kMatrices = 4;
  Type type = LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(kMatrices, k.i32()));
  Value all = NVVM::LdMatrixOp::create(
      b, type, address, kMatrices,
      transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row,
      NVVM::LdStMatrixShapeAttr::get(b.getContext(), kTile, kTile),
      NVVM::LdStMatrixEltType::B16);
  SmallVector<Value> words;
  for (int64_t number = 0; number < kMatrices; ++number)
    words.push_back(LLVM::ExtractValueOp::create(b, all, number));
  return words;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void CudaTensorCores::multiplyAdd(MutableArrayRef<Value> sums, ValueRange a,
                                  ValueRange c) {
  Type type = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                               SmallVector<Type>(4, k.f32()));
  using NVVM::MMALayout;
  using NVVM::MMATypes;
  Value product = NVVM::MmaOp::create(
      b, type, a, c, ValueRange(ArrayRef<Value>(sums)),
      ArrayRef<int64_t>({CudaTiles::kWarpRows, kTile, kDepth}), std::nullopt,
      std::nullopt, std::array<MMATypes, 2>{MMATypes::bf16, MMATypes::bf16},
      std::array<MMALayout, 2>{MMALayout::row, MMALayout::col});
  for (auto [number, sum] : llvm::enumerate(sums))
    sum = LLVM::ExtractValueOp::create(b, product, int64_t(number));
}

// Of 16 shared rows and 16 columns, the matrices are: rows 0-7, columns 0-7;
// the same rows, columns 8-15; and both of rows 8-15.
CudaTensorCores::Sums
CudaTensorCores::multiply(const Own &own, const Shared &others, Value stage) {
  Sums sums = tiles.getZeros(tileRows);
  Value address = getMatrixAddress(others, stage, /*rowBit=*/16,
                                   /*columnBit=*/8);
  for (int64_t column = 0; column < dim; column += kDepth) {
    SmallVector<Value> a = loadOwn(own, column);
    for (int64_t row = 0; row < tileRows; row += kDepth) {
      SmallVector<Value> c =
          loadMatrices(addAddress(address, element, row * getStride() + column),
                       /*transposed=*/false);
      for (int64_t part : {0, 1})
        multiplyAdd(MutableArrayRef(sums).slice((row / kTile + part) * 4, 4), a,
                    ValueRange(c).slice(part * 2, 2));
    }
  }
  return sums;
}

// A lane's elements of 16 columns of weights are those that tensor cores take
// from it.
SmallVector<Value> CudaTensorCores::round(const Sums &weights) {
  SmallVector<Value> words;
  for (size_t at = 0; at < weights.size(); at += 2) {
    Value pair = vector::FromElementsOp::create(
        b, cast<VectorType>(k.vectorOf(2, k.f32())),
        ValueRange(ArrayRef(weights)).slice(at, 2));
    words.push_back(getRegister(k, k.narrow(k.num(pair), element).value));
  }
  return words;
}

// Here rows are what is summed over: rows 0-7, columns 0-7, transposed; rows
// 8-15 of the same columns; and both of columns 8-15.
void CudaTensorCores::accumulate(MutableArrayRef<Value> sums,
                                 ArrayRef<Value> weights, const Shared &others,
                                 Value stage) {
  Value address = getMatrixAddress(others, stage, /*rowBit=*/8,
                                   /*columnBit=*/16);
  for (int64_t row = 0; row < tileRows; row += kDepth) {
    ArrayRef<Value> a = weights.slice(row / 4, 4);
    for (int64_t column = 0; column < dim; column += kDepth) {
      SmallVector<Value> c =
          loadMatrices(addAddress(address, element, row * getStride() + column),
                       /*transposed=*/true);
      for (int64_t part : {0, 1})
        multiplyAdd(sums.slice((column / kTile + part) * 4, 4), a,
                    ValueRange(c).slice(part * 2, 2));
    }
  }
}
