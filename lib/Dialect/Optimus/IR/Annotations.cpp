//===- Annotations.cpp - Attributes on functions and operations -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect's discardable attributes: what a builder or a user wrote beside
// the program. They are read with their type given, so one of another type
// would pass for absent if nothing checked it here.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "optimus-support/NearestName.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::optimus;

LogicalResult mlir::optimus::verifySharding(Operation *op, const Twine &what,
                                            Type type, Attribute value) {
  auto sharding = dyn_cast<ShardingAttr>(value);
  if (!sharding)
    return op->emitOpError("A7: expected ")
           << what << " to be an #optimus.sharding, found " << value;
  auto tensor = dyn_cast<RankedTensorType>(type);
  // The device program keeps the sharding of what its flat buffers hold.
  if (tensor && sharding.getRank() != tensor.getRank())
    return op->emitOpError("A7: expected ")
           << what << " to be a sharding of the rank of " << type << ", found "
           << sharding;
  MeshOp mesh = getMesh(op);
  if (!mesh)
    return success();
  if (sharding.getMesh().getValue() != mesh.getSymName())
    return op->emitOpError("A7: expected ")
           << what << " to be on the mesh @" << mesh.getSymName() << ", found "
           << sharding;
  SmallVector<StringRef> axes = sharding.getUnreducedAxes();
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    axes.append(sharding.getDimAxes(dim));
  for (StringRef axis : axes)
    if (!mesh.getAxisSize(axis))
      return op->emitOpError("A7: expected ")
             << what << " to name axes of @" << mesh.getSymName()
             << ", found \"" << axis << '"';
  return success();
}

bool mlir::optimus::isPlainName(StringRef name) {
  return !name.empty() && name.size() <= 255 && llvm::json::isUTF8(name) &&
         llvm::none_of(name, [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

/// A12: refuses a name that nothing reads here.
static LogicalResult refuse(Operation *op, const Twine &where,
                            NamedAttribute attr, ArrayRef<StringRef> known) {
  std::string name = attr.getName().str();
  return op->emitOpError("A12: unknown attribute ")
         << name << where
         << optimus_support::didYouMean(name, {known.begin(), known.end()});
}

//===----------------------------------------------------------------------===//
// On operations
//===----------------------------------------------------------------------===//

/// Whether a text is that of a JSON object; false without one.
static bool isObject(StringAttr text) {
  if (!text)
    return false;
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text.getValue());
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return false;
  }
  return parsed->getAsObject() != nullptr;
}

static LogicalResult verifyModel(Operation *op, Attribute value) {
  auto fail = [&](const Twine &expected, auto found) {
    return op->emitOpError("A1: expected ")
           << OptimusDialect::kModel << expected << ", found " << found;
  };
  auto model = dyn_cast<DictionaryAttr>(value);
  if (!model)
    return fail(" to be a dictionary", value);
  auto verifyInteger = [&](StringRef key, int64_t least,
                           int64_t most) -> LogicalResult {
    auto number = model.getAs<IntegerAttr>(key);
    if (number && number.getType().isInteger(64) && number.getInt() >= least &&
        number.getInt() <= most)
      return success();
    std::string expected = (" to have an i64 '" + key + "' from " +
                            Twine(least) + " to " + Twine(most))
                               .str();
    if (Attribute found = model.get(key))
      return fail(expected, found);
    return fail(expected, "none");
  };
  for (StringRef key : {"batch", "sequence", "vocabulary"})
    if (failed(verifyInteger(key, 1, INT32_MAX)))
      return failure();
  int64_t lastToken = model.getAs<IntegerAttr>("vocabulary").getInt() - 1;
  if (model.contains("padded_vocabulary") &&
      failed(verifyInteger("padded_vocabulary", lastToken + 1, INT32_MAX)))
    return failure();
  auto objective = model.getAs<StringAttr>("objective");
  if (model.contains("objective") &&
      (!objective ||
       (objective != "next_token" && objective != "masked_token")))
    return fail(" to have the 'objective' \"next_token\" or \"masked_token\"",
                model.get("objective"));
  if (objective && objective == "masked_token" &&
      failed(verifyInteger("mask_token", 0, lastToken)))
    return failure();
  if (model.contains("pad_token") &&
      failed(verifyInteger("pad_token", 0, lastToken)))
    return failure();
  if (Attribute config = model.get("config"))
    if (!isObject(dyn_cast<StringAttr>(config)))
      return fail(" to have as 'config' the text of a JSON object", config);
  return success();
}

LogicalResult OptimusDialect::verifyOperationAttribute(Operation *op,
                                                       NamedAttribute attr) {
  auto expect = [&](StringRef label, bool holds,
                    StringRef expected) -> LogicalResult {
    if (holds)
      return success();
    return op->emitOpError()
           << label << ": expected " << attr.getName() << " to be " << expected
           << ", found " << attr.getValue();
  };
  if (attr.getName() == kModel && isa<ModuleOp>(op))
    return verifyModel(op, attr.getValue());
  if (attr.getName() == kEntry && isa<FunctionOpInterface>(op))
    return expect("A15", isa<EntryAttr>(attr.getValue()), "an #optimus.entry");
  if (attr.getName() == kRole)
    return expect("A5", isa<StringAttr>(attr.getValue()), "a string");
  if (attr.getName() == kMove) {
    auto move = dyn_cast<StringAttr>(attr.getValue());
    return expect("A10",
                  op->hasTrait<MovesInPanels>() && move &&
                      (move == kMovePanels || move == kMoveWhole),
                  "\"panels\" or \"whole\", on an optimus.matmul");
  }
  if (attr.getName() == kRecomputed)
    return expect("A12", isa<UnitAttr>(attr.getValue()), "without a value");
  if (attr.getName() == kCompilation && isa<ModuleOp>(op)) {
    auto flags = dyn_cast<DictionaryAttr>(attr.getValue());
    return expect("A11",
                  flags &&
                      llvm::all_of(flags,
                                   [](NamedAttribute flag) {
                                     return isa<StringAttr>(flag.getValue());
                                   }),
                  "a dictionary of strings");
  }
  if (attr.getName() == kFunction && isa<ModuleOp>(op)) {
    auto record = dyn_cast<DictionaryAttr>(attr.getValue());
    return expect("A14",
                  record && record.getAs<IntegerAttr>("version") &&
                      record.getAs<StringAttr>("hash") &&
                      record.getAs<DictionaryAttr>("facts") &&
                      record.getAs<DictionaryAttr>("incidental"),
                  "a dictionary with an integer 'version', a string 'hash' and "
                  "dictionaries 'facts' and 'incidental'");
  }
  auto list = dyn_cast<ArrayAttr>(attr.getValue());
  bool oneEach = list && list.size() == op->getNumResults();
  if (attr.getName() == kResultRoles)
    return expect("A5",
                  oneEach && llvm::all_of(list, llvm::IsaPred<StringAttr>),
                  "an array of one string for each result");
  if (attr.getName() != kShardings)
    return refuse(op, "", attr,
                  {kModel, kEntry, kRole, kMove, kResultRoles, kShardings});
  if (failed(expect("A7", oneEach, "an array of one sharding for each result")))
    return failure();
  for (auto [index, type, value] : llvm::enumerate(op->getResultTypes(), list))
    if (!isa<UnitAttr>(value) &&
        failed(verifySharding(op, Twine(kShardings) + "[" + Twine(index) + "]",
                              type, value)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// On arguments and results of functions
//===----------------------------------------------------------------------===//

/// What is wrong with the name of a parameter; empty if nothing.
static StringRef checkParamName(StringRef name) {
  if (!isPlainName(name) || name.contains(':'))
    return "a name of 1 to 255 bytes of UTF-8, without control characters and "
           "colons";
  if (name == "__metadata__")
    return "another name: safetensors files keep this one for themselves";
  if (isOptimizerState(name.split('.').first) && name.contains('.'))
    return "another name: checkpoints give it to what an optimizer keeps";
  return "";
}

/// What is wrong with the place of a parameter among others; empty if nothing.
static StringRef checkPacked(Attribute value, Type type) {
  auto packed = dyn_cast<PackedAttr>(value);
  if (!packed)
    return "an #optimus.packed";
  if (StringRef problem = checkParamName(packed.getName()); !problem.empty())
    return problem;
  // A part of a tensor tells in its encoding of what.
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && !tensor.getEncoding() && isTensorShape(tensor.getShape()) &&
      !packed.holds(tensor.getNumElements()))
    return "rows with as many of the parameter's elements each";
  return "";
}

/// Whether a checkpoint's shape has the elements of a parameter of some type.
static bool isShapeOf(DenseI64ArrayAttr shape, Type type) {
  if (!isTensorShape(shape.asArrayRef()))
    return false;
  // A part of a tensor tells in its encoding of what: the manifest is held
  // against that.
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getEncoding() || !isTensorShape(tensor.getShape()))
    return true;
  int64_t elements = 1;
  for (int64_t extent : shape.asArrayRef())
    elements *= extent;
  return elements == tensor.getNumElements();
}

namespace {
/// Where an attribute of a function's signature stands.
struct SignaturePlace {
  bool isArgument;
  unsigned number;

  std::string str() const {
    return ((isArgument ? "argument " : "result ") + Twine(number)).str();
  }
};
} // namespace

/// A9 and A13: a binding says one thing, and nothing else says another.
static LogicalResult verifyBinding(FunctionOpInterface function,
                                   SignaturePlace place, Attribute value) {
  auto fail = [&](const Twine &expected) -> InFlightDiagnostic {
    return function->emitOpError("A9: expected ")
           << OptimusDialect::kBinding << " of " << place.str() << " to be "
           << expected;
  };
  auto buffer = dyn_cast<BufferAttr>(value);
  if (place.isArgument) {
    auto input = dyn_cast<StringAttr>(value);
    bool isInput =
        input && getInputBuffer(function.getContext(), input.getValue());
    if (!buffer && !isInput)
      return fail("an #optimus.buffer, or of the input of a builder's program "
                  "\"tokens\", \"targets\" or \"random\"")
             << ", found " << value;
    for (StringRef other : {OptimusDialect::kParam, OptimusDialect::kInit})
      if (function.getArgAttr(place.number, other))
        return function->emitOpError("A13: expected ")
               << place.str() << " to have no " << other << " beside its "
               << OptimusDialect::kBinding << ", which says it";
    return success();
  }
  if (!buffer || buffer.getFilledBy() != FilledBy::Program)
    return fail("an #optimus.buffer that the program fills")
           << ", found " << value;
  if (std::optional<unsigned> donor = getDonor(function, place.number))
    return function->emitOpError("A13: expected ")
           << place.str() << " to have no " << OptimusDialect::kBinding
           << ": argument " << *donor << " donates its buffer to it";
  return success();
}

/// Checks an attribute of an argument or a result of a function.
static LogicalResult verifySignature(FunctionOpInterface function,
                                     SignaturePlace place, Type type,
                                     NamedAttribute attr) {
  const std::string where = place.str();
  StringRef name = attr.getName();
  Attribute value = attr.getValue();
  auto expect = [&](StringRef label, bool holds,
                    const Twine &expected) -> LogicalResult {
    if (holds)
      return success();
    return function->emitOpError()
           << label << ": expected " << name << " of " << where << " to be "
           << expected << ", found " << value;
  };
  auto text = dyn_cast<StringAttr>(value);
  if (name == OptimusDialect::kSharding)
    return verifySharding(function, name + " of " + where, type, value);
  if (name == OptimusDialect::kRole)
    return expect("A5", text != nullptr, "a string");
  if (name == OptimusDialect::kBinding)
    return verifyBinding(function, place, value);
  if (name == OptimusDialect::kParam) {
    StringRef problem = text ? checkParamName(text.getValue()) : "a string";
    return expect("A2", problem.empty(), problem);
  }
  if (name == OptimusDialect::kInit)
    return expect("A4", isa<InitAttr>(value), "an #optimus.init");
  if (name == OptimusDialect::kHfShape) {
    auto shape = dyn_cast<DenseI64ArrayAttr>(value);
    if (failed(expect(
            "A3",
            shape && llvm::all_of(shape.asArrayRef(),
                                  [](int64_t extent) { return extent > 0; }),
            "an array<i64> of positive extents")))
      return failure();
    std::string expected;
    llvm::raw_string_ostream(expected)
        << "a shape of as many elements as " << type;
    return expect("A3", isShapeOf(shape, type), expected);
  }
  if (name == OptimusDialect::kPacked) {
    StringRef problem = checkPacked(value, type);
    return expect("A16", problem.empty(), problem);
  }
  if (name == OptimusDialect::kDims) {
    auto names = dyn_cast<ArrayAttr>(value);
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (failed(expect("A6",
                      names && llvm::all_of(names, llvm::IsaPred<StringAttr>) &&
                          (!tensor || static_cast<int64_t>(names.size()) ==
                                          tensor.getRank()),
                      "an array of one string for each dimension")))
      return failure();
    return expect(
        "A6", llvm::all_of(names.getAsValueRange<StringAttr>(), isPlainName),
        "names of 1 to 255 bytes of UTF-8 without control characters");
  }
  if (name == OptimusDialect::kDonates) {
    auto result = dyn_cast<IntegerAttr>(value);
    return expect("A8",
                  result && result.getType().isInteger(64) &&
                      result.getInt() >= 0 &&
                      result.getInt() < function.getNumResults(),
                  "the number of a result, an i64 below " +
                      Twine(function.getNumResults()));
  }
  return refuse(function, " of " + where, attr,
                {OptimusDialect::kSharding, OptimusDialect::kRole,
                 OptimusDialect::kBinding, OptimusDialect::kParam,
                 OptimusDialect::kInit, OptimusDialect::kHfShape,
                 OptimusDialect::kPacked, OptimusDialect::kDims,
                 OptimusDialect::kDonates});
}

LogicalResult OptimusDialect::verifyRegionArgAttribute(Operation *op,
                                                       unsigned region,
                                                       unsigned index,
                                                       NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  return verifySignature(function, {/*isArgument=*/true, index},
                         function.getArgumentTypes()[index], attr);
}

LogicalResult OptimusDialect::verifyRegionResultAttribute(Operation *op,
                                                          unsigned region,
                                                          unsigned index,
                                                          NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  return verifySignature(function, {/*isArgument=*/false, index},
                         function.getResultTypes()[index], attr);
}
