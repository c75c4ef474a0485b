//===- KernelArithmetic.cpp - Arithmetic in kernels -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Elements.h"
#include "KernelFrame.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace mlir::exec;

namespace {

using Args = ArrayRef<Number>;

unsigned getWidth(Type type) {
  return type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
}

/// The bits of an integer, zeros in front.
uint64_t getUnsigned(Type type, Number number) {
  unsigned width = getWidth(type);
  auto bits = static_cast<uint64_t>(number.whole);
  return width >= 64 ? bits : bits & ((uint64_t(1) << width) - 1);
}

/// An integer of so many bits as we keep it.
int64_t wrap(Type type, uint64_t bits) {
  unsigned width = getWidth(type);
  if (width == 1)
    return bits & 1;
  unsigned unused = 64 - width;
  return static_cast<int64_t>(bits << unused) >> unused;
}

Number real(double value) { return {value, 0}; }
Number whole(uint64_t bits) { return {0, static_cast<int64_t>(bits)}; }

/// A number as its type holds it.
Number fit(Type type, Number number) {
  if (isa<FloatType>(type))
    return real(roundTo(type, number.real));
  return whole(wrap(type, number.whole));
}

uint64_t toBits(Type type, Number number) {
  if (!isa<FloatType>(type))
    return getUnsigned(type, number);
  uint64_t bits = 0;
  storeElement(type, number.real, reinterpret_cast<char *>(&bits));
  return bits;
}

Number fromBits(Type type, uint64_t bits) {
  if (!isa<FloatType>(type))
    return whole(bits);
  return real(loadElement(type, reinterpret_cast<const char *>(&bits)));
}

Type getOperandType(Operation *op, unsigned number = 0) {
  return getElementTypeOrSelf(op->getOperand(number).getType());
}

/// An operation that computes each lane of its result from those lanes of its
/// operands, as `Fn()(op, lanes)`.
template <typename Op, typename Fn>
struct LaneModel
    : InterpretableKernelOpInterface::ExternalModel<LaneModel<Op, Fn>, Op> {
  LogicalResult execute(Operation *op, KernelFrame &frame) const {
    SmallVector<const Numbers *, 3> operands;
    size_t numLanes = 1;
    for (Value operand : op->getOperands()) {
      operands.push_back(&frame.get(operand));
      numLanes = std::max(numLanes, operands.back()->size());
    }
    Type type = getElementTypeOrSelf(op->getResult(0).getType());
    Numbers result(numLanes);
    SmallVector<Number, 3> lanes(operands.size());
    for (size_t lane = 0; lane < numLanes; ++lane) {
      for (auto [number, operand] : llvm::zip_equal(lanes, operands))
        number = (*operand)[operand->size() == 1 ? 0 : lane];
      result[lane] = fit(type, Fn()(op, lanes));
    }
    frame.set(op->getResult(0), std::move(result));
    return success();
  }
};

template <typename Op, typename Fn>
void attach(MLIRContext &context, Fn) {
  Op::template attachInterface<LaneModel<Op, Fn>>(context);
}

struct ConstantModel
    : InterpretableKernelOpInterface::ExternalModel<ConstantModel,
                                                    arith::ConstantOp> {
  LogicalResult execute(Operation *op, KernelFrame &frame) const {
    Attribute value = cast<arith::ConstantOp>(op).getValue();
    Numbers numbers;
    if (auto number = dyn_cast<FloatAttr>(value))
      numbers.push_back(real(number.getValueAsDouble()));
    else if (auto number = dyn_cast<IntegerAttr>(value))
      numbers.push_back(
          fit(number.getType(), whole(number.getValue().getSExtValue())));
    else if (auto dense = dyn_cast<DenseFPElementsAttr>(value))
      for (const APFloat &element : dense.getValues<APFloat>())
        numbers.push_back(real(FloatAttr::get(dense.getElementType(), element)
                                   .getValueAsDouble()));
    else if (auto dense = dyn_cast<DenseIntElementsAttr>(value))
      for (const APInt &element : dense.getValues<APInt>())
        numbers.push_back(
            fit(dense.getElementType(), whole(element.getSExtValue())));
    else
      return op->emitOpError("cannot be interpreted in a kernel");
    frame.set(op->getResult(0), std::move(numbers));
    return success();
  }
};

struct MulUIExtendedModel
    : InterpretableKernelOpInterface::ExternalModel<MulUIExtendedModel,
                                                    arith::MulUIExtendedOp> {
  LogicalResult execute(Operation *op, KernelFrame &frame) const {
    Type type = getOperandType(op);
    const Numbers &a = frame.get(op->getOperand(0));
    const Numbers &b = frame.get(op->getOperand(1));
    Numbers low, high;
    for (auto [x, y] : llvm::zip_equal(a, b)) {
      auto product = static_cast<unsigned __int128>(getUnsigned(type, x)) *
                     getUnsigned(type, y);
      low.push_back(fit(type, whole(static_cast<uint64_t>(product))));
      high.push_back(
          fit(type, whole(static_cast<uint64_t>(product >> getWidth(type)))));
    }
    frame.set(op->getResult(0), std::move(low));
    frame.set(op->getResult(1), std::move(high));
    return success();
  }
};

/// Shifts by the width or more have no value; zero is as good as any.
template <typename Fn>
Number shift(Operation *op, Args x, Fn &&fn) {
  Type type = getOperandType(op);
  uint64_t by = getUnsigned(type, x[1]);
  return whole(by < getWidth(type) ? fn(getUnsigned(type, x[0]), by) : 0);
}

/// Nor has a division by zero.
template <typename Fn>
Number divide(Operation *op, Args x, Fn &&fn) {
  Type type = getOperandType(op);
  uint64_t by = getUnsigned(type, x[1]);
  return whole(by == 0 ? 0 : fn(getUnsigned(type, x[0]), by));
}

void attachFloats(MLIRContext &context) {
  attach<arith::AddFOp>(
      context, [](Operation *, Args x) { return real(x[0].real + x[1].real); });
  attach<arith::SubFOp>(
      context, [](Operation *, Args x) { return real(x[0].real - x[1].real); });
  attach<arith::MulFOp>(
      context, [](Operation *, Args x) { return real(x[0].real * x[1].real); });
  attach<arith::DivFOp>(
      context, [](Operation *, Args x) { return real(x[0].real / x[1].real); });
  attach<arith::CmpFOp>(context, [](Operation *op, Args x) {
    return whole(
        arith::applyCmpPredicate(cast<arith::CmpFOp>(op).getPredicate(),
                                 APFloat(x[0].real), APFloat(x[1].real)));
  });
}

void attachIntegers(MLIRContext &context) {
  // What overflows is cut off; unsigned, so that it may.
  attach<arith::AddIOp>(context, [](Operation *, Args x) {
    return whole(uint64_t(x[0].whole) + uint64_t(x[1].whole));
  });
  attach<arith::SubIOp>(context, [](Operation *, Args x) {
    return whole(uint64_t(x[0].whole) - uint64_t(x[1].whole));
  });
  attach<arith::MulIOp>(context, [](Operation *, Args x) {
    return whole(uint64_t(x[0].whole) * uint64_t(x[1].whole));
  });
  attach<arith::AndIOp>(context, [](Operation *, Args x) {
    return whole(x[0].whole & x[1].whole);
  });
  attach<arith::OrIOp>(context, [](Operation *, Args x) {
    return whole(x[0].whole | x[1].whole);
  });
  attach<arith::XOrIOp>(context, [](Operation *, Args x) {
    return whole(x[0].whole ^ x[1].whole);
  });
  attach<arith::MinSIOp>(context, [](Operation *, Args x) {
    return whole(std::min(x[0].whole, x[1].whole));
  });
  attach<arith::MaxSIOp>(context, [](Operation *, Args x) {
    return whole(std::max(x[0].whole, x[1].whole));
  });
  attach<arith::DivUIOp>(context, [](Operation *op, Args x) {
    return divide(op, x, [](uint64_t a, uint64_t b) { return a / b; });
  });
  attach<arith::RemUIOp>(context, [](Operation *op, Args x) {
    return divide(op, x, [](uint64_t a, uint64_t b) { return a % b; });
  });
  attach<arith::ShLIOp>(context, [](Operation *op, Args x) {
    return shift(op, x, [](uint64_t a, uint64_t by) { return a << by; });
  });
  attach<arith::ShRUIOp>(context, [](Operation *op, Args x) {
    return shift(op, x, [](uint64_t a, uint64_t by) { return a >> by; });
  });
  attach<arith::CmpIOp>(context, [](Operation *op, Args x) {
    unsigned width = getWidth(getOperandType(op));
    auto get = [&](Number number) {
      return APInt(64, number.whole, /*isSigned=*/true).trunc(width);
    };
    return whole(arith::applyCmpPredicate(
        cast<arith::CmpIOp>(op).getPredicate(), get(x[0]), get(x[1])));
  });
}

void attachConversions(MLIRContext &context) {
  auto same = [](Operation *, Args x) { return x[0]; };
  attach<arith::ExtFOp>(context, same);
  attach<arith::TruncFOp>(context, same);
  attach<arith::TruncIOp>(context, same);
  attach<arith::IndexCastOp>(context, same);
  auto zeroExtend = [](Operation *op, Args x) {
    return whole(getUnsigned(getOperandType(op), x[0]));
  };
  attach<arith::ExtUIOp>(context, zeroExtend);
  attach<arith::IndexCastUIOp>(context, zeroExtend);
  attach<arith::ExtSIOp>(context, [](Operation *op, Args x) {
    return getWidth(getOperandType(op)) == 1 ? whole(-x[0].whole) : x[0];
  });
  attach<arith::SIToFPOp>(context, [](Operation *, Args x) {
    return real(static_cast<double>(x[0].whole));
  });
  attach<arith::BitcastOp>(context, [](Operation *op, Args x) {
    return fromBits(getElementTypeOrSelf(op->getResult(0).getType()),
                    toBits(getOperandType(op), x[0]));
  });
  attach<arith::SelectOp>(
      context, [](Operation *, Args x) { return x[0].whole ? x[1] : x[2]; });
}

} // namespace

void mlir::exec::attachKernelArithmetic(MLIRContext &context) {
  arith::ConstantOp::attachInterface<ConstantModel>(context);
  arith::MulUIExtendedOp::attachInterface<MulUIExtendedModel>(context);
  attachFloats(context);
  attachIntegers(context);
  attachConversions(context);
}

void mlir::exec::attachKernelMath(MLIRContext &context) {
  attach<math::SqrtOp>(
      context, [](Operation *, Args x) { return real(std::sqrt(x[0].real)); });
}
