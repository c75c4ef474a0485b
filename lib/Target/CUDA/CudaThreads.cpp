//===- CudaThreads.cpp - What a thread knows of itself ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaThreads.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::optimus;

//===----------------------------------------------------------------------===//
// Where a thread stands
//===----------------------------------------------------------------------===//

template <typename RegisterOp>
static Value readRegister(KernelBuilder &k) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  return arith::IndexCastUIOp::create(b, b.getIndexType(),
                                      RegisterOp::create(b, k.i32()));
}

Value CudaThreads::getThread() { return readRegister<NVVM::ThreadIdXOp>(k); }
Value CudaThreads::getBlockIndex() { return readRegister<NVVM::BlockIdXOp>(k); }
Value CudaThreads::getNumBlocks() { return readRegister<NVVM::GridDimXOp>(k); }

Value CudaThreads::divide(Value value, int64_t divisor) {
  return arith::DivUIOp::create(k.getBuilder(), value, k.index(divisor));
}
Value CudaThreads::remainder(Value value, int64_t divisor) {
  return arith::RemUIOp::create(k.getBuilder(), value, k.index(divisor));
}

// Neighbours read neighbouring columns, and neighbouring elements of a row.
Value CudaThreads::getTeam() {
  return space.kind == IterationSpace::Columns
             ? remainder(getThread(), block.getTeams())
             : divide(getThread(), block.team);
}
Value CudaThreads::getRank() {
  return space.kind == IterationSpace::Columns
             ? divide(getThread(), block.getTeams())
             : remainder(getThread(), block.team);
}

int64_t CudaThreads::getMostLanes() {
  unsigned bits = 32;
  for (Type type : k.getFunction().getArgumentTypes())
    if (auto buffer = dyn_cast<MemRefType>(type))
      bits = std::min(bits, buffer.getElementTypeBitWidth());
  return kLoadBytes * 8 / bits;
}

Type CudaThreads::getLanes(int64_t count) {
  return count == 1 ? k.f32() : k.vectorOf(count, k.f32());
}

Value CudaThreads::getWhole(Value n, int64_t lanes) {
  return lanes == 1 ? n : k.mulIndex(divide(n, lanes), k.index(lanes));
}

void CudaThreads::stride(Value from, Value to, Value step, IndexFn body) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  auto loop = scf::ForOp::create(b, from, to, step);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

//===----------------------------------------------------------------------===//
// What threads tell each other
//===----------------------------------------------------------------------===//

Value CudaThreads::getMask() {
  ImplicitLocOpBuilder &b = k.getBuilder();
  auto bits = [&](uint32_t value) -> Value {
    return arith::ConstantOp::create(
        b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  if (block.team >= kWarpThreads)
    return bits(~0u);
  Value first =
      remainder(arith::SubIOp::create(b, getThread(), getRank()), kWarpThreads);
  return arith::ShLIOp::create(b, bits((1u << block.team) - 1),
                               arith::IndexCastUIOp::create(b, k.i32(), first));
}

void CudaThreads::synchronizeBlock() {
  // nvvm.barrier with a location does not parse again: that is read as its
  // reduction.
  NVVM::Barrier0Op::create(k.getBuilder());
}

void CudaThreads::synchronize() {
  if (block.team == 1)
    return;
  if (block.team <= kWarpThreads && space.kind == IterationSpace::Rows)
    NVVM::SyncWarpOp::create(k.getBuilder(), getMask());
  else
    synchronizeBlock();
}

void CudaThreads::synchronizeWarp() {
  NVVM::SyncWarpOp::create(k.getBuilder(), getMask());
}

Value CudaThreads::getShared(StringRef name, int64_t extent, Type element) {
  func::FuncOp function = k.getFunction();
  auto module = function->getParentOfType<ModuleOp>();
  std::string symbol =
      (function.getSymName() + "_" + name + "_" + Twine(extent)).str();
  auto global = module.lookupSymbol<memref::GlobalOp>(symbol);
  if (!global) {
    OpBuilder b(function);
    global = memref::GlobalOp::create(
        b, function.getLoc(), symbol, b.getStringAttr("private"),
        MemRefType::get({extent}, element, MemRefLayoutAttrInterface(),
                        b.getI64IntegerAttr(kSharedMemory)),
        b.getUnitAttr(), /*constant=*/false,
        /*alignment=*/b.getI64IntegerAttr(16));
  }
  return memref::GetGlobalOp::create(k.getBuilder(), global.getType(), symbol);
}

Num CudaThreads::exp2(Num x) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  auto takeLane = [&](Value lane) {
    return LLVM::CallIntrinsicOp::create(
               b, k.f32(), b.getStringAttr("llvm.nvvm.ex2.approx.ftz.f32"),
               ValueRange{lane})
        .getResult(0);
  };
  auto vector = dyn_cast<VectorType>(x.getType());
  if (!vector)
    return k.num(takeLane(x.value));
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < vector.getNumElements(); ++lane)
    lanes.push_back(takeLane(vector::ExtractOp::create(b, x.value, lane)));
  return k.num(vector::FromElementsOp::create(b, vector, lanes));
}

Num CudaThreads::max(Num a, Num c) {
  return k.num(arith::MaxNumFOp::create(k.getBuilder(), a.value, c.value));
}

/// Has every thread of `mask` give `value` to the one whose number differs from
/// its own in `bits`.
static Value shuffle(KernelBuilder &k, Value value, int64_t bits, Value mask) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  auto integer = [&](int64_t number) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(number));
  };
  return NVVM::ShflOp::create(b, value.getType(), mask, value, integer(bits),
                              integer(kWarpThreads - 1), NVVM::ShflKind::bfly,
                              UnitAttr());
}

Num CudaThreads::exchange(Num value, int64_t bits, Value mask) {
  if (value.getType().isF32())
    return k.num(shuffle(k, value.value, bits, mask));
  // In two halves.
  ImplicitLocOpBuilder &b = k.getBuilder();
  Type i64 = b.getI64Type();
  Value half = arith::ConstantOp::create(b, b.getI64IntegerAttr(32));
  Value whole = arith::BitcastOp::create(b, i64, value.value);
  auto move = [&](Value part) -> Value {
    Value word = arith::TruncIOp::create(b, k.i32(), part);
    return arith::ExtUIOp::create(b, i64, shuffle(k, word, bits, mask));
  };
  Value low = move(whole);
  Value high = move(arith::ShRUIOp::create(b, whole, half));
  Value moved =
      arith::OrIOp::create(b, low, arith::ShLIOp::create(b, high, half));
  return k.num(arith::BitcastOp::create(b, value.getType(), moved));
}

Num CudaThreads::combineWarp(Num value, int64_t threads, Value mask,
                             function_ref<Num(Num, Num)> combine) {
  // Both of a pair combine the same two, so that all end with the same bits.
  for (int64_t bits = threads / 2; bits > 0; bits /= 2)
    value = combine(value, exchange(value, bits, mask));
  return value;
}

Num CudaThreads::combineNeighbours(Num value, int64_t count,
                                   function_ref<Num(Num, Num)> combine) {
  assert(block.team >= kWarpThreads && "whole warps take part");
  return combineWarp(value, count, getMask(), combine);
}

Terms CudaThreads::combine(Terms values, function_ref<Num(Num, Num)> combine) {
  bool isWarps = block.team <= kWarpThreads;
  Value mask = getMask();
  for (Num &value : values)
    value =
        combineWarp(value, isWarps ? block.team : kWarpThreads, mask, combine);
  if (isWarps)
    return values;
  const int64_t warps = block.team / kWarpThreads;
  Type element = values.front().getType();
  KernelBuffer shared(k, getShared(element.isF64() ? "sums_f64" : "sums_f32",
                                   warps * static_cast<int64_t>(values.size()),
                                   element));
  Value warp = divide(getThread(), kWarpThreads);
  Value lane = remainder(getThread(), kWarpThreads);
  // What was combined before has been read.
  synchronizeBlock();
  k.when(arith::CmpIOp::create(k.getBuilder(), arith::CmpIPredicate::eq, lane,
                               k.index(0)),
         [&] {
           for (auto [number, value] : llvm::enumerate(values))
             shared.store(value, k.addIndex(k.index(number * warps), warp));
         });
  synchronizeBlock();
  for (auto [number, value] : llvm::enumerate(values)) {
    Value at = k.addIndex(k.index(number * warps), remainder(lane, warps));
    value = combineWarp(shared.load(at, element), warps, mask, combine);
  }
  return values;
}
