//===- ModelFunction.cpp - The facts and the hash of a model --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Manifest/ModelFunction.h"

#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/ModelFacts.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "optimus-support/Hash.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-record-function"

using namespace mlir;
using namespace mlir::optimus;
namespace json = llvm::json;

/// Hashes of other versions cannot be compared. A new one is due when a program
/// of the builders gets another hash, as after an operation got a new name: a
/// test keeps their hashes.
static constexpr int64_t kVersion = 1;

static constexpr StringLiteral kLoss = "loss";

namespace {

/// Hashes what computes the results of a function: a value by its operation and
/// operands, so that neither names nor the order of independent operations
/// matter.
class FunctionHasher {
public:
  explicit FunctionHasher(func::FuncOp function) : function(function) {}
  std::string hash();

private:
  std::string describeArgument(unsigned number);
  std::string describe(Operation &op);
  std::string describeAttributes(Operation &op);
  void set(Value value, const std::string &description) {
    hashes[value] = optimus_support::hash64(description);
  }
  std::string describeOperands(Operation &op);

  func::FuncOp function;
  llvm::DenseMap<Value, uint64_t> hashes;
};

} // namespace

/// A parameter is its name and shape, which are a checkpoint's too. Of an input
/// the shape is that of the batch.
std::string FunctionHasher::describeArgument(unsigned number) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  BufferAttr buffer = getArgumentBuffer(function, number);
  if (buffer && buffer.getLifetime() == Lifetime::Parameter) {
    stream << "parameter " << buffer.getOf().getValue();
    for (int64_t extent :
         cast<ShapedType>(function.getArgumentTypes()[number]).getShape())
      stream << ':' << extent;
    return text;
  }
  stream << "input ";
  if (buffer)
    stream << buffer.getRole();
  else
    stream << number;
  return text;
}

/// An attribute; of the sizes of groups of operands those of version 1: without
/// places, and without pages where there are none.
static Attribute withoutPlaces(Operation &op, NamedAttribute attribute) {
  auto sizes = dyn_cast<DenseI32ArrayAttr>(attribute.getValue());
  if (!sizes || attribute.getName() != "operandSegmentSizes")
    return attribute.getValue();
  ArrayRef<int32_t> kept = sizes.asArrayRef();
  auto attention = dyn_cast<AttentionOp>(op);
  if (attention && !attention.getPages())
    kept = kept.drop_back();
  auto stating = dyn_cast<ModelFactsOpInterface>(op);
  if (stating && stating.getPlaces())
    kept = kept.drop_back();
  return DenseI32ArrayAttr::get(op.getContext(), kept);
}

/// Those that the operation defines, sorted by name. What others attach to it
/// says where it is computed and whence it comes.
std::string FunctionHasher::describeAttributes(Operation &op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  SmallVector<StringRef> incidental;
  if (auto stating = dyn_cast<ModelFactsOpInterface>(op))
    incidental = stating.getIncidentalAttributes();
  Attribute properties = op.getPropertiesAsAttribute();
  auto own = dyn_cast_or_null<DictionaryAttr>(properties);
  if (!own)
    own = op.getAttrDictionary();
  for (NamedAttribute attribute : own)
    if (!llvm::is_contained(incidental, attribute.getName()))
      stream << ' ' << attribute.getName().getValue() << '='
             << withoutPlaces(op, attribute);
  return text;
}

std::string FunctionHasher::describeOperands(Operation &op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  // A document means what it does wherever it stands.
  auto stating = dyn_cast<ModelFactsOpInterface>(op);
  Value places = stating ? stating.getPlaces().value_or(Value()) : Value();
  for (Value operand : op.getOperands())
    if (!places || operand != places)
      stream << ' ' << optimus_support::hashToHex(hashes.lookup(operand));
  return text;
}

std::string FunctionHasher::describe(Operation &op) {
  std::string text = op.getName().getStringRef().str();
  text += describeAttributes(op) + " of" + describeOperands(op);
  // None of ours has regions: another's are what they print as.
  if (op.getNumRegions() != 0) {
    llvm::raw_string_ostream stream(text);
    op.print(stream, OpPrintingFlags().printGenericOpForm().useLocalScope());
  }
  return text;
}

std::string FunctionHasher::hash() {
  for (BlockArgument argument : function.getArguments())
    set(argument, describeArgument(argument.getArgNumber()));
  std::string results;
  for (Operation &op : function.getBody().front()) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      results += describeOperands(op);
      continue;
    }
    auto stating = dyn_cast<ModelFactsOpInterface>(op);
    if (Value standIn = stating ? stating.getStandIn() : Value()) {
      hashes[op.getResult(0)] = hashes.lookup(standIn);
      continue;
    }
    std::string description = describe(op);
    for (OpResult result : op.getResults())
      set(result, (description + " #" + Twine(result.getResultNumber())).str());
  }
  return optimus_support::hashToHex(optimus_support::hash64(results));
}

/// What of the objective the module says besides operations.
static void stateObjective(ModuleOp module, ModelFacts &facts) {
  auto model = module->getAttrOfType<DictionaryAttr>(OptimusDialect::kModel);
  if (!model)
    return;
  for (auto [key, name] : {std::pair<StringRef, StringRef>("objective", "loss"),
                           {"mask_token", "mask_token"},
                           {"pad_token", "pad_token"}})
    if (Attribute value = model.get(key))
      facts.decide(name, value);
}

/// The function of a model without a head, which has no loss; null where there
/// is none.
static func::FuncOp findEncoder(ModuleOp module) {
  for (func::FuncOp function : findEntries(module, EntryKind::Forward))
    for (unsigned result = 0; result != function.getNumResults(); ++result)
      if (BufferAttr buffer = getResultBuffer(function, result);
          buffer && buffer.getRole() == "hidden_states")
        return function;
  return {};
}

void mlir::optimus::recordFunction(ModuleOp module) {
  auto loss = module.lookupSymbol<func::FuncOp>(kLoss);
  if (!loss)
    loss = findEncoder(module);
  if (!loss || !loss.getBody().hasOneBlock() ||
      module->hasAttr(OptimusDialect::kFunction))
    return;
  LDBG() << "@" << loss.getSymName() << " has the hash "
         << FunctionHasher(loss).hash();
  ModelFacts facts(module.getContext());
  stateObjective(module, facts);
  loss.walk([&](ModelFactsOpInterface op) { op.stateFacts(facts); });
  Builder builder(module.getContext());
  module->setAttr(
      OptimusDialect::kFunction,
      builder.getDictionaryAttr(
          {builder.getNamedAttr("version", builder.getI64IntegerAttr(kVersion)),
           builder.getNamedAttr(
               "hash", builder.getStringAttr(FunctionHasher(loss).hash())),
           builder.getNamedAttr("facts", facts.getDeciding()),
           builder.getNamedAttr("incidental", facts.getMentioned())}));
}

static json::Value toValue(Attribute value) {
  if (auto list = dyn_cast<ArrayAttr>(value)) {
    json::Array array;
    for (Attribute element : list)
      array.push_back(toValue(element));
    return array;
  }
  if (auto text = dyn_cast<StringAttr>(value))
    return text.getValue();
  if (auto truth = dyn_cast<BoolAttr>(value))
    return truth.getValue();
  if (auto number = dyn_cast<IntegerAttr>(value))
    return number.getInt();
  if (auto number = dyn_cast<FloatAttr>(value))
    return number.getValueAsDouble();
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

std::optional<json::Object>
mlir::optimus::describeModelFunction(ModuleOp module) {
  auto record =
      module->getAttrOfType<DictionaryAttr>(OptimusDialect::kFunction);
  if (!record)
    return std::nullopt;
  // What a builder was told by a flag it writes into `optimus.model`, under the
  // flag's name.
  auto model = module->getAttrOfType<DictionaryAttr>(OptimusDialect::kModel);
  auto describe = [&](StringRef part) {
    json::Object object;
    for (NamedAttribute fact : record.getAs<DictionaryAttr>(part)) {
      json::Object entry{{"value", toValue(fact.getValue())}};
      StringRef name = fact.getName();
      if (model && model.contains(name)) {
        std::string flag = ("--" + name).str();
        llvm::replace(flag, '_', '-');
        entry["flag"] = flag;
      }
      object[name] = std::move(entry);
    }
    return object;
  };
  return json::Object{
      {"version", record.getAs<IntegerAttr>("version").getInt()},
      {"hash", record.getAs<StringAttr>("hash").getValue()},
      {"facts", describe("facts")},
      {"incidental", describe("incidental")}};
}
