//===- ModelDescription.cpp - What a program says of its model --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CPU/ModelDescription.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "optimus-support/NearestName.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"
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
  /// That the parts that the ranks have of a tensor cover it.
  LogicalResult checkParts(func::FuncOp function, unsigned number,
                           RankedTensorType type);
  LogicalResult checkParam(func::FuncOp function, unsigned number,
                           StringRef name, RankedTensorType type);
  LogicalResult checkInput(func::FuncOp function, unsigned number,
                           StringRef name, RankedTensorType type);
  LogicalResult checkBinding(func::FuncOp function, const Twine &where,
                             Attribute value,
                             const llvm::StringMap<unsigned> &params);
  /// That what the runtime passes as `key` is the same for all functions.
  LogicalResult checkAgreement(func::FuncOp function, unsigned number,
                               StringRef key, RankedTensorType type);
  LogicalResult checkTable(Operation *op);

  int64_t get(StringRef key) {
    return described.getAs<IntegerAttr>(key).getInt();
  }

  ModuleOp module;
  DictionaryAttr described;
  llvm::StringMap<std::pair<func::FuncOp, RankedTensorType>> known;
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
  return dyn_cast<RankedTensorType>(function.getArgument(number).getType());
}

LogicalResult ModelChecker::checkAgreement(func::FuncOp function,
                                           unsigned number, StringRef key,
                                           RankedTensorType type) {
  auto [entry, isNew] = known.try_emplace(key, function, type);
  auto [other, expected] = entry->second;
  if (isNew || expected == type)
    return success();
  return function.emitOpError("argument ")
         << number << " ('" << key << "'): expected " << expected << ", as in @"
         << other.getSymName() << ", found " << type;
}

LogicalResult ModelChecker::checkParts(func::FuncOp function, unsigned number,
                                       RankedTensorType type) {
  MeshOp mesh = getMesh(module);
  for (auto [dim, extent] : llvm::enumerate(ccl::getGlobalShape(type))) {
    int64_t parts = 1;
    for (StringRef axis : ccl::getDimAxes(type, dim))
      parts *= mesh ? mesh.getAxisSize(axis).value_or(1) : 1;
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
  return checkAgreement(function, number, name, type);
}

LogicalResult ModelChecker::checkInput(func::FuncOp function, unsigned number,
                                       StringRef name, RankedTensorType type) {
  SmallVector<int64_t> shape = ccl::getGlobalShape(type);
  SmallVector<int64_t> expected{get("batch"), get("sequence")};
  if (shape != expected)
    return function.emitOpError("argument ")
           << number << ": expected " << name << " of [batch, sequence] = ["
           << expected << "], as " << OptimusDialect::kModel << " says, found ["
           << shape << "]";
  return checkAgreement(function, number, name, type);
}

LogicalResult
ModelChecker::checkBinding(func::FuncOp function, const Twine &where,
                           Attribute value,
                           const llvm::StringMap<unsigned> &params) {
  auto binding = dyn_cast_or_null<StringAttr>(value);
  if (!binding)
    return success();
  std::vector<std::string> known{"tokens",   "targets",    "random",
                                 "loss_sum", "real_count", "grad_norm"};
  for (StringRef optimizer : getKnownOptimizers())
    for (StringRef scalar : lookupOptimizer(optimizer)->scalars)
      known.push_back(("scalar:" + scalar).str());
  auto [kind, name] = binding.getValue().split(':');
  bool isOfParam = kind == "grad" || kind == "param" || isOptimizerState(kind);
  if (isOfParam ? params.contains(name)
                : llvm::is_contained(known, binding.getValue()))
    return success();
  InFlightDiagnostic error = function.emitOpError(where)
                             << ": the runtime knows nothing that is bound as "
                             << binding;
  if (isOfParam)
    return error << "; there is no parameter '" << name << "'";
  return error << optimus_support::didYouMean(binding.str(), known);
}

LogicalResult ModelChecker::check(func::FuncOp function) {
  StringRef unbound[] = {"tokens", "targets"};
  unsigned numUnbound = 0, numParams = 0;
  llvm::StringMap<unsigned> names;
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    RankedTensorType type = getTensorType(function, i);
    if (!type || !type.hasStaticShape())
      continue;
    if (failed(checkParts(function, i, type)))
      return failure();
    if (auto name =
            function.getArgAttrOfType<StringAttr>(i, OptimusDialect::kParam)) {
      auto [entry, isNew] = names.try_emplace(name.getValue(), i);
      if (!isNew)
        return function.emitOpError("argument ")
               << i << ": argument " << entry->second << " is the parameter '"
               << name.getValue() << "', too";
      ++numParams;
      if (failed(checkParam(function, i, name.getValue(), type)))
        return failure();
      continue;
    }
    auto binding =
        function.getArgAttrOfType<StringAttr>(i, OptimusDialect::kBinding);
    StringRef input = binding ? binding.getValue() : "";
    // Before steps are built only tokens and targets are integers.
    if (!binding && numParams > 0 && type.getElementType().isInteger(32) &&
        numUnbound < 2)
      input = unbound[numUnbound++];
    if ((input == "tokens" || input == "targets")
            ? failed(checkInput(function, i, input, type))
            : isOptimizerState(input.split(':').first) &&
                  failed(checkAgreement(function, i, input, type)))
      return failure();
  }
  if (numParams == 0)
    return success();
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
    if (failed(checkBinding(function, "argument " + Twine(i),
                            function.getArgAttr(i, OptimusDialect::kBinding),
                            names)))
      return failure();
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i)
    if (failed(checkBinding(function, "result " + Twine(i),
                            function.getResultAttr(i, OptimusDialect::kBinding),
                            names)))
      return failure();
  return success();
}

LogicalResult ModelChecker::checkTable(Operation *op) {
  Value table =
      llvm::TypeSwitch<Operation *, Value>(op)
          .Case<EmbeddingOp, HeadLossOp, HeadLossGradOp, ccl::HeadLossOp,
                ccl::HeadLossGradOp>([](auto op) { return op.getTable(); })
          .Default(Value());
  if (!table)
    return success();
  int64_t rows = ccl::getGlobalShape(table.getType()).front();
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
  WalkResult walked =
      module.walk([&](Operation *op) { return WalkResult(checkTable(op)); });
  return failure(walked.wasInterrupted());
}

LogicalResult mlir::optimus::checkModelDescription(ModuleOp module) {
  return ModelChecker(module).check();
}
