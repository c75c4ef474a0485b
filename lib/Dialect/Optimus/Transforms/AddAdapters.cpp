//===- AddAdapters.cpp - Low-rank adapters beside linears -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whichever way a host's weight lies, A is [rank, in…] and B [out…, rank], with
// the host's dimensions: so a host with three groups of heads has as many in B.
//
//   %c_attn: tensor<hx3xnxd>            %A: tensor<rxh>   %B: tensor<3xnxdxr>
//   %y = matmul %x, %c_attn             tensor<bxsx3xnxd>
//   %h = matmul %x, %A {transpose_b}    tensor<bxsxr>
//   %s = mul %h, dense<alpha / r>
//   %z = matmul %s, %B {transpose_b}    tensor<bxsx3xnxd>
//   add %y, %z                          in place of %y
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/Transforms/AdapterOption.h"
#include "optimus/Dialect/Optimus/Transforms/Passes.h"

#include "optimus-support/NearestName.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/JSON.h"

#include <cmath>

#define DEBUG_TYPE "optimus-add-adapters"

namespace mlir::optimus {
#define GEN_PASS_DEF_ADDADAPTERSPASS
#include "optimus/Dialect/Optimus/Transforms/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;
namespace json = llvm::json;

static constexpr StringLiteral kWeight = ".weight";

/// "a.b.c_attn" of the parameter "a.b.c_attn.weight"; empty of others.
static StringRef getModulePath(StringRef parameter) {
  return parameter.consume_back(kWeight) ? parameter : StringRef();
}

/// As PEFT matches: the whole path, or its end behind a dot.
static bool isAt(StringRef path, StringRef target) {
  return path == target || (path.consume_back(target) && path.ends_with("."));
}

static int64_t count(ArrayRef<int64_t> extents) {
  return ShapedType::getNumElements(extents);
}

namespace {
/// What the functions of a module share of a host's adapter.
struct Adapter {
  std::string prefix; ///< of its parameters' names
  int64_t stream;     ///< of A
};

class AddAdaptersPass
    : public mlir::optimus::impl::AddAdaptersPassBase<AddAdaptersPass> {
public:
  using AddAdaptersPassBase::AddAdaptersPassBase;

  void runOnOperation() override {
    if (lora.empty())
      return;
    llvm::Expected<AdapterOption> parsed = AdapterOption::parse(lora);
    if (!parsed) {
      getOperation().emitError("--lora: ")
          << llvm::toString(parsed.takeError());
      return signalPassFailure();
    }
    option = std::move(*parsed);
    readModel();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.getBody().hasOneBlock() && failed(addTo(function)))
        return signalPassFailure();
    if (failed(checkTargets()))
      return signalPassFailure();
    numAdapters += adapters.size();
    describe();
  }

private:
  void readModel();
  LogicalResult addTo(func::FuncOp function);
  LogicalResult addTo(func::FuncOp function, BlockArgument weight,
                      StringRef path);
  BlockArgument addParameter(func::FuncOp function, unsigned number,
                             const Twine &name, ArrayRef<int64_t> shape,
                             ArrayRef<int64_t> savedShape,
                             ArrayRef<Attribute> dims, InitAttr init,
                             Location loc);
  /// Every target is one of some function's linears.
  LogicalResult checkTargets();
  /// Records what PEFT's adapter_config.json says.
  void describe();

  AdapterOption option;
  std::string modelType;
  int64_t nextStream = 0;
  llvm::MapVector<StringAttr, Adapter> adapters; ///< by the host's parameter
  SmallVector<std::string> modules;
  /// Whether hosts are [in, out], once there is one.
  std::optional<bool> isFanInFirst;
};
} // namespace

void AddAdaptersPass::readModel() {
  if (auto model =
          getOperation()->getAttrOfType<DictionaryAttr>(OptimusDialect::kModel))
    if (auto config = model.getAs<StringAttr>("config")) {
      llvm::Expected<json::Value> value = json::parse(config.getValue());
      if (!value)
        llvm::consumeError(value.takeError());
      else if (const json::Object *object = value->getAsObject())
        modelType = object->getString("model_type").value_or("").str();
    }
  // Streams of initial values and of random draws.
  getOperation().walk([&](Operation *op) {
    if (auto stream = op->getAttrOfType<IntegerAttr>("stream"))
      nextStream = std::max(nextStream, stream.getInt() + 1);
    auto function = dyn_cast<func::FuncOp>(op);
    for (unsigned i = 0; function && i < function.getNumArguments(); ++i)
      if (auto init =
              function.getArgAttrOfType<InitAttr>(i, OptimusDialect::kInit);
          init && init.isDrawn())
        nextStream = std::max(nextStream, init.getStream() + 1);
  });
}

LogicalResult AddAdaptersPass::addTo(func::FuncOp function) {
  SmallVector<std::pair<BlockArgument, std::string>> hosts;
  for (BlockArgument argument : function.getArguments()) {
    StringAttr name = getParameterName(argument);
    if (!name)
      continue;
    auto packed = function.getArgAttrOfType<PackedAttr>(
        argument.getArgNumber(), OptimusDialect::kPacked);
    StringRef path = getModulePath(name);
    StringRef outer = packed ? getModulePath(packed.getName()) : StringRef();
    if (path.empty())
      continue;
    for (StringRef target : option.targets) {
      if (!isAt(path, target) && (outer.empty() || !isAt(outer, target)))
        continue;
      if (packed)
        return function.emitError("--lora: the target '")
               << target << "' has several parameters in one tensor, "
               << packed.getName()
               << "; expected a linear with a tensor of its own";
      hosts.emplace_back(argument, path.str());
    }
    modules.push_back(path.str());
  }
  for (auto &[weight, path] : hosts)
    if (failed(addTo(function, weight, path)))
      return failure();
  return success();
}

BlockArgument AddAdaptersPass::addParameter(func::FuncOp function,
                                            unsigned number, const Twine &name,
                                            ArrayRef<int64_t> shape,
                                            ArrayRef<int64_t> savedShape,
                                            ArrayRef<Attribute> dims,
                                            InitAttr init, Location loc) {
  Builder builder(&getContext());
  NamedAttrList attributes;
  attributes.set(OptimusDialect::kParam, builder.getStringAttr(name));
  if (shape != savedShape)
    attributes.set(OptimusDialect::kHfShape,
                   builder.getDenseI64ArrayAttr(savedShape));
  attributes.set(OptimusDialect::kInit, init);
  if (!dims.empty())
    attributes.set(OptimusDialect::kDims, builder.getArrayAttr(dims));
  (void)function.insertArgument(
      number, RankedTensorType::get(shape, builder.getF32Type()),
      attributes.getDictionary(&getContext()), withPath(loc, name.str()));
  return function.getArgument(number);
}

LogicalResult AddAdaptersPass::addTo(func::FuncOp function,
                                     BlockArgument weight, StringRef path) {
  auto fail = [&](StringRef found) {
    return function.emitError("--lora: expected '")
           << path << "' to be a linear; " << found;
  };
  SmallVector<MatmulOp> products;
  for (Operation *user : weight.getUsers()) {
    auto product = dyn_cast<MatmulOp>(user);
    if (!product || product.getB() != weight || product.getTransposeA())
      return fail("found its weight in " +
                  user->getName().getStringRef().str());
    products.push_back(product);
  }
  if (products.empty())
    return fail("found nothing that reads its weight");

  MatmulOp first = products.front();
  bool isInFirst = !first.getTransposeB();
  if (isFanInFirst.value_or(isInFirst) != isInFirst)
    return fail("found it to lie across the others, [in, out] beside [out, "
                "in], of which an adapter_config.json has one");
  isFanInFirst = isInFirst;

  unsigned number = weight.getArgNumber();
  auto parameter =
      function.getArgAttrOfType<StringAttr>(number, OptimusDialect::kParam);
  ArrayRef<int64_t> shape = cast<RankedTensorType>(weight.getType()).getShape();
  auto dims =
      function.getArgAttrOfType<ArrayAttr>(number, OptimusDialect::kDims);
  auto rankName = StringAttr::get(&getContext(), "rank");
  SmallVector<int64_t> shapeA = {option.rank}, shapeB;
  SmallVector<Attribute> dimsA, dimsB;
  if (dims)
    dimsA.push_back(rankName);
  for (int64_t dim : first.getKDimsOfB()) {
    shapeA.push_back(shape[dim]);
    if (dims)
      dimsA.push_back(dims[dim]);
  }
  for (int64_t dim : first.getNDimsOfB()) {
    shapeB.push_back(shape[dim]);
    if (dims)
      dimsB.push_back(dims[dim]);
  }
  int64_t in = count(ArrayRef(shapeA).drop_front()), out = count(shapeB);
  shapeB.push_back(option.rank);
  if (dims)
    dimsB.push_back(rankName);
  if (option.rank >= std::min(in, out))
    return function.emitError("--lora: expected a rank below ")
           << std::min(in, out) << ", the smaller side of '" << path
           << "', found " << option.rank;

  auto [entry, isNew] = adapters.try_emplace(parameter);
  Adapter &adapter = entry->second;
  if (isNew) {
    // Transformers' class has the model's own module around it.
    StringRef around = modelType == "gpt2" && !path.starts_with("transformer.")
                           ? "transformer."
                           : "";
    adapter = {(kAdapterPrefix + around + path + ".").str(), nextStream++};
  }
  Location loc = weight.getLoc();
  Builder attributes(&getContext());
  auto uniform = InitAttr::get(
      &getContext(), "uniform",
      attributes.getF64FloatAttr(1 / std::sqrt(static_cast<double>(in))),
      adapter.stream);
  auto zeros = InitAttr::get(&getContext(), "zeros",
                             attributes.getF64FloatAttr(0), /*stream=*/0);
  BlockArgument a =
      addParameter(function, number + 1, adapter.prefix + "lora_A.weight",
                   shapeA, {option.rank, in}, dimsA, uniform, loc);
  BlockArgument b =
      addParameter(function, number + 2, adapter.prefix + "lora_B.weight",
                   shapeB, {out, option.rank}, dimsB, zeros, loc);
  LDBG() << path << ": A " << a.getType() << ", B " << b.getType();

  for (MatmulOp product : products) {
    // Behind products of one input, which move it once.
    Operation *reader = nullptr;
    for (Operation *user : product->getUsers())
      if (!reader || user->isBeforeInBlock(reader))
        reader = user;
    if (!reader)
      continue;
    OpBuilder builder(reader);
    auto at = [&](StringRef part) { return withPart(product.getLoc(), part); };
    Value low = MatmulOp::create(builder, at("lora_A"), product.getA(), a,
                                 product.getContracting(),
                                 /*transposeA=*/false, /*transposeB=*/true);
    auto scaleType = RankedTensorType::get({option.rank}, builder.getF32Type());
    Value scale = arith::ConstantOp::create(
        builder, at("lora_scale"),
        DenseElementsAttr::get(scaleType,
                               static_cast<float>(option.alpha / option.rank)));
    Value scaled = MulOp::create(builder, at("lora_scaled"), low, scale);
    Value change = MatmulOp::create(builder, at("lora_B"), scaled, b,
                                    /*contracting=*/1, /*transposeA=*/false,
                                    /*transposeB=*/true);
    auto sum = AddOp::create(builder, at("lora"), product.getResult(), change);
    product.getResult().replaceAllUsesExcept(sum, sum);
  }
  return success();
}

LogicalResult AddAdaptersPass::checkTargets() {
  std::vector<std::string> names;
  for (const std::string &module : modules) {
    std::string last = module.substr(module.rfind('.') + 1);
    if (!llvm::is_contained(names, last))
      names.push_back(last);
  }
  for (const std::string &target : option.targets)
    if (llvm::none_of(adapters, [&](const auto &adapter) {
          return isAt(getModulePath(adapter.first), target);
        }))
      return getOperation().emitError("--lora: no linear is called '")
             << target << "'; modules are " << llvm::join(names, ", ")
             << optimus_support::didYouMean(target, names);
  return success();
}

void AddAdaptersPass::describe() {
  json::Array targets;
  for (const std::string &target : option.targets)
    targets.push_back(target);
  bool isWhole = option.alpha == std::floor(option.alpha) &&
                 option.alpha < static_cast<double>(int64_t(1) << 53);
  json::Value alpha = isWhole ? json::Value(static_cast<int64_t>(option.alpha))
                              : json::Value(option.alpha);
  json::Value task = modelType.empty() || modelType == "bert"
                         ? json::Value(nullptr)
                         : json::Value("CAUSAL_LM");
  json::Object config{{"peft_type", "LORA"},
                      {"task_type", std::move(task)},
                      {"base_model_name_or_path", nullptr},
                      {"r", option.rank},
                      {"lora_alpha", std::move(alpha)},
                      {"target_modules", std::move(targets)},
                      {"fan_in_fan_out", isFanInFirst.value_or(false)},
                      {"lora_dropout", 0.0},
                      {"bias", "none"},
                      {"init_lora_weights", true},
                      {"use_rslora", false},
                      {"use_dora", false},
                      {"modules_to_save", nullptr},
                      {"inference_mode", true}};
  ModuleOp module = getOperation();
  NamedAttrList model;
  if (auto described =
          module->getAttrOfType<DictionaryAttr>(OptimusDialect::kModel))
    model.assign(described.begin(), described.end());
  model.set("adapter",
            StringAttr::get(
                &getContext(),
                llvm::formatv("{0}", json::Value(std::move(config))).str()));
  module->setAttr(OptimusDialect::kModel, model.getDictionary(&getContext()));
}
