//===- Manifest.cpp - Writes the manifest of a model library ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CPU/Manifest.h"

#include "optimus/Analysis/Rounding.h"
#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Target/CPU/KernelLibrary.h"
#include "optimus/Target/CPU/ModelDescription.h"

#include "optimus-support/Hash.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;
namespace json = llvm::json;

static constexpr llvm::StringLiteral kGradStep = "grad_step";

/// What rounding does to each result, by the result's binding.
static DictionaryAttr getRoundings(func::FuncOp function) {
  Builder builder(function.getContext());
  SmallVector<NamedAttribute> roundings;
  Operation *end = function.getBody().front().getTerminator();
  for (auto [index, value] : llvm::enumerate(end->getOperands()))
    if (auto binding = function.getResultAttrOfType<StringAttr>(
            index, OptimusDialect::kBinding))
      roundings.push_back(builder.getNamedAttr(
          binding.getValue(),
          builder.getF64FloatAttr(estimateRounding(value))));
  return builder.getDictionaryAttr(roundings);
}

/// Whatever the user's flags say of printed IR.
static OpPrintingFlags getPlainPrinting() {
  constexpr int64_t kAnySize = std::numeric_limits<int64_t>::max();
  return OpPrintingFlags()
      .elideLargeElementsAttrs(kAnySize)
      .elideLargeResourceString(kAnySize)
      .enableDebugInfo(false)
      .printGenericOpForm(false)
      .skipRegions(false)
      .useLocalScope(false)
      .printValueUsers(false)
      .printUniqueSSAIDs(false)
      .printNameLocAsPrefix(false);
}

void mlir::optimus::recordLayouts(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, getPlainPrinting());
  module->setAttr(
      exec::ExecDialect::kSourceHash,
      StringAttr::get(module.getContext(), optimus_support::hashToHex(
                                               optimus_support::hash64(text))));
  if (auto function = module.lookupSymbol<func::FuncOp>(kGradStep))
    module->setAttr(exec::ExecDialect::kRounding, getRoundings(function));
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (isa<RankedTensorType>(argument.getType()))
        function.setArgAttr(argument.getArgNumber(), kLocalTypeAttr,
                            TypeAttr::get(argument.getType()));
}

static json::Array toJson(ArrayRef<int64_t> values) {
  json::Array array;
  for (int64_t value : values)
    array.push_back(value);
  return array;
}

static json::Array toJson(ArrayRef<StringRef> values) {
  json::Array array;
  for (StringRef value : values)
    array.push_back(value);
  return array;
}

namespace {
class ManifestBuilder {
public:
  ManifestBuilder(ModuleOp module, const CpuTarget &target,
                  const ManifestOptions &options)
      : module(module), mesh(getMesh(module)), target(target),
        options(options) {}

  FailureOr<std::string> build();

private:
  LogicalResult addParams(func::FuncOp function);
  LogicalResult addInputs(func::FuncOp function);
  FailureOr<json::Object> getArg(func::FuncOp function, unsigned number);
  /// Adds what rounding does to a result of `grad_step` to its entry.
  void addRounding(func::FuncOp function, StringRef binding, json::Object &arg);
  FailureOr<json::Object> getFunction(func::FuncOp function);
  /// shape, local_shape and sharding of an argument; notes its dimensions.
  FailureOr<json::Object> getLayout(func::FuncOp function, unsigned number);
  json::Array getDimensions();

  struct Dimension {
    std::string name;
    int64_t size, padded;
    llvm::SetVector<StringRef> axes;
  };

  ModuleOp module;
  MeshOp mesh;
  const CpuTarget &target;
  const ManifestOptions &options;
  json::Array params;
  json::Object inputs;
  llvm::StringMap<int64_t> paramIndices;
  SmallVector<Dimension> dimensions;
  /// What model_hash covers.
  std::string identity;
};
} // namespace

FailureOr<json::Object> ManifestBuilder::getLayout(func::FuncOp function,
                                                   unsigned number) {
  auto local = function.getArgAttrOfType<TypeAttr>(number, kLocalTypeAttr);
  auto type = local ? dyn_cast<RankedTensorType>(local.getValue()) : nullptr;
  if (!type)
    return function.emitError("argument ")
           << number << " has no '" << kLocalTypeAttr
           << "'; layouts must be recorded before --optimus-to-exec";
  SmallVector<int64_t> shape = ccl::getGlobalShape(type);
  auto names =
      function.getArgAttrOfType<ArrayAttr>(number, OptimusDialect::kDims);
  json::Array sharding;
  for (int64_t d = 0, rank = type.getRank(); d < rank; ++d) {
    SmallVector<StringRef> axes = ccl::getDimAxes(type, d);
    sharding.push_back(toJson(ArrayRef<StringRef>(axes)));
    int64_t padded = type.getDimSize(d);
    for (StringRef axis : axes)
      padded *= *mesh.getAxisSize(axis);
    if (axes.empty() && padded == shape[d])
      continue;
    StringRef name = "dimension";
    if (names && d < static_cast<int64_t>(names.size()))
      if (auto text = dyn_cast<StringAttr>(names[d]))
        name = text.getValue();
    auto *known = llvm::find_if(dimensions, [&](const Dimension &other) {
      return StringRef(other.name).split('#').first == name &&
             other.size == shape[d] && other.padded == padded;
    });
    if (known == dimensions.end()) {
      // One class of several sizes: tell them apart.
      int64_t same = llvm::count_if(dimensions, [&](const Dimension &other) {
        return StringRef(other.name).split('#').first == name;
      });
      std::string unique = name.str();
      if (same > 0)
        unique += ("#" + Twine(same + 1)).str();
      dimensions.push_back({unique, shape[d], padded, {}});
      known = &dimensions.back();
    }
    known->axes.insert_range(axes);
  }
  return json::Object{{"shape", toJson(ArrayRef<int64_t>(shape))},
                      {"local_shape", toJson(type.getShape())},
                      {"sharding", std::move(sharding)}};
}

json::Array ManifestBuilder::getDimensions() {
  json::Array result;
  for (Dimension &dimension : dimensions)
    result.push_back(json::Object{
        {"name", dimension.name},
        {"size", dimension.size},
        {"padded", dimension.padded},
        {"axes", toJson(dimension.axes.getArrayRef())}});
  return result;
}

/// The argument that is bound so, if there is one.
static std::optional<unsigned> findBinding(func::FuncOp function,
                                           StringRef name) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto binding =
        function.getArgAttrOfType<StringAttr>(i, OptimusDialect::kBinding);
    if (binding && binding == name)
      return i;
  }
  return std::nullopt;
}

LogicalResult ManifestBuilder::addParams(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name =
        function.getArgAttrOfType<StringAttr>(i, OptimusDialect::kParam);
    if (!name)
      continue;
    FailureOr<json::Object> param = getLayout(function, i);
    if (failed(param))
      return failure();
    json::Array shape = *param->getArray("shape");
    if (auto hf = function.getArgAttrOfType<DenseI64ArrayAttr>(
            i, OptimusDialect::kHfShape))
      shape = toJson(hf.asArrayRef());
    identity += name.getValue();
    for (const json::Value &extent : shape)
      identity += (":" + Twine(*extent.getAsInteger())).str();
    identity += '\n';
    auto init =
        function.getArgAttrOfType<InitAttr>(i, OptimusDialect::kInit);
    json::Object initializer{{"kind", init.getKind()}};
    if (init.getKind() == "normal") {
      initializer["stddev"] = init.getStddev();
      initializer["stream"] = init.getStream();
    }
    paramIndices[name.getValue()] = params.size();
    // All states of a parameter lie alike.
    const OptimizerForm *form = lookupOptimizer(options.optimizer);
    std::string first =
        form ? (form->states.front() + ":" + name.getValue()).str() : "";
    if (std::optional<unsigned> kept = findBinding(function, first)) {
      FailureOr<json::Object> state = getLayout(function, *kept);
      if (failed(state))
        return failure();
      state->erase("shape");
      (*param)["state"] = std::move(*state);
    }
    (*param)["name"] = name.getValue();
    (*param)["decay"] = shape.size() >= 2;
    (*param)["hf_shape"] = std::move(shape);
    (*param)["init"] = std::move(initializer);
    params.push_back(std::move(*param));
  }
  return success();
}

LogicalResult ManifestBuilder::addInputs(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto binding =
        function.getArgAttrOfType<StringAttr>(i, OptimusDialect::kBinding);
    if (!binding || (binding != "tokens" && binding != "targets"))
      continue;
    FailureOr<json::Object> input = getLayout(function, i);
    if (failed(input))
      return failure();
    inputs[binding.getValue()] = std::move(*input);
  }
  return success();
}

void ManifestBuilder::addRounding(func::FuncOp function, StringRef binding,
                                  json::Object &arg) {
  auto roundings =
      module->getAttrOfType<DictionaryAttr>(exec::ExecDialect::kRounding);
  if (roundings && function.getSymName() == kGradStep)
    if (auto rounding = roundings.getAs<FloatAttr>(binding))
      arg["rounding"] = rounding.getValueAsDouble();
}

FailureOr<json::Object> ManifestBuilder::getArg(func::FuncOp function,
                                                unsigned number) {
  if (auto name = function.getArgAttrOfType<StringAttr>(
          number, OptimusDialect::kParam)) {
    auto index = paramIndices.find(name.getValue());
    if (index == paramIndices.end())
      return function.emitError("argument ")
             << number << " is the parameter '" << name.getValue()
             << "', which the first function does not have";
    return json::Object{{"kind", "param"}, {"index", index->second}};
  }
  auto binding =
      function.getArgAttrOfType<StringAttr>(number, OptimusDialect::kBinding);
  if (!binding)
    return function.emitError("argument ")
           << number << " has neither '" << OptimusDialect::kParam << "' nor '"
           << OptimusDialect::kBinding
           << "', so the runtime would not know what to pass";
  auto [kind, name] = binding.getValue().split(':');
  if (kind == "tokens" || kind == "targets" || kind == "random")
    return json::Object{{"kind", kind}};
  if (kind == "scalar")
    return json::Object{{"kind", kind}, {"name", name}};
  if (isOptimizerState(kind) || kind == "grad") {
    auto index = paramIndices.find(name);
    if (index == paramIndices.end())
      return function.emitError("argument ")
             << number << " is bound to the unknown parameter '" << name << "'";
    json::Object arg{{"kind", kind}, {"index", index->second}};
    addRounding(function, binding.getValue(), arg);
    return arg;
  }
  json::Object arg{{"kind", "output"}, {"name", binding.getValue()}};
  addRounding(function, binding.getValue(), arg);
  return arg;
}

FailureOr<json::Object> ManifestBuilder::getFunction(func::FuncOp function) {
  using exec::ExecDialect;
  json::Array args;
  // The arena is not in the runtime's list.
  for (unsigned i = 1; i < function.getNumArguments(); ++i) {
    FailureOr<json::Object> arg = getArg(function, i);
    if (failed(arg))
      return failure();
    args.push_back(std::move(*arg));
  }
  json::Object result{{"name", function.getSymName()},
                      {"args", std::move(args)}};
  for (auto [key, attr] :
       {std::pair(StringLiteral("commands"), ExecDialect::kCommands),
        std::pair(StringLiteral("arena_bytes"), ExecDialect::kArenaBytes),
        std::pair(StringLiteral("lower_bound_bytes"),
                  ExecDialect::kLowerBoundBytes)}) {
    auto value = function->getAttrOfType<IntegerAttr>(attr);
    if (!value)
      return function.emitError("has no '")
             << attr << "'; run --optimus-place-buffers first";
    result[key] = value.getInt();
  }
  json::Object peak;
  if (auto categories =
          function->getAttrOfType<DictionaryAttr>(ExecDialect::kPeakBytes))
    for (NamedAttribute category : categories)
      peak[category.getName().getValue()] =
          cast<IntegerAttr>(category.getValue()).getInt();
  result["peak_bytes"] = std::move(peak);
  json::Array communication;
  if (auto axes =
          function->getAttrOfType<ArrayAttr>(ExecDialect::kCommunication))
    for (auto axis : axes.getAsRange<DictionaryAttr>())
      communication.push_back(json::Object{
          {"axis", axis.getAs<StringAttr>("axis").getValue()},
          {"bytes", axis.getAs<IntegerAttr>("bytes").getInt()},
          {"messages", axis.getAs<IntegerAttr>("messages").getInt()}});
  result["communication"] = std::move(communication);
  if (auto schedule =
          function->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule)) {
    json::Object entries;
    for (NamedAttribute entry : schedule) {
      if (auto number = dyn_cast<FloatAttr>(entry.getValue()))
        entries[entry.getName().getValue()] = number.getValueAsDouble();
      else if (auto count = dyn_cast<IntegerAttr>(entry.getValue()))
        entries[entry.getName().getValue()] = count.getInt();
    }
    result["schedule"] = std::move(entries);
  }
  return result;
}

FailureOr<std::string> ManifestBuilder::build() {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function->hasAttr(KernelLibrary::kKernelAttr))
      functions.push_back(function);
  if (functions.empty()) {
    module.emitError("has no function to export");
    return failure();
  }
  // Every function has all parameters and inputs; the first one's are listed.
  if (failed(checkModelDescription(module)) ||
      failed(addParams(functions.front())) ||
      failed(addInputs(functions.front())))
    return failure();

  json::Object model;
  auto described =
      module->getAttrOfType<DictionaryAttr>(OptimusDialect::kModel);
  for (StringRef key : kModelKeys)
    model[key] = described.getAs<IntegerAttr>(key).getInt();

  json::Object objective{{"kind", "next_token"}};
  if (auto kind = described.getAs<StringAttr>("objective"))
    objective["kind"] = kind.getValue();
  for (StringRef key : {"mask_token", "pad_token"})
    if (auto value = described.getAs<IntegerAttr>(key))
      objective[key] = value.getInt();

  json::Array axes;
  if (mesh)
    for (MeshAxisAttr axis : mesh.getAxisList())
      axes.push_back(json::Object{{"axis", axis.getName().getValue()},
                                  {"size", axis.getSize()}});
  json::Array functionList;
  for (func::FuncOp function : functions) {
    FailureOr<json::Object> entry = getFunction(function);
    if (failed(entry))
      return failure();
    functionList.push_back(std::move(*entry));
  }
  json::Array states;
  if (const OptimizerForm *form = lookupOptimizer(options.optimizer))
    states = toJson(form->states);
  json::Array features;
  for (const std::string &feature : target.required)
    features.push_back(feature);
  auto hash = module->getAttrOfType<StringAttr>(exec::ExecDialect::kSourceHash);
  json::Object manifest{
      {"format", 1},
      {"compiler",
       "optimus " OPTIMUS_VERSION " (LLVM " LLVM_VERSION_STRING ")"},
      {"source_hash", hash ? hash.getValue() : ""},
      {"model_hash", optimus_support::hashToHex(optimus_support::hash64(
                         identity + options.optimizer))},
      {"target", json::Object{{"cpu", target.cpu},
                              {"features", std::move(features)}}},
      {"mesh", std::move(axes)},
      {"strategy", options.strategy},
      {"model", std::move(model)},
      {"objective", std::move(objective)},
      {"optimizer", options.optimizer},
      {"optimizer_state", std::move(states)},
      {"dimensions", getDimensions()},
      {"inputs", std::move(inputs)},
      {"params", std::move(params)},
      {"functions", std::move(functionList)}};
  return llvm::formatv("{0:2}", json::Value(std::move(manifest))).str();
}

FailureOr<std::string>
mlir::optimus::buildManifest(ModuleOp module, const CpuTarget &target,
                             const ManifestOptions &options) {
  return ManifestBuilder(module, target, options).build();
}
