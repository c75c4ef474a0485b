//===- KernelMemory.cpp - Loops, loads and stores in kernels ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Elements.h"
#include "KernelFrame.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::exec;

namespace {

template <typename Model, typename Op>
using KernelModel = InterpretableKernelOpInterface::ExternalModel<Model, Op>;

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

/// The results of a block after its run.
std::vector<Numbers> getYielded(Block &block, const KernelFrame &frame) {
  std::vector<Numbers> yielded;
  for (Value value : block.getTerminator()->getOperands())
    yielded.push_back(frame.get(value));
  return yielded;
}

void setAll(KernelFrame &frame, ValueRange values,
            std::vector<Numbers> numbers) {
  for (auto [value, number] : llvm::zip_equal(values, numbers))
    frame.set(value, std::move(number));
}

struct ForModel : KernelModel<ForModel, scf::ForOp> {
  LogicalResult execute(Operation *operation, KernelFrame &frame) const {
    auto op = cast<scf::ForOp>(operation);
    int64_t end = frame.getIndex(op.getUpperBound());
    int64_t step = frame.getIndex(op.getStep());
    if (step <= 0)
      return op.emitOpError("has a step of ") << step;
    std::vector<Numbers> carried;
    for (Value init : op.getInitArgs())
      carried.push_back(frame.get(init));
    for (int64_t i = frame.getIndex(op.getLowerBound()); i < end; i += step) {
      frame.set(op.getInductionVar(), {{0, i}});
      setAll(frame, op.getRegionIterArgs(), std::move(carried));
      if (failed(frame.run(*op.getBody())))
        return failure();
      carried = getYielded(*op.getBody(), frame);
    }
    setAll(frame, op.getResults(), std::move(carried));
    return success();
  }
};

struct IfModel : KernelModel<IfModel, scf::IfOp> {
  LogicalResult execute(Operation *operation, KernelFrame &frame) const {
    auto op = cast<scf::IfOp>(operation);
    Block *block =
        frame.getIndex(op.getCondition()) ? op.thenBlock() : op.elseBlock();
    if (!block)
      return success();
    if (failed(frame.run(*block)))
      return failure();
    setAll(frame, op.getResults(), getYielded(*block, frame));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Of flat memory, the element at the only index.
FailureOr<int64_t> getElement(Operation *op, const KernelFrame &frame,
                              ValueRange indices) {
  if (indices.size() != 1)
    return op->emitOpError("expected flat memory in a kernel");
  return frame.getIndex(indices.front());
}

LogicalResult load(Operation *op, KernelFrame &frame, Value memory,
                   ValueRange indices, int64_t count) {
  FailureOr<int64_t> first = getElement(op, frame, indices);
  if (failed(first))
    return failure();
  Numbers numbers;
  for (int64_t lane = 0; lane < count; ++lane) {
    FailureOr<Number> number = frame.load(op, memory, *first + lane);
    if (failed(number))
      return failure();
    numbers.push_back(*number);
  }
  frame.set(op->getResult(0), std::move(numbers));
  return success();
}

LogicalResult store(Operation *op, KernelFrame &frame, Value stored,
                    Value memory, ValueRange indices) {
  FailureOr<int64_t> first = getElement(op, frame, indices);
  if (failed(first))
    return failure();
  for (auto [lane, number] : llvm::enumerate(frame.get(stored)))
    if (failed(frame.store(op, memory, *first + lane, number)))
      return failure();
  return success();
}

struct LoadModel : KernelModel<LoadModel, memref::LoadOp> {
  LogicalResult execute(Operation *operation, KernelFrame &frame) const {
    auto op = cast<memref::LoadOp>(operation);
    return load(op, frame, op.getMemref(), op.getIndices(), /*count=*/1);
  }
};

struct StoreModel : KernelModel<StoreModel, memref::StoreOp> {
  LogicalResult execute(Operation *operation, KernelFrame &frame) const {
    auto op = cast<memref::StoreOp>(operation);
    return store(op, frame, op.getValue(), op.getMemref(), op.getIndices());
  }
};

struct VectorLoadModel : KernelModel<VectorLoadModel, vector::LoadOp> {
  LogicalResult execute(Operation *operation, KernelFrame &frame) const {
    auto op = cast<vector::LoadOp>(operation);
    return load(op, frame, op.getBase(), op.getIndices(),
                op.getVectorType().getNumElements());
  }
};

struct VectorStoreModel : KernelModel<VectorStoreModel, vector::StoreOp> {
  LogicalResult execute(Operation *operation, KernelFrame &frame) const {
    auto op = cast<vector::StoreOp>(operation);
    return store(op, frame, op.getValueToStore(), op.getBase(),
                 op.getIndices());
  }
};

struct AllocaModel : KernelModel<AllocaModel, memref::AllocaOp> {
  LogicalResult execute(Operation *op, KernelFrame &frame) const {
    auto type = cast<MemRefType>(op->getResult(0).getType());
    if (!type.hasStaticShape())
      return op->emitOpError("expected memory of static size in a kernel");
    frame.setLocal(op->getResult(0),
                   std::vector<std::optional<Number>>(type.getNumElements()));
    return success();
  }
};

struct GetGlobalModel : KernelModel<GetGlobalModel, memref::GetGlobalOp> {
  LogicalResult execute(Operation *operation, KernelFrame &frame) const {
    auto op = cast<memref::GetGlobalOp>(operation);
    auto global = SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(
        op, op.getNameAttr());
    auto values = dyn_cast_or_null<DenseFPElementsAttr>(
        global ? global.getInitialValueAttr() : Attribute());
    if (!values)
      return op.emitOpError("expected constants of a float type");
    std::vector<std::optional<Number>> elements;
    for (const APFloat &element : values.getValues<APFloat>())
      elements.push_back(Number{
          FloatAttr::get(values.getElementType(), element).getValueAsDouble(),
          0});
    frame.setLocal(op.getResult(), std::move(elements));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

struct BroadcastModel : KernelModel<BroadcastModel, vector::BroadcastOp> {
  LogicalResult execute(Operation *operation, KernelFrame &frame) const {
    auto op = cast<vector::BroadcastOp>(operation);
    Numbers source = frame.get(op.getSource());
    if (source.size() != 1)
      return op.emitOpError("expected a scalar in a kernel");
    frame.set(op.getResult(),
              Numbers(op.getResultVectorType().getNumElements(), source[0]));
    return success();
  }
};

/// Lane by lane, rounded after each.
struct ReductionModel : KernelModel<ReductionModel, vector::ReductionOp> {
  LogicalResult execute(Operation *operation, KernelFrame &frame) const {
    auto op = cast<vector::ReductionOp>(operation);
    Type type = op.getDest().getType();
    bool isSum = op.getKind() == vector::CombiningKind::ADD;
    if (!isa<FloatType>(type) ||
        (!isSum && op.getKind() != vector::CombiningKind::MAXNUMF))
      return op.emitOpError("expected a sum or maximum of floats in a kernel");
    Numbers lanes = frame.get(op.getVector());
    if (op.getAcc())
      lanes.push_back(frame.get(op.getAcc()).front());
    Number result = lanes.front();
    for (const Number &lane : ArrayRef<Number>(lanes).drop_front())
      result.real = isSum ? roundTo(type, result.real + lane.real)
                          : std::fmax(result.real, lane.real);
    frame.set(op.getDest(), {result});
    return success();
  }
};

} // namespace

void mlir::exec::attachKernelLoops(MLIRContext &context) {
  scf::ForOp::attachInterface<ForModel>(context);
  scf::IfOp::attachInterface<IfModel>(context);
}

void mlir::exec::attachKernelMemory(MLIRContext &context) {
  memref::LoadOp::attachInterface<LoadModel>(context);
  memref::StoreOp::attachInterface<StoreModel>(context);
  memref::AllocaOp::attachInterface<AllocaModel>(context);
  memref::GetGlobalOp::attachInterface<GetGlobalModel>(context);
}

void mlir::exec::attachKernelVectors(MLIRContext &context) {
  vector::LoadOp::attachInterface<VectorLoadModel>(context);
  vector::StoreOp::attachInterface<VectorStoreModel>(context);
  vector::BroadcastOp::attachInterface<BroadcastModel>(context);
  vector::ReductionOp::attachInterface<ReductionModel>(context);
}
