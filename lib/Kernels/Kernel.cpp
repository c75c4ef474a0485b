//===- Kernel.cpp - A kernel as data ----------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/Kernel.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <numeric>

using namespace mlir;
using namespace mlir::optimus;

int64_t KernelOperand::getAlignment(int64_t ofTensors) const {
  return std::gcd(ofTensors, unit * elementType.getIntOrFloatBitWidth() / 8);
}

void KernelDescription::option(StringRef name, bool isSet) {
  if (isSet)
    stem += ("_" + name).str();
}

void KernelDescription::size(int64_t rows, int64_t cols) {
  suffix += llvm::formatv("_{0}x{1}", rows, cols).str();
}

void KernelDescription::number(double value) {
  suffix += llvm::formatv("_{0:x-16}", llvm::bit_cast<uint64_t>(value)).str();
}

KernelDescription &KernelDescription::add(StringRef name, int64_t extent,
                                          KernelAccess access, Type type) {
  KernelOperand &operand = operands.emplace_back();
  operand.name = name.str();
  operand.elementType = type ? type : builder.getF32Type();
  operand.extent = extent;
  operand.access = access;
  return *this;
}

void KernelDescription::share(StringRef name, const KernelOperand &operand) {
  std::optional<unsigned> known = findOperand(name);
  if (!known) {
    add(name, operand.extent, operand.access, operand.elementType)
        .inUnitsOf(operand.unit);
    return;
  }
  // What is written first is read as it was left.
  KernelOperand &shared = operands[*known];
  shared.unit = std::gcd(shared.unit, operand.unit);
  if (shared.access == KernelAccess::Read &&
      operand.access != KernelAccess::Read)
    shared.access = KernelAccess::Update;
}

void KernelDescription::overPieces(const IterationSpace &space,
                                   ArrayRef<int64_t> counts) {
  this->space = space;
  this->space.pieces.assign(counts.begin(), counts.end());
  int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t(0));
  if (space.kind == IterationSpace::Elements)
    this->space.cols = all;
  else
    this->space.rows = all;
}

KernelDescription &KernelDescription::inPlaceOf(ArrayRef<StringRef> names) {
  for (StringRef name : names)
    if (findOperand(name))
      operands.back().places.push_back(name.str());
  return *this;
}

LogicalResult KernelDescription::setElementTypes(ArrayRef<Type> types) {
  if (types.size() != operands.size())
    return failure();
  for (auto [operand, type] : llvm::zip_equal(operands, types)) {
    if (operand.elementType == type)
      continue;
    auto narrow = dyn_cast<FloatType>(type);
    if (!operand.elementType.isF32() || !narrow || narrow.getWidth() >= 32)
      return failure();
    operand.elementType = type;
  }
  return success();
}

/// As it follows what a name has: `_bf16`.
static std::string printType(Type type) {
  // Most are one of these, and the printer takes a hundred times as long.
  if (type.isF32())
    return "_f32";
  if (type.isBF16())
    return "_bf16";
  std::string text;
  llvm::raw_string_ostream(text) << '_' << type;
  return text;
}

std::string KernelDescription::listTypes(KernelAccess access) const {
  std::string types;
  for (const KernelOperand &operand : operands)
    if (operand.access == access)
      types += printType(operand.elementType);
  return types;
}

std::string KernelDescription::getName() const {
  auto isNarrow = [](const KernelOperand &operand) {
    return isa<FloatType>(operand.elementType) &&
           operand.elementType.getIntOrFloatBitWidth() < 32;
  };
  // The common type of all operands, or else the types that differ from the
  // usual ones.
  std::string types;
  if (llvm::any_of(operands, isNarrow)) {
    Type first = operands.front().elementType;
    if (llvm::all_of(operands, [&](const KernelOperand &operand) {
          return operand.elementType == first;
        }))
      types = printType(first);
    else if (isPositional)
      types = listTypes(KernelAccess::Read) + "_to" +
              listTypes(KernelAccess::Write);
    else
      for (const KernelOperand &operand : operands)
        if (isNarrow(operand))
          types += "_" + operand.name + printType(operand.elementType);
  }
  return stem + types + suffix;
}

template <typename Range, typename NameOf>
static std::optional<unsigned> findPosition(const Range &range, StringRef name,
                                            NameOf nameOf) {
  for (auto [position, entry] : llvm::enumerate(range))
    if (nameOf(entry) == name)
      return position;
  return std::nullopt;
}

std::optional<unsigned> KernelDescription::findOperand(StringRef name) const {
  return findPosition(
      operands, name,
      [](const KernelOperand &operand) -> StringRef { return operand.name; });
}

std::optional<unsigned> KernelDescription::findScalar(StringRef name) const {
  return findPosition(
      scalars, name,
      [](const std::string &scalar) -> StringRef { return scalar; });
}

FunctionType KernelDescription::getFunctionType() const {
  SmallVector<Type> inputs(2, builder.getIndexType());
  for (const KernelOperand &operand : operands)
    inputs.push_back(MemRefType::get({operand.extent}, operand.elementType));
  inputs.append(scalars.size(), builder.getI64Type());
  return builder.getFunctionType(inputs, {});
}
