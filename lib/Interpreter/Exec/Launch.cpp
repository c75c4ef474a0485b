//===- Launch.cpp - Kernels as their bodies say -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelFrame.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::exec;

//===----------------------------------------------------------------------===//
// A kernel's frame
//===----------------------------------------------------------------------===//

const Numbers &KernelFrame::get(Value value) const {
  auto found = values.find(value);
  assert(found != values.end() && "operands are computed before their uses");
  return found->second;
}

FailureOr<Number> KernelFrame::load(Operation *op, Value memory,
                                    int64_t element) const {
  if (auto operand = operands.find(memory); operand != operands.end()) {
    double value = operand->second.read(element);
    bool isInteger =
        cast<MemRefType>(memory.getType()).getElementType().isInteger();
    return isInteger ? Number{0, static_cast<int64_t>(value)}
                     : Number{value, 0};
  }
  auto local = locals.find(memory);
  if (local == locals.end() || element < 0 ||
      element >= static_cast<int64_t>(local->second.size()) ||
      !local->second[element])
    return op->emitOpError("reads element ")
           << element << " of memory of the kernel, which nothing has written";
  return *local->second[element];
}

LogicalResult KernelFrame::store(Operation *op, Value memory, int64_t element,
                                 Number number) {
  auto type = cast<MemRefType>(memory.getType()).getElementType();
  if (auto operand = operands.find(memory); operand != operands.end()) {
    operand->second.write(element, isa<IntegerType>(type)
                                       ? static_cast<double>(number.whole)
                                       : number.real);
    return success();
  }
  auto local = locals.find(memory);
  if (local == locals.end() || element < 0 ||
      element >= static_cast<int64_t>(local->second.size()))
    return op->emitOpError("writes element ")
           << element << " of memory of the kernel, which does not have it";
  local->second[element] = number;
  return success();
}

LogicalResult KernelFrame::run(Block &block) {
  for (Operation &op : block.without_terminator()) {
    auto model = dyn_cast<InterpretableKernelOpInterface>(op);
    if (!model)
      return op.emitOpError("cannot be interpreted in a kernel");
    if (failed(model.execute(*this)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

namespace {
FailureOr<Number> evaluate(LaunchOp op, Value scalar, const Devices &devices,
                           int64_t rank) {
  if (auto number = scalar.getDefiningOp<RankNumberOpInterface>())
    return Number{0, devices.evaluate(number.getNumber(), rank)};
  IntegerAttr integer;
  if (matchPattern(scalar, m_Constant(&integer)))
    return Number{0, integer.getInt()};
  FloatAttr real;
  if (matchPattern(scalar, m_Constant(&real)))
    return Number{real.getValueAsDouble(), 0};
  return op.emitOpError("is given a scalar that is neither a constant nor a "
                        "number of its rank");
}

LogicalResult run(LaunchOp op, func::FuncOp kernel, Devices &devices,
                  int64_t rank, int64_t begin, int64_t end) {
  KernelFrame frame;
  Block &body = kernel.getBody().front();
  frame.set(body.getArgument(0), {{0, begin}});
  frame.set(body.getArgument(1), {{0, end}});
  unsigned next = 2;
  for (OpOperand &buffer : op.getBuffersMutable())
    frame.setOperand(body.getArgument(next++),
                     devices.getOperand(buffer, rank));
  for (Value scalar : op.getScalars()) {
    FailureOr<Number> number = evaluate(op, scalar, devices, rank);
    if (failed(number))
      return failure();
    frame.set(body.getArgument(next++), {*number});
  }
  return frame.run(body);
}

LogicalResult executeCommand(LaunchOp op, Devices &devices) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      op, op.getKernelAttr());
  if (!kernel || !kernel.getBody().hasOneBlock() || !op.getExtent())
    return op.emitOpError("launches ")
           << op.getKernelAttr()
           << ", which has no body of one block; run "
              "--optimus-build-kernels first";
  int64_t extent = *op.getExtent();
  // Iterations are independent: the later half may come first.
  for (int64_t rank = 0; rank < devices.getRanks().getNumRanks(); ++rank)
    if (failed(run(op, kernel, devices, rank, extent / 2, extent)) ||
        failed(run(op, kernel, devices, rank, 0, extent / 2)))
      return failure();
  return success();
}
} // namespace

void mlir::exec::attachLaunch(MLIRContext &context) {
  CommandModel<LaunchOp, executeCommand>::attach(context);
}
