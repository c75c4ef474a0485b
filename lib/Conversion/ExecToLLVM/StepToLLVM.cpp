//===- StepToLLVM.cpp - Functions of commands to LLVM -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step is straight-line code: one call a command, each in a block of its own
// since a status may end it. Addresses are computed where they are used, from
// the arena and the constant offsets, so that nothing but the arena, the
// arguments and the runtime's functions lives across commands.
//
//===----------------------------------------------------------------------===//

#include "Conversion.h"

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// The members of optrt_api, by index.
enum ApiMember {
  kGemm = 1,
  kLaunch,
  kCollectiveStart,
  kCollectiveWait,
  kCopy,
  kAttention,
  kAttentionGrad,
  kAxisIndex,
  kNumApiMembers
};

class StepConverter {
public:
  StepConverter(func::FuncOp step, ModuleConstants &constants)
      : step(step), module(step->getParentOfType<ModuleOp>()),
        mesh(getMesh(step)), constants(constants), b(step.getContext()),
        loc(step.getLoc()) {
    ptr = LLVM::LLVMPointerType::get(step.getContext());
    i32 = b.getI32Type();
    i64 = b.getI64Type();
  }

  FailureOr<LLVM::LLVMFuncOp> convert();
  int64_t getNumCalls() const { return numCalls; }

private:
  using Fields = ArrayRef<std::pair<unsigned, int64_t>>;

  void createFunction();
  LogicalResult convert(Operation *op);
  LogicalResult convertLaunch(exec::LaunchOp op);
  /// Emits a call to the runtime that returns a status, and the test of it.
  void call(ApiMember member, ArrayRef<Value> operands);
  /// Emits a call of a command: rank, number, descriptor, then `operands`.
  LogicalResult command(ApiMember member, Operation *op,
                        std::optional<uint32_t> id, Value descriptor,
                        ArrayRef<Value> operands);

  Value constant(Type type, int64_t value) {
    return LLVM::ConstantOp::create(b, loc, type,
                                    b.getIntegerAttr(type, value));
  }
  Value addressOf(LLVM::GlobalOp global) {
    return LLVM::AddressOfOp::create(b, loc, global);
  }
  Value null() { return LLVM::ZeroOp::create(b, loc, ptr); }
  Value descriptor(StringRef prefix, Fields fields) {
    return addressOf(constants.getStruct(prefix, fields));
  }
  Value offset(Type element, Value base, int64_t elements) {
    if (elements == 0)
      return base;
    return LLVM::GEPOp::create(b, loc, ptr, element, base,
                               ArrayRef<LLVM::GEPArg>{constant(i64, elements)});
  }
  /// The pointer that a buffer is, computed here and now; null for no buffer.
  FailureOr<Value> address(Value buffer);
  /// An i64 or f32 operand of a launch.
  FailureOr<Value> scalar(Value value);
  FailureOr<int64_t> axisNumber(Operation *op, StringRef axis);
  /// This rank's index on an axis, asked for once, in the entry block.
  FailureOr<Value> axisIndex(Operation *op, StringRef axis);
  /// The combined index on several axes, slowest first.
  FailureOr<Value> combinedIndex(Operation *op, ArrayAttr axes);

  func::FuncOp step;
  ModuleOp module;
  MeshOp mesh;
  ModuleConstants &constants;
  OpBuilder b;
  Location loc;
  Type ptr, i32, i64;

  LLVM::LLVMFuncOp function;
  Block *entry = nullptr, *exit = nullptr;
  Value rank, arena, args;
  /// The cell that holds the status of the last call.
  Value lastStatus;
  Value api[kNumApiMembers];
  llvm::StringMap<Value> axisIndices;
  /// The launch argument array, and the cells of scalars on the stack.
  Value launchArgs;
  DenseMap<Value, Value> cells;
  int64_t numCalls = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void StepConverter::createFunction() {
  b.setInsertionPoint(step);
  function = LLVM::LLVMFuncOp::create(
      b, loc, ("optimus.step." + step.getSymName()).str(),
      LLVM::LLVMFunctionType::get(i32, {ptr, ptr, ptr}),
      LLVM::Linkage::Internal);
  entry = function.addEntryBlock(b);
  exit = b.createBlock(&function.getBody(), function.getBody().end());
  rank = entry->getArgument(0);
  arena = entry->getArgument(1);
  args = entry->getArgument(2);

  b.setInsertionPointToEnd(entry);
  // In memory: as an argument of the exit it would have a source for each of
  // thousands of calls, which LLVM looks through once for each of them.
  lastStatus = LLVM::AllocaOp::create(b, loc, ptr, i32, constant(i32, 1));
  // The longest launch decides the size of the argument array.
  int64_t longest = 0;
  step.walk([&](exec::LaunchOp op) {
    longest = std::max<int64_t>(longest, op.getBuffers().size() +
                                             op.getScalars().size());
    for (Value scalar : op.getScalars())
      if (!cells.count(scalar))
        cells[scalar] = LLVM::AllocaOp::create(b, loc, ptr, scalar.getType(),
                                               constant(i32, 1));
  });
  if (longest > 0)
    launchArgs = LLVM::AllocaOp::create(b, loc, ptr, ptr,
                                        constant(i32, longest));
  SmallVector<Type> members{i32};
  members.append(kNumApiMembers - 1, ptr);
  auto apiType = LLVM::LLVMStructType::getLiteral(b.getContext(), members);
  Value table =
      LLVM::LoadOp::create(b, loc, ptr, addressOf(getOrCreateApiGlobal(module)));
  for (int member = kGemm; member < kNumApiMembers; ++member) {
    Value field =
        LLVM::GEPOp::create(b, loc, ptr, apiType, table,
                            ArrayRef<LLVM::GEPArg>{0, int32_t(member)});
    api[member] = LLVM::LoadOp::create(b, loc, ptr, field);
  }
}

FailureOr<LLVM::LLVMFuncOp> StepConverter::convert() {
  if (!step.getBody().hasOneBlock())
    return step.emitOpError("expected straight-line commands, found control "
                            "flow");
  if (step.getNumResults() != 0)
    return step.emitOpError("expected no results on a function of commands; "
                            "run --optimus-to-exec first");
  createFunction();
  // Numbered axes are asked for in the entry block, before the first command.
  Block *first = b.createBlock(exit);
  b.setInsertionPointToEnd(first);
  for (Operation &op : step.getBody().front()) {
    loc = op.getLoc();
    if (failed(convert(&op)))
      return failure();
  }
  loc = step.getLoc();
  LLVM::ReturnOp::create(b, loc, constant(i32, 0));
  b.setInsertionPointToEnd(exit);
  LLVM::ReturnOp::create(b, loc,
                         LLVM::LoadOp::create(b, loc, i32, lastStatus));
  b.setInsertionPointToEnd(entry);
  LLVM::BrOp::create(b, loc, ValueRange(), first);
  step.erase();
  return function;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

void StepConverter::call(ApiMember member, ArrayRef<Value> operands) {
  ++numCalls;
  SmallVector<Type> types;
  for (Value operand : operands)
    types.push_back(operand.getType());
  SmallVector<Value> all{api[member]};
  llvm::append_range(all, operands);
  Value status =
      LLVM::CallOp::create(b, loc, LLVM::LLVMFunctionType::get(i32, types), all)
          .getResult();
  LLVM::StoreOp::create(b, loc, status, lastStatus);
  Value failed = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, status,
                                      constant(i32, 0));
  Block *current = b.getInsertionBlock();
  Block *next = b.createBlock(exit);
  b.setInsertionPointToEnd(current);
  LLVM::CondBrOp::create(b, loc, failed, exit, ValueRange(), next,
                         ValueRange());
  b.setInsertionPointToEnd(next);
}

LogicalResult StepConverter::command(ApiMember member, Operation *op,
                                     std::optional<uint32_t> id,
                                     Value descriptor,
                                     ArrayRef<Value> operands) {
  if (!id)
    return op->emitOpError("has no number; run --optimus-to-exec first");
  SmallVector<Value> all{rank, constant(i32, *id)};
  if (descriptor)
    all.push_back(descriptor);
  llvm::append_range(all, operands);
  call(member, all);
  return success();
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

FailureOr<int64_t> StepConverter::axisNumber(Operation *op, StringRef axis) {
  std::optional<int64_t> number =
      mesh ? mesh.getAxisIndex(axis) : std::nullopt;
  if (!number)
    return op->emitOpError("expected a mesh with axis \"") << axis << "\"";
  return *number;
}

FailureOr<Value> StepConverter::axisIndex(Operation *op, StringRef axis) {
  Value &index = axisIndices[axis];
  if (!index) {
    FailureOr<int64_t> number = axisNumber(op, axis);
    if (failed(number))
      return failure();
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(entry);
    index = LLVM::CallOp::create(
                b, loc, LLVM::LLVMFunctionType::get(i64, {ptr, i32}),
                ValueRange{api[kAxisIndex], rank, constant(i32, *number)})
                .getResult();
  }
  return index;
}

FailureOr<Value> StepConverter::combinedIndex(Operation *op, ArrayAttr axes) {
  Value combined;
  for (StringRef axis : axes.getAsValueRange<StringAttr>()) {
    FailureOr<Value> index = axisIndex(op, axis);
    if (failed(index))
      return failure();
    if (combined) {
      Value size = constant(i64, *mesh.getAxisSize(axis));
      combined = LLVM::MulOp::create(b, loc, combined, size);
      combined = LLVM::AddOp::create(b, loc, combined, *index);
    } else {
      combined = *index;
    }
  }
  return combined ? combined : constant(i64, 0);
}

FailureOr<Value> StepConverter::address(Value buffer) {
  if (!buffer)
    return null();
  Type element = cast<MemRefType>(buffer.getType()).getElementType();
  if (auto argument = dyn_cast<BlockArgument>(buffer)) {
    // The arena is an argument of its own; the runtime's list lacks it.
    int64_t position = argument.getArgNumber();
    bool hasArena =
        cast<MemRefType>(step.getArgumentTypes().front()).getElementType() ==
        b.getI8Type();
    Value slot = offset(ptr, args, position - (hasArena ? 1 : 0));
    return LLVM::LoadOp::create(b, loc, ptr, slot).getResult();
  }
  return TypeSwitch<Operation *, FailureOr<Value>>(buffer.getDefiningOp())
      .Case([&](exec::ArenaSlotOp op) -> FailureOr<Value> {
        return offset(b.getI8Type(), arena, op.getOffset());
      })
      .Case([&](exec::SliceOp op) -> FailureOr<Value> {
        FailureOr<Value> base = address(op.getBuffer());
        if (failed(base))
          return failure();
        return offset(element, *base, op.getOffset());
      })
      .Case([&](exec::SliceRankOp op) -> FailureOr<Value> {
        FailureOr<Value> base = address(op.getBuffer());
        FailureOr<Value> index = combinedIndex(op, op.getAxes());
        if (failed(base) || failed(index))
          return failure();
        Value elements = LLVM::MulOp::create(b, loc, *index,
                                             constant(i64, op.getStride()));
        return LLVM::GEPOp::create(b, loc, ptr, element, *base,
                                   ArrayRef<LLVM::GEPArg>{elements})
            .getResult();
      })
      .Case([&](exec::SelectRankOp op) -> FailureOr<Value> {
        FailureOr<Value> mine = address(op.getMine());
        FailureOr<Value> other = address(op.getOther());
        FailureOr<Value> index = axisIndex(op, op.getAxis());
        if (failed(mine) || failed(other) || failed(index))
          return failure();
        Value isMine =
            LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, *index,
                                 constant(i64, op.getIndex()));
        return LLVM::SelectOp::create(b, loc, isMine, *mine, *other)
            .getResult();
      })
      .Case([&](exec::AllocOp op) -> FailureOr<Value> {
        return op.emitOpError("has no place in the arena; run "
                              "--optimus-place-buffers first");
      })
      .Default([&](Operation *op) -> FailureOr<Value> {
        return op->emitOpError("cannot be lowered to an address");
      });
}

FailureOr<Value> StepConverter::scalar(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto extent = dyn_cast_or_null<exec::RealExtentOp>(op)) {
    FailureOr<Value> index = combinedIndex(op, extent.getAxes());
    if (failed(index))
      return failure();
    Value local = constant(i64, extent.getLocal());
    Value rest = LLVM::SubOp::create(
        b, loc, constant(i64, extent.getTotal()),
        LLVM::MulOp::create(b, loc, *index, local));
    Value atMost = LLVM::SMinOp::create(b, loc, rest, local);
    return LLVM::SMaxOp::create(b, loc, atMost, constant(i64, 0)).getResult();
  }
  if (auto part = dyn_cast_or_null<exec::PartOffsetOp>(op)) {
    FailureOr<Value> index = combinedIndex(op, part.getAxes());
    if (failed(index))
      return failure();
    return LLVM::MulOp::create(b, loc, *index, constant(i64, part.getLocal()))
        .getResult();
  }
  if (auto literal = dyn_cast_or_null<arith::ConstantOp>(op))
    return LLVM::ConstantOp::create(b, loc, literal.getType(),
                                    literal.getValue())
        .getResult();
  return step.emitOpError("launches a kernel with a scalar that is neither a "
                          "constant nor an extent or offset of this rank");
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

LogicalResult StepConverter::convertLaunch(exec::LaunchOp op) {
  int64_t position = 0;
  auto append = [&](Value pointer) {
    LLVM::StoreOp::create(b, loc, pointer,
                          offset(ptr, launchArgs, position++));
  };
  for (Value buffer : op.getBuffers()) {
    FailureOr<Value> pointer = address(buffer);
    if (failed(pointer))
      return failure();
    append(*pointer);
  }
  for (Value operand : op.getScalars()) {
    FailureOr<Value> value = scalar(operand);
    if (failed(value))
      return failure();
    Value cell = cells.lookup(operand);
    LLVM::StoreOp::create(b, loc, *value, cell);
    append(cell);
  }
  StringRef kernel = op.getKernel();
  Value descriptor = addressOf(
      constants.getLaunch(kernel, op.getExtent(), op.getGrain()));
  Value wrapper =
      LLVM::AddressOfOp::create(b, loc, ptr, getWrapperName(kernel));
  return command(kLaunch, op, op.getId(), descriptor, {wrapper, launchArgs});
}

LogicalResult StepConverter::convert(Operation *op) {
  // Computed where they are used.
  if (isa<exec::ArenaSlotOp, exec::SliceOp, exec::SliceRankOp,
          exec::SelectRankOp, exec::RealExtentOp, exec::PartOffsetOp,
          arith::ConstantOp, func::ReturnOp>(op))
    return success();
  if (auto launch = dyn_cast<exec::LaunchOp>(op))
    return convertLaunch(launch);

  SmallVector<Value> pointers;
  auto addresses = [&](ValueRange buffers) {
    for (Value buffer : buffers) {
      FailureOr<Value> pointer = address(buffer);
      if (failed(pointer))
        return false;
      pointers.push_back(*pointer);
    }
    return true;
  };
  auto attention = [&](auto op) {
    return descriptor("attention", {{64, op.getBatch()},
                                    {64, op.getSeq()},
                                    {64, op.getHeads()},
                                    {64, op.getKvHeads()},
                                    {64, op.getHeadDim()},
                                    {64, op.getQLd()},
                                    {64, op.getKvLd()},
                                    {32, op.getCausal()}});
  };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](exec::GemmOp op) -> LogicalResult {
        if (!addresses({op.getA(), op.getB(), op.getC(), op.getBias(),
                        op.getExtra()}))
          return failure();
        Value gemm = descriptor(
            "gemm", {{64, op.getM()},
                     {64, op.getN()},
                     {64, op.getK()},
                     {64, op.getLda()},
                     {64, op.getLdb()},
                     {64, op.getLdc()},
                     {64, op.getLdExtra()},
                     {32, op.getTransA()},
                     {32, op.getTransB()},
                     {32, op.getAccumulate()},
                     {32, static_cast<int32_t>(op.getEpilogue())},
                     {32, bool(op.getBias())},
                     {32, static_cast<int32_t>(op.getWeight())}});
        return command(kGemm, op, op.getId(), gemm, pointers);
      })
      .Case([&](exec::CopyOp op) -> LogicalResult {
        if (!addresses({op.getSrc(), op.getDst()}))
          return failure();
        Value copy = descriptor("copy", {{64, op.getRows()},
                                         {64, op.getCols()},
                                         {64, op.getSrcLd()},
                                         {64, op.getDstLd()}});
        return command(kCopy, op, op.getId(), copy, pointers);
      })
      .Case([&](exec::AttentionOp op) -> LogicalResult {
        if (!addresses({op.getQ(), op.getK(), op.getV(), op.getLengths(),
                        op.getOut(), op.getLse()}))
          return failure();
        return command(kAttention, op, op.getId(), attention(op), pointers);
      })
      .Case([&](exec::AttentionGradOp op) -> LogicalResult {
        if (!addresses({op.getDout(), op.getQ(), op.getK(), op.getV(),
                        op.getLengths(), op.getOut(), op.getLse(), op.getDq(),
                        op.getDk(), op.getDv()}))
          return failure();
        return command(kAttentionGrad, op, op.getId(), attention(op), pointers);
      })
      .Case([&](exec::CollectiveStartOp op) -> LogicalResult {
        FailureOr<int64_t> axis = axisNumber(op, op.getAxis());
        if (failed(axis) || !addresses({op.getSrc(), op.getDst()}))
          return failure();
        Value collective = descriptor(
            "collective", {{32, static_cast<int32_t>(op.getKind())},
                           {32, static_cast<int32_t>(op.getReduction())},
                           {32, *axis},
                           {32, op.getRoot()},
                           {64, op.getOuter()},
                           {64, op.getInner()},
                           {64, op.getSrcLd()},
                           {64, op.getDstLd()}});
        return command(kCollectiveStart, op, op.getId(), collective, pointers);
      })
      .Case([&](exec::WaitOp op) -> LogicalResult {
        return command(kCollectiveWait, op, op.getStart().getId(), Value(), {});
      })
      .Case([&](exec::AllocOp op) -> LogicalResult {
        return op.emitOpError("has no place in the arena; run "
                              "--optimus-place-buffers first");
      })
      .Default([&](Operation *op) -> LogicalResult {
        return op->emitOpError("is no command of the device program; run "
                               "--optimus-to-exec first");
      });
}

FailureOr<LLVM::LLVMFuncOp>
mlir::optimus::convertStep(func::FuncOp function, ModuleConstants &constants,
                           int64_t &numCalls) {
  StepConverter converter(function, constants);
  FailureOr<LLVM::LLVMFuncOp> result = converter.convert();
  numCalls += converter.getNumCalls();
  return result;
}
