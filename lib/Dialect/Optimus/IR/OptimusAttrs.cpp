//===- OptimusAttrs.cpp - Attributes of the optimus dialect -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "optimus-support/Philox.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

//===----------------------------------------------------------------------===//
// Mesh axes
//===----------------------------------------------------------------------===//

LogicalResult MeshAxisAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringAttr name, int64_t size) {
  StringRef text = name.getValue();
  if (text.empty() || text.size() > 255 ||
      !llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
    return emitError() << "C5: expected an axis named by 1 to 255 letters, "
                          "digits or underscores, found "
                       << name;
  if (size < 1)
    return emitError() << "C1: expected axis " << name
                       << " of size 1 at least, found " << size;
  if (size > MeshOp::kMaxRanks)
    return emitError() << "C4: expected at most " << MeshOp::kMaxRanks
                       << " ranks, found " << size << " on axis " << name;
  return success();
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

/// Parses `{"row", "col"}`.
static FailureOr<ArrayAttr> parseAxes(AsmParser &parser) {
  SmallVector<Attribute> axes;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    if (parser.parseString(&name))
      return failure();
    axes.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseAxis))
    return failure();
  return ArrayAttr::get(parser.getContext(), axes);
}

static void printAxes(AsmPrinter &printer, ArrayAttr axes) {
  printer << '{';
  llvm::interleaveComma(axes, printer, [&](Attribute axis) {
    printer << '"' << cast<StringAttr>(axis).getValue() << '"';
  });
  printer << '}';
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  FlatSymbolRefAttr mesh;
  SmallVector<Attribute> dims;
  ArrayAttr unreduced = ArrayAttr::get(parser.getContext(), {});
  auto parseDim = [&]() -> ParseResult {
    FailureOr<ArrayAttr> axes = parseAxes(parser);
    if (failed(axes))
      return failure();
    dims.push_back(*axes);
    return success();
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseAttribute(mesh) ||
      parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseKeyword("unreduced") || parser.parseEqual())
      return {};
    FailureOr<ArrayAttr> axes = parseAxes(parser);
    if (failed(axes))
      return {};
    SmallVector<Attribute> sorted(axes->begin(), axes->end());
    llvm::sort(sorted, [](Attribute lhs, Attribute rhs) {
      return cast<StringAttr>(lhs).getValue() <
             cast<StringAttr>(rhs).getValue();
    });
    unreduced = ArrayAttr::get(parser.getContext(), sorted);
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ShardingAttr>(
      loc, parser.getContext(), mesh, ArrayAttr::get(parser.getContext(), dims),
      unreduced);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << '<' << getMesh() << ", [";
  llvm::interleaveComma(getDims(), printer, [&](Attribute axes) {
    printAxes(printer, cast<ArrayAttr>(axes));
  });
  printer << ']';
  if (!getUnreduced().empty()) {
    printer << ", unreduced = ";
    printAxes(printer, getUnreduced());
  }
  printer << '>';
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   FlatSymbolRefAttr mesh, ArrayAttr dims,
                                   ArrayAttr unreduced) {
  llvm::StringSet<> seen;
  auto check = [&](Attribute list) -> LogicalResult {
    auto axes = dyn_cast<ArrayAttr>(list);
    if (!axes)
      return emitError() << "expected a list of axes, found " << list;
    for (Attribute axis : axes) {
      auto name = dyn_cast<StringAttr>(axis);
      if (!name)
        return emitError() << "expected an axis name, found " << axis;
      if (!seen.insert(name.getValue()).second)
        return emitError() << "C1: expected each axis once, found " << name
                           << " twice";
    }
    return success();
  };
  for (Attribute list : dims)
    if (failed(check(list)))
      return failure();
  return check(unreduced);
}

static ArrayAttr toAxes(MLIRContext *context, ArrayRef<StringRef> axes) {
  SmallVector<Attribute> names;
  for (StringRef axis : axes)
    names.push_back(StringAttr::get(context, axis));
  return ArrayAttr::get(context, names);
}

static SmallVector<StringRef> fromAxes(ArrayAttr axes) {
  SmallVector<StringRef> names;
  for (Attribute axis : axes)
    names.push_back(cast<StringAttr>(axis).getValue());
  return names;
}

ShardingAttr ShardingAttr::get(FlatSymbolRefAttr mesh,
                               ArrayRef<SmallVector<StringRef>> dims,
                               ArrayRef<StringRef> unreduced) {
  MLIRContext *context = mesh.getContext();
  SmallVector<Attribute> lists;
  for (const SmallVector<StringRef> &axes : dims)
    lists.push_back(toAxes(context, axes));
  // One order of unreduced axes, so that equal states are equal attributes.
  SmallVector<StringRef> sorted(unreduced);
  llvm::sort(sorted);
  return get(context, mesh, ArrayAttr::get(context, lists),
             toAxes(context, sorted));
}

ShardingAttr ShardingAttr::getReplicated(FlatSymbolRefAttr mesh, int64_t rank) {
  return get(mesh, SmallVector<SmallVector<StringRef>>(rank));
}

SmallVector<StringRef> ShardingAttr::getDimAxes(int64_t dim) const {
  return fromAxes(cast<ArrayAttr>(getDims()[dim]));
}

SmallVector<StringRef> ShardingAttr::getUnreducedAxes() const {
  return fromAxes(getUnreduced());
}

bool ShardingAttr::isUnreducedOver(StringRef axis) const {
  return llvm::is_contained(getUnreducedAxes(), axis);
}

bool ShardingAttr::isReplicated() const {
  return getUnreduced().empty() && llvm::all_of(getDims(), [](Attribute axes) {
           return cast<ArrayAttr>(axes).empty();
         });
}

ShardingAttr ShardingAttr::withUnreduced(ArrayRef<StringRef> axes) const {
  SmallVector<StringRef> sorted(axes);
  llvm::sort(sorted);
  return get(getContext(), getMesh(), getDims(), toAxes(getContext(), sorted));
}

ShardingAttr ShardingAttr::withDimAxes(int64_t dim,
                                       ArrayRef<StringRef> axes) const {
  SmallVector<Attribute> dims(getDims().begin(), getDims().end());
  dims[dim] = toAxes(getContext(), axes);
  return get(getContext(), getMesh(), ArrayAttr::get(getContext(), dims),
             getUnreduced());
}

//===----------------------------------------------------------------------===//
// Init
//===----------------------------------------------------------------------===//

/// What precedes the number of a kind of initial value; empty if it has none.
static StringRef getNumberName(StringRef kind) {
  return llvm::StringSwitch<StringRef>(kind)
      .Case("normal", "stddev")
      .Case("uniform", "bound")
      .Case("constant", "value")
      .Default("");
}

Attribute InitAttr::parse(AsmParser &parser, Type) {
  StringRef kind;
  double number = 0;
  int64_t stream = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&kind))
    return {};
  StringRef name = getNumberName(kind);
  if (!name.empty() && (parser.parseComma() || parser.parseKeyword(name) ||
                        parser.parseEqual() || parser.parseFloat(number)))
    return {};
  if ((kind == "normal" || kind == "uniform") &&
      (parser.parseComma() || parser.parseKeyword("stream") ||
       parser.parseEqual() || parser.parseInteger(stream)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<InitAttr>(
      loc, parser.getContext(), kind,
      parser.getBuilder().getF64FloatAttr(number), stream);
}

void InitAttr::print(AsmPrinter &printer) const {
  printer << '<' << getKind();
  if (StringRef name = getNumberName(getKind()); !name.empty()) {
    printer << ", " << name << " = ";
    printer.printFloat(APFloat(getNumber()));
  }
  if (isDrawn())
    printer << ", stream = " << getStream();
  printer << '>';
}

LogicalResult InitAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               StringRef kind, FloatAttr numberAttr,
                               int64_t stream) {
  double number = numberAttr.getValueAsDouble();
  if (!llvm::is_contained({"normal", "uniform", "zeros", "ones", "constant"},
                          kind))
    return emitError() << "C1: expected normal, uniform, zeros, ones or "
                          "constant, found "
                       << kind;
  bool isFinite = std::isfinite(static_cast<float>(number));
  if ((kind == "normal" || kind == "uniform") && !(number >= 0 && isFinite))
    return emitError() << "C2: expected a "
                       << (kind == "normal" ? "standard deviation" : "bound")
                       << " of 0 at least, finite as an f32, found " << number;
  if (!isFinite)
    return emitError() << "C2: expected a constant that is finite as an f32, "
                          "found "
                       << number;
  if (stream < 0 || stream >= optimus_support::kFirstReservedStream)
    return emitError() << "C3: expected a stream from 0 to "
                       << optimus_support::kFirstReservedStream - 1
                       << ", found " << stream;
  return success();
}

//===----------------------------------------------------------------------===//
// Packed
//===----------------------------------------------------------------------===//

int64_t PackedAttr::getNumRows() const {
  return ShapedType::getNumElements(getShape()) / getRow();
}

bool PackedAttr::holds(int64_t elements) const {
  return elements % getNumRows() == 0 &&
         elements / getNumRows() <= getRow() - getBegin();
}

LogicalResult PackedAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringAttr name, ArrayRef<int64_t> shape,
                                 int64_t row, int64_t begin) {
  if (!isTensorShape(shape))
    return emitError() << "C1: expected the shape of a tensor, found [" << shape
                       << "]";
  if (row < 1 || ShapedType::getNumElements(shape) % row)
    return emitError() << "C2: expected rows that fill [" << shape
                       << "], found rows of " << row << " elements";
  if (begin < 0 || begin >= row)
    return emitError() << "C3: expected a place in a row of " << row
                       << " elements, found " << begin;
  return success();
}
