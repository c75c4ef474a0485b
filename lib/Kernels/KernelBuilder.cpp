//===- KernelBuilder.cpp - Writes the body of a kernel ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/KernelBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::optimus;

KernelBuilder::KernelBuilder(func::FuncOp function,
                             const KernelDescription &description,
                             const KernelSchedule &schedule)
    : function(function), description(description), schedule(schedule),
      space(description.getSpace()),
      b(function.getLoc(), function.getContext()) {
  b.setInsertionPointToStart(&function.getBody().front());
  auto operands = ValueRange(function.getArguments()).drop_front(2);
  size_t numBuffers = description.getOperands().size();
  llvm::append_range(buffers, operands.take_front(numBuffers));
  llvm::append_range(scalars, operands.drop_front(numBuffers));
}

KernelBuilder::KernelBuilder(KernelBuilder &whole,
                             const KernelDescription &description,
                             const KernelSchedule &schedule,
                             ArrayRef<std::string> buffers,
                             ArrayRef<std::string> scalars)
    : function(whole.function), description(description), schedule(schedule),
      space(whole.space), b(whole.b) {
  for (StringRef name : buffers)
    this->buffers.push_back(
        whole.buffers[*whole.description.findOperand(name)]);
  for (StringRef name : scalars)
    this->scalars.push_back(whole.getScalar(name));
}

KernelBuilder::KernelBuilder(KernelBuilder &whole,
                             const KernelDescription &description,
                             const KernelSchedule &schedule,
                             ArrayRef<Value> buffers)
    : function(whole.function), description(description), schedule(schedule),
      space(whole.space), b(whole.b), buffers(buffers) {}

void KernelBuilder::getDependentDialects(DialectRegistry &registry) {
  registry
      .insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
              memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect>();
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

KernelBuffer KernelBuilder::getOptional(StringRef name) {
  std::optional<unsigned> position = description.findOperand(name);
  if (!position)
    return {};
  return {*this, buffers[*position]};
}

KernelBuffer KernelBuilder::operator[](StringRef name) {
  KernelBuffer buffer = getOptional(name);
  assert(buffer && "the description has no such operand");
  return buffer;
}

bool KernelBuilder::hasNarrowResults() {
  return llvm::none_of(
      description.getOperands(), [&](const KernelOperand &operand) {
        KernelBuffer buffer = getOptional(operand.name);
        return operand.access != KernelAccess::Read && buffer &&
               cast<MemRefType>(buffer.getMemory().getType())
                   .getElementType()
                   .isF32();
      });
}

Value KernelBuilder::getScalar(StringRef name) {
  std::optional<unsigned> position = description.findScalar(name);
  assert(position && "the description has no such scalar");
  return scalars[*position];
}

Value KernelBuilder::getIndex(StringRef name) {
  return arith::IndexCastOp::create(b, b.getIndexType(), getScalar(name));
}

KernelBuffer
KernelBuilder::getConstants(StringRef name,
                            function_ref<std::vector<float>()> values) {
  auto module = function->getParentOfType<ModuleOp>();
  auto global = module.lookupSymbol<memref::GlobalOp>(name);
  if (!global) {
    std::vector<float> elements = values();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    const int64_t shape[] = {static_cast<int64_t>(elements.size())};
    global = memref::GlobalOp::create(
        builder, NameLoc::get(builder.getStringAttr(name)), name,
        builder.getStringAttr("private"), MemRefType::get(shape, f32()),
        DenseElementsAttr::get(RankedTensorType::get(shape, f32()),
                               ArrayRef<float>(elements)),
        /*constant=*/true, /*alignment=*/builder.getI64IntegerAttr(64));
  }
  return {*this, memref::GetGlobalOp::create(b, global.getType(), name)};
}

Type KernelBuffer::getElementType() const {
  return cast<MemRefType>(memory.getType()).getElementType();
}

Num KernelBuffer::load(Value offset, Type type) const {
  ImplicitLocOpBuilder &b = kernel->getBuilder();
  Type stored = kernel->withElement(type, getElementType());
  Num value = kernel->num(
      isa<VectorType>(type) ? Value(vector::LoadOp::create(
                                  b, cast<VectorType>(stored), memory, offset))
                            : Value(memref::LoadOp::create(b, memory, offset)));
  return stored == type ? value
                        : kernel->widen(value, getElementTypeOrSelf(type));
}

Num KernelBuffer::load(Value offset) const {
  bool isWide = getElementType().isF64();
  return load(offset, isWide ? kernel->f64() : kernel->f32());
}

Num KernelBuffer::load() const { return load(kernel->index(0)); }

Value KernelBuffer::loadElement(Value offset) const {
  return memref::LoadOp::create(kernel->getBuilder(), memory, offset);
}

Value KernelBuffer::loadElements(Value offset, Type type) const {
  return vector::LoadOp::create(kernel->getBuilder(), cast<VectorType>(type),
                                memory, offset);
}

void KernelBuffer::store(Num value, Value offset) const {
  ImplicitLocOpBuilder &b = kernel->getBuilder();
  Type element = getElementType();
  if (getElementTypeOrSelf(value.getType()) != element)
    value = kernel->narrow(value, element);
  if (isa<VectorType>(value.getType()))
    vector::StoreOp::create(b, value.value, memory, offset);
  else
    memref::StoreOp::create(b, value.value, memory, offset);
}

void KernelBuffer::storeOnce(Num value, Value offset) const {
  kernel->once([&] { store(value, offset); });
}

void KernelBuffer::storeElement(Value element, Value offset) const {
  memref::StoreOp::create(kernel->getBuilder(), element, memory, offset);
}

void KernelBuffer::storeElements(Value elements, Value offset) const {
  vector::StoreOp::create(kernel->getBuilder(), elements, memory, offset);
}

void KernelBuffer::copyTo(const KernelBuffer &other, Value offset, Value place,
                          Type type) const {
  if (getElementType() != other.getElementType())
    return other.store(load(offset, type), place);
  if (isa<VectorType>(type))
    return other.storeElements(
        loadElements(offset, kernel->withElement(type, getElementType())),
        place);
  other.storeElement(loadElement(offset), place);
}

Value KernelSchedule::allocateShared(KernelBuilder &k, int64_t extent) const {
  Value memory;
  // Not in a loop, each turn of which would take more of the stack.
  k.atStart([&] {
    memory = memref::AllocaOp::create(k.getBuilder(),
                                      MemRefType::get({extent}, k.f32()));
  });
  return memory;
}

void KernelBuilder::atStart(function_ref<void()> write) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&function.getBody().front());
  write();
}

//===----------------------------------------------------------------------===//
// Indices and control
//===----------------------------------------------------------------------===//

Value KernelBuilder::index(int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}
Value KernelBuilder::addIndex(Value a, Value c) {
  return arith::AddIOp::create(b, a, c);
}
Value KernelBuilder::subIndex(Value a, Value c) {
  return arith::SubIOp::create(b, a, c);
}
Value KernelBuilder::mulIndex(Value a, Value c) {
  return arith::MulIOp::create(b, a, c);
}
Value KernelBuilder::less(Value a, Value c) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, a, c);
}
Value KernelBuilder::minIndex(Value a, Value c) {
  return arith::MinSIOp::create(b, a, c);
}
Value KernelBuilder::maxIndex(Value a, Value c) {
  return arith::MaxSIOp::create(b, a, c);
}
Value KernelBuilder::both(Value a, Value c) {
  return arith::AndIOp::create(b, a, c);
}

void KernelBuilder::loop(Value from, Value to, int64_t step, IndexFn body) {
  loop(from, to, step, {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

SmallVector<Value>
KernelBuilder::loop(Value from, Value to, int64_t step, ArrayRef<Value> init,
                    function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto op = scf::ForOp::create(b, from, to, index(step), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.getBody());
  SmallVector<Value> next = body(op.getInductionVar(), op.getRegionIterArgs());
  // Without carried values the loop came with its terminator.
  if (!init.empty())
    scf::YieldOp::create(b, next);
  return op.getResults();
}

void KernelBuilder::when(Value condition, function_ref<void()> body,
                         function_ref<void()> otherwise) {
  auto op = scf::IfOp::create(b, condition,
                              /*withElseRegion=*/bool(otherwise));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.thenBlock());
  body();
  if (otherwise) {
    b.setInsertionPointToStart(op.elseBlock());
    otherwise();
  }
}

void KernelBuilder::forElements(ElementsFn body) {
  const IterationSpace &space = description.getSpace();
  assert(space.kind == IterationSpace::Elements);
  schedule.forElements(*this, space.rows, space.cols, body);
}

void KernelBuilder::forRows(IndexFn body) {
  assert(description.getSpace().kind == IterationSpace::Rows);
  schedule.forRows(*this, body);
}

void KernelBuilder::forItems(IndexFn body) {
  assert(description.getSpace().kind == IterationSpace::Items);
  schedule.forRows(*this, body);
}

void KernelBuilder::forColumns(LanesFn body) {
  const IterationSpace &space = description.getSpace();
  assert(space.kind == IterationSpace::Columns);
  schedule.forColumns(*this, space.cols, body);
}
