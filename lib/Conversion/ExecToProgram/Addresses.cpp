//===- Addresses.cpp - Views of buffers as addresses ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::optimus;

program::ElementType mlir::optimus::getElementType(Value buffer) {
  Type type = cast<MemRefType>(buffer.getType()).getElementType();
  if (type.isF64())
    return program::ElementType::F64;
  return type.isInteger(32) ? program::ElementType::I32
                            : program::ElementType::F32;
}

FailureOr<uint32_t> AddressTable::getAxis(Operation *op, StringRef axis) {
  std::optional<int64_t> number =
      mesh ? mesh.getAxisIndex(axis) : std::nullopt;
  if (!number)
    return op->emitOpError("expected a mesh with axis \"") << axis << "\"";
  return static_cast<uint32_t>(*number);
}

LogicalResult AddressTable::addIndex(Operation *op, ArrayAttr axes,
                                     int64_t scale,
                                     std::map<uint32_t, int64_t> &scales) {
  for (StringRef axis :
       llvm::reverse(llvm::to_vector(axes.getAsValueRange<StringAttr>()))) {
    FailureOr<uint32_t> number = getAxis(op, axis);
    if (failed(number))
      return failure();
    scales[*number] += scale;
    scale *= *mesh.getAxisSize(axis);
  }
  return success();
}

void AddressTable::addTerms(const std::map<uint32_t, int64_t> &scales,
                            program::IntegerT &integer) {
  for (auto [axis, scale] : scales)
    if (scale != 0)
      integer.terms.emplace_back(scale, axis);
}

uint32_t AddressTable::getPlace(program::Base base, uint32_t index,
                                const Offset &offset) {
  auto [entry, isNew] =
      places.try_emplace({base, index, offset.bytes, offset.scales},
                         static_cast<uint32_t>(result.addresses.size()));
  if (!isNew)
    return entry->second;
  program::PlaceT place;
  place.base = base;
  place.index = index;
  place.bytes = std::make_unique<program::IntegerT>();
  place.bytes->constant = offset.bytes;
  addTerms(offset.scales, *place.bytes);
  auto address = std::make_unique<program::AddressT>();
  address->location.Set(std::move(place));
  result.addresses.push_back(std::move(address));
  return entry->second;
}

FailureOr<uint32_t> AddressTable::getAddress(Value buffer) {
  return getAddress(buffer, {});
}

FailureOr<uint32_t> AddressTable::getAddress(Value buffer, Offset offset) {
  if (auto argument = dyn_cast<BlockArgument>(buffer)) {
    // Arenas come first and are counted by themselves.
    return getPlace(program::Base::Argument,
                    argument.getArgNumber() - result.arenas.size(), offset);
  }
  Operation *op = buffer.getDefiningOp();
  const int64_t size = program::elementBytes(getElementType(buffer));
  if (auto slot = dyn_cast<exec::ArenaSlotOp>(op)) {
    offset.bytes += slot.getOffset();
    return getPlace(program::Base::Arena,
                    cast<BlockArgument>(slot.getArena()).getArgNumber(),
                    offset);
  }
  if (auto slice = dyn_cast<exec::SliceOp>(op)) {
    offset.bytes += slice.getOffset() * size;
    return getAddress(slice.getBuffer(), std::move(offset));
  }
  if (auto slice = dyn_cast<exec::SliceRankOp>(op)) {
    if (failed(addIndex(op, slice.getAxes(), slice.getStride() * size,
                        offset.scales)))
      return failure();
    return getAddress(slice.getBuffer(), std::move(offset));
  }
  if (auto select = dyn_cast<exec::SelectRankOp>(op)) {
    FailureOr<uint32_t> axis = getAxis(op, select.getAxis());
    FailureOr<uint32_t> mine = getAddress(select.getMine(), offset);
    FailureOr<uint32_t> other = getAddress(select.getOther(), offset);
    if (failed(axis) || failed(mine) || failed(other))
      return failure();
    auto [entry, isNew] = choices.try_emplace(
        {*axis, select.getIndex(), *mine, *other},
        static_cast<uint32_t>(result.addresses.size()));
    if (!isNew)
      return entry->second;
    program::ChoiceT choice;
    choice.axis = *axis;
    choice.coordinate = select.getIndex();
    choice.mine = *mine;
    choice.other = *other;
    auto address = std::make_unique<program::AddressT>();
    address->location.Set(std::move(choice));
    result.addresses.push_back(std::move(address));
    return entry->second;
  }
  if (isa<exec::AllocOp>(op))
    return op->emitOpError("has no place in the arena; run "
                           "--optimus-place-buffers first");
  return op->emitOpError("cannot be lowered to an address");
}

FailureOr<uint32_t> AddressTable::getScalar(Value value) {
  auto known = scalars.find(value);
  if (known != scalars.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  program::IntegerT integer;
  std::map<uint32_t, int64_t> scales;
  auto scalar = std::make_unique<program::ScalarT>();
  if (auto extent = dyn_cast_or_null<exec::RealExtentOp>(op)) {
    integer.constant = extent.getTotal();
    integer.least = 0;
    integer.most = extent.getLocal();
    if (failed(addIndex(op, extent.getAxes(), -extent.getLocal(), scales)))
      return failure();
  } else if (auto part = dyn_cast_or_null<exec::PartOffsetOp>(op)) {
    if (failed(addIndex(op, part.getAxes(), part.getLocal(), scales)))
      return failure();
  } else if (auto literal = dyn_cast_or_null<arith::ConstantOp>(op)) {
    if (auto number = dyn_cast<FloatAttr>(literal.getValue())) {
      program::RealT real;
      real.value = static_cast<float>(number.getValueAsDouble());
      scalar->number.Set(std::move(real));
    } else {
      integer.constant = cast<IntegerAttr>(literal.getValue()).getInt();
    }
  } else {
    return function.emitOpError(
        "launches a kernel with a scalar that is neither a constant nor an "
        "extent or offset of this rank");
  }
  addTerms(scales, integer);
  if (scalar->number.type == program::Number::NONE)
    scalar->number.Set(std::move(integer));
  result.scalars.push_back(std::move(scalar));
  return scalars[value] = static_cast<uint32_t>(result.scalars.size() - 1);
}
