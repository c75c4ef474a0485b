//===- ModelDescription.cpp - What a program says of its model --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Manifest/ModelDescription.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/MeshRanks.h"

#include "optimus-support/NearestName.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
class ModelChecker {
public:
  explicit ModelChecker(ModuleOp module) : module(module) {}
  LogicalResult check();

private:
  LogicalResult checkAttribute();
  LogicalResult check(func::FuncOp function);
  /// Checks that the ranks' parts cover a tensor.
  LogicalResult checkParts(func::FuncOp function, unsigned number,
                           RankedTensorType type);
  LogicalResult checkParam(func::FuncOp function, unsigned number,
                           StringRef name, RankedTensorType type);
  LogicalResult checkInput(func::FuncOp function, unsigned number,
                           StringRef name, RankedTensorType type);
  /// Checks that the parameter of a buffer is there.
  LogicalResult checkOwner(func::FuncOp function, const Twine &where,
                           BufferAttr buffer,
                           const llvm::StringMap<unsigned> &params);
  /// Checks that all functions agree on a buffer and on the type of its
  /// contents, where known.
  LogicalResult checkAgreement(func::FuncOp function, const Twine &where,
                               BufferAttr buffer, RankedTensorType type);
  /// Checks that a function of tensors to be exported has a binding for each of
  /// them.
  LogicalResult checkBound(func::FuncOp function);
  LogicalResult checkTable(Operation *op);

  int64_t get(StringRef key) {
    return described.getAs<IntegerAttr>(key).getInt();
  }

  ModuleOp module;
  DictionaryAttr described;
  /// What was first said of a buffer.
  struct Known {
    func::FuncOp function;
    BufferAttr buffer;
    RankedTensorType type;
  };
  llvm::StringMap<Known> known;
};
} // namespace

LogicalResult ModelChecker::checkAttribute() {
  // Members are verified with the attribute.
  described = module->getAttrOfType<DictionaryAttr>(OptimusDialect::kModel);
  for (StringRef key : kModelKeys)
    if (!described || !described.getAs<IntegerAttr>(key))
      return module.emitError("expected an integer '")
             << key << "' in the module's attribute '" << OptimusDialect::kModel
             << "', which a library's manifest needs; write {"
             << OptimusDialect::kModel
             << " = {batch = 8 : i64, sequence = 128 : i64, vocabulary = 50257 "
                ": i64}} with the model's own numbers";
  return success();
}

/// The tensor that an argument is or, of a device program, holds a part of;
/// null if it is none.
static RankedTensorType getTensorType(func::FuncOp function, unsigned number) {
  if (auto local = function.getArgAttrOfType<TypeAttr>(
          number, exec::ExecDialect::kLocalType))
    return dyn_cast<RankedTensorType>(local.getValue());
  return dyn_cast<RankedTensorType>(function.getArgumentTypes()[number]);
}

LogicalResult ModelChecker::checkAgreement(func::FuncOp function,
                                           const Twine &where,
                                           BufferAttr buffer,
                                           RankedTensorType type) {
  std::string name = buffer.getName();
  Known &first =
      known.try_emplace(name, Known{function, buffer, type}).first->second;
  if (!first.type)
    first.type = type;
  auto fail = [&](Attribute expected, Attribute found) {
    return function.emitOpError(where)
           << " ('" << name << "'): expected " << expected << ", as in @"
           << first.function.getSymName() << ", found " << found;
  };
  if (first.buffer != buffer)
    return fail(first.buffer, buffer);
  if (type && first.type != type)
    return fail(TypeAttr::get(first.type), TypeAttr::get(type));
  return success();
}

LogicalResult ModelChecker::checkParts(func::FuncOp function, unsigned number,
                                       RankedTensorType type) {
  MeshOp mesh = getMesh(module);
  for (auto [dim, extent] : llvm::enumerate(ccl::getGlobalShape(type))) {
    int64_t parts = 1;
    for (StringRef axis : ccl::getDimAxes(type, dim))
      parts *= getRanksAlong(mesh, axis);
    if (llvm::divideCeil(extent, parts) >
        static_cast<uint64_t>(type.getDimSize(dim)))
      return function.emitOpError("argument ")
             << number << ": expected " << parts
             << " parts that cover the extent " << extent << " of dimension "
             << dim << ", found " << type;
  }
  return success();
}

LogicalResult ModelChecker::checkParam(func::FuncOp function, unsigned number,
                                       StringRef name, RankedTensorType type) {
  auto fail = [&]() {
    return function.emitOpError("parameter '")
           << name << "' (argument " << number << ")";
  };
  if (!function.getArgAttr(number, OptimusDialect::kInit))
    return fail() << ": expected " << OptimusDialect::kInit
                  << ", the values that training starts from; write "
                     "#optimus.init<zeros>, #optimus.init<ones> or "
                     "#optimus.init<normal, stddev = 0.02, stream = N>";
  SmallVector<int64_t> shape = ccl::getGlobalShape(type);
  if (auto hf = function.getArgAttrOfType<DenseI64ArrayAttr>(
          number, OptimusDialect::kHfShape))
    if (ShapedType::getNumElements(hf.asArrayRef()) !=
        ShapedType::getNumElements(shape))
      return fail() << ": expected " << OptimusDialect::kHfShape
                    << " to have as many elements as [" << shape << "], found ["
                    << hf.asArrayRef() << "]";
  if (auto packed = function.getArgAttrOfType<PackedAttr>(
          number, OptimusDialect::kPacked))
    if (!packed.holds(ShapedType::getNumElements(shape)))
      return fail() << ": expected " << OptimusDialect::kPacked
                    << " to have rows with as many of its elements each, found "
                    << packed;
  // Device programs do not say which tables they look up.
  auto dims =
      function.getArgAttrOfType<ArrayAttr>(number, OptimusDialect::kDims);
  for (auto [extent, dim] :
       llvm::zip(shape, dims ? dims.getValue() : ArrayRef<Attribute>()))
    if (dim == StringAttr::get(module.getContext(), "vocabulary") &&
        extent < get("vocabulary"))
      return fail() << ": expected a dimension \"vocabulary\" of at least "
                    << get("vocabulary") << ", the vocabulary of "
                    << OptimusDialect::kModel << ", found " << extent;
  return success();
}

LogicalResult ModelChecker::checkInput(func::FuncOp function, unsigned number,
                                       StringRef name, RankedTensorType type) {
  SmallVector<int64_t> shape = ccl::getGlobalShape(type);
  SmallVector<int64_t> expected{get("batch"), get("sequence")};
  StringRef says = OptimusDialect::kModel;
  if (shape == expected)
    if (EntryAttr entry = getEntry(function)) {
      expected = {entry.getBatch(), entry.getSequence()};
      says = OptimusDialect::kEntry;
    }
  if (shape != expected)
    return function.emitOpError("argument ")
           << number << ": expected " << name << " of [batch, sequence] = ["
           << expected << "], as " << says << " says, found [" << shape << "]";
  return success();
}

LogicalResult ModelChecker::checkOwner(func::FuncOp function,
                                       const Twine &where, BufferAttr buffer,
                                       const llvm::StringMap<unsigned> &params) {
  StringAttr of = buffer.getOf();
  if (!of || params.contains(of.getValue()))
    return success();
  // What prepares it has read the parameter.
  if (buffer.isPrepared())
    for (func::FuncOp preparer : findPreparers(function))
      for (unsigned i = 0, e = preparer.getNumArguments(); i < e; ++i)
        if (preparer.getArgAttr(i, OptimusDialect::kParam) == of)
          return success();
  std::vector<std::string> names;
  for (StringRef name : params.keys())
    names.push_back(name.str());
  llvm::sort(names);
  return function.emitOpError(where)
         << ": expected '" << buffer.getName()
         << "' to belong to a parameter of the function; there is no "
            "parameter '"
         << of.getValue() << '\''
         << optimus_support::didYouMean(of.str(), names);
}

LogicalResult ModelChecker::check(func::FuncOp function) {
  StringRef unbound[] = {"tokens", "targets"};
  unsigned numUnbound = 0;
  llvm::StringMap<unsigned> names;
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    RankedTensorType type = getTensorType(function, i);
    if (!type || !type.hasStaticShape())
      continue;
    if (failed(checkParts(function, i, type)))
      return failure();
    BufferAttr buffer = getArgumentBuffer(function, i);
    if (buffer && buffer.getLifetime() == Lifetime::Parameter) {
      StringRef name = buffer.getOf().getValue();
      auto [entry, isNew] = names.try_emplace(name, i);
      if (!isNew)
        return function.emitOpError("argument ")
               << i << ": argument " << entry->second << " is the parameter '"
               << name << "', too";
      if (failed(checkParam(function, i, name, type)))
        return failure();
    }
    BufferAttr input = buffer;
    // Before steps are built only tokens and targets are integers.
    if (!buffer && !names.empty() && type.getElementType().isInteger(32) &&
        numUnbound < 2)
      input = getInputBuffer(module.getContext(), unbound[numUnbound++]);
    if (input && input.getFilledBy() == FilledBy::Data &&
        failed(checkInput(function, i, input.getRole(), type)))
      return failure();
    if (input && failed(checkAgreement(function, "argument " + Twine(i), input,
                                       type)))
      return failure();
  }
  if (names.empty())
    return success();
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
    if (BufferAttr buffer = getArgumentBuffer(function, i))
      if (failed(checkOwner(function, "argument " + Twine(i), buffer, names)))
        return failure();
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i)
    if (auto buffer = function.getResultAttrOfType<BufferAttr>(
            i, OptimusDialect::kBinding))
      if (failed(checkOwner(function, "result " + Twine(i), buffer, names)) ||
          failed(checkAgreement(function, "result " + Twine(i), buffer, {})))
        return failure();
  return success();
}

LogicalResult ModelChecker::checkBound(func::FuncOp function) {
  // Steps are built of these, and bind what they are given.
  if (llvm::is_contained({"loss", "grad"}, function.getSymName()))
    return success();
  auto fail = [&](const char *what, unsigned number) {
    return function.emitOpError(what)
           << ' ' << number << ": expected '" << OptimusDialect::kParam
           << "' or '" << OptimusDialect::kBinding
           << "', by which the runtime passes it to @" << function.getSymName();
  };
  for (auto [number, type] : llvm::enumerate(function.getArgumentTypes()))
    if (isa<RankedTensorType>(type) && !getArgumentBuffer(function, number))
      return fail("argument", number);
  const SmallVector<BufferAttr> buffers = getResultBuffers(function);
  for (auto [number, type] : llvm::enumerate(function.getResultTypes()))
    if (isa<RankedTensorType>(type) && !buffers[number])
      return fail("result", number);
  return success();
}

LogicalResult ModelChecker::checkTable(Operation *op) {
  auto lookUp = dyn_cast<TokenTableOpInterface>(op);
  // A table of positions is none of tokens.
  auto stating = dyn_cast<ModelFactsOpInterface>(op);
  if (!lookUp || (stating && stating.getStandIn()))
    return success();
  int64_t rows = ccl::getGlobalShape(lookUp.getTokenTable().getType()).front();
  if (rows >= get("vocabulary"))
    return success();
  return op->emitOpError("expected a table of at least ")
         << get("vocabulary") << " rows, the vocabulary of "
         << OptimusDialect::kModel << ", found " << rows
         << ": other tokens would have none";
}

LogicalResult ModelChecker::check() {
  if (failed(checkAttribute()))
    return failure();
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(check(function)))
      return failure();
  // A program without a loss lacks more than that, as its phases will say.
  if (module.lookupSymbol("loss") ||
      llvm::any_of(module.getOps<func::FuncOp>(), getEntry))
    for (auto function : module.getOps<func::FuncOp>())
      if (failed(checkBound(function)))
        return failure();
  WalkResult walked =
      module.walk([&](Operation *op) { return WalkResult(checkTable(op)); });
  return failure(walked.wasInterrupted());
}

LogicalResult mlir::optimus::checkModelDescription(ModuleOp module) {
  return ModelChecker(module).check();
}
