//===- Addresses.cpp - Views of buffers as addresses ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionBuilder.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::optimus;

program::ElementType mlir::optimus::getElementType(Value buffer) {
  return getElementType(cast<MemRefType>(buffer.getType()).getElementType());
}

program::ElementType mlir::optimus::getElementType(Type type) {
  using enum program::ElementType;
  if (type.isF32())
    return F32;
  if (type.isBF16())
    return BF16;
  if (type.isF16())
    return F16;
  if (type.isF64())
    return F64;
  assert(type.isInteger(32) && "buffers hold nothing else");
  return I32;
}

FailureOr<uint32_t> AddressTable::getAxis(Operation *op, StringRef axis) {
  std::optional<int64_t> number =
      mesh ? mesh.getAxisIndex(axis) : std::nullopt;
  if (!number)
    return op->emitOpError("expected a mesh with axis \"") << axis << "\"";
  return static_cast<uint32_t>(*number);
}

LogicalResult AddressTable::addIndex(Operation *op,
                                     const exec::RankNumber &number,
                                     std::map<uint32_t, int64_t> &scales) {
  if (!number.axes)
    return success();
  int64_t scale = number.scale;
  for (Attribute name : llvm::reverse(number.axes.getValue())) {
    StringRef axis = cast<StringAttr>(name).getValue();
    FailureOr<uint32_t> index = getAxis(op, axis);
    if (failed(index))
      return failure();
    scales[*index] += scale;
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
  if (auto slot = dyn_cast<exec::ArenaSlotOp>(op)) {
    offset.bytes += slot.getOffset();
    return getPlace(program::Base::Arena,
                    cast<BlockArgument>(slot.getArena()).getArgNumber(),
                    offset);
  }
  auto view = dyn_cast<exec::BufferViewOpInterface>(op);
  if (!view)
    return op->emitOpError("has no place in the arena; run "
                           "--optimus-place-buffers first");
  exec::RankNumber behind = view.getByteOffset();
  offset.bytes += behind.constant;
  if (failed(addIndex(op, behind, offset.scales)))
    return failure();
  SmallVector<uint32_t, 2> viewed;
  for (Value base : view.getViewedBuffers()) {
    FailureOr<uint32_t> address = getAddress(base, offset);
    if (failed(address))
      return failure();
    viewed.push_back(*address);
  }
  if (std::optional<exec::RankChoice> choice = view.getChoice())
    return getChoice(op, *choice, viewed[0], viewed[1]);
  return viewed.front();
}

FailureOr<uint32_t> AddressTable::getChoice(Operation *op,
                                            const exec::RankChoice &choice,
                                            uint32_t mine, uint32_t other) {
  FailureOr<uint32_t> axis = getAxis(op, choice.axis);
  if (failed(axis))
    return failure();
  auto [entry, isNew] =
      choices.try_emplace({*axis, choice.index, mine, other},
                          static_cast<uint32_t>(result.addresses.size()));
  if (!isNew)
    return entry->second;
  program::ChoiceT location;
  location.axis = *axis;
  location.coordinate = choice.index;
  location.mine = mine;
  location.other = other;
  auto address = std::make_unique<program::AddressT>();
  address->location.Set(std::move(location));
  result.addresses.push_back(std::move(address));
  return entry->second;
}

FailureOr<uint32_t> AddressTable::getScalar(Value value) {
  auto known = scalars.find(value);
  if (known != scalars.end())
    return known->second;
  auto scalar = std::make_unique<program::ScalarT>();
  Attribute literal;
  if (auto number = value.getDefiningOp<exec::RankNumberOpInterface>()) {
    FailureOr<program::IntegerT> integer = getInteger(number);
    if (failed(integer))
      return failure();
    scalar->number.Set(std::move(*integer));
  } else if (matchPattern(value, m_Constant(&literal))) {
    if (auto real = dyn_cast<FloatAttr>(literal)) {
      program::RealT number;
      number.value = static_cast<float>(real.getValueAsDouble());
      scalar->number.Set(std::move(number));
    } else {
      program::IntegerT integer;
      integer.constant = cast<IntegerAttr>(literal).getInt();
      scalar->number.Set(std::move(integer));
    }
  } else {
    return function.emitOpError(
        "launches a kernel with a scalar that is neither a constant nor an "
        "extent or offset of this rank");
  }
  result.scalars.push_back(std::move(scalar));
  return scalars[value] = static_cast<uint32_t>(result.scalars.size() - 1);
}

FailureOr<program::IntegerT>
AddressTable::getInteger(exec::RankNumberOpInterface op) {
  exec::RankNumber number = op.getNumber();
  std::map<uint32_t, int64_t> scales;
  if (failed(addIndex(op, number, scales)))
    return failure();
  program::IntegerT integer;
  integer.constant = number.constant;
  if (number.least)
    integer.least = *number.least;
  if (number.most)
    integer.most = *number.most;
  addTerms(scales, integer);
  return integer;
}
