//===- LossFunction.cpp - The function a model builder writes -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LossFunction.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::optimus;

static constexpr StringLiteral kForm =
    "@loss(params…, tokens, targets[, positions][, random]) -> (loss_sum, "
    "real_count)";

StringRef LossFunction::getParamName(int64_t index) const {
  func::FuncOp f = function;
  return f.getArgAttrOfType<StringAttr>(index, OptimusDialect::kParam)
      .getValue();
}

bool LossFunction::isWithout(ModuleOp module) {
  return !module.lookupSymbol(kName) &&
         llvm::any_of(module.getOps<func::FuncOp>(), getEntry);
}

FailureOr<LossFunction> LossFunction::find(ModuleOp module, Params params) {
  auto function = module.lookupSymbol<func::FuncOp>(kName);
  if (!function)
    return module.emitError("expected a function ") << kForm;
  if (!function.getBody().hasOneBlock())
    return function.emitError("expected ")
           << kForm << " to have a body of one block";

  int64_t numParams = 0;
  llvm::StringSet<> names;
  int64_t numArgs = function.getNumArguments();
  for (; numParams < numArgs; ++numParams) {
    Attribute attr = function.getArgAttr(numParams, OptimusDialect::kParam);
    if (!attr)
      break;
    auto name = dyn_cast<StringAttr>(attr);
    if (!name || name.empty())
      return function.emitError("argument ")
             << numParams
             << " of @loss: expected optimus.param to be a name, found "
             << attr;
    if (!names.insert(name.getValue()).second)
      return function.emitError("argument ")
             << numParams << " of @loss: there is another parameter '"
             << name.getValue() << "'";
    auto type =
        dyn_cast<RankedTensorType>(function.getArgument(numParams).getType());
    if (!type || !type.hasStaticShape() ||
        !(type.getElementType().isF32() ||
          (params == Params::Narrowed &&
           isa<FloatType>(type.getElementType()))))
      return function.emitError("argument ")
             << numParams << " of @loss: expected parameter '"
             << name.getValue()
             << "' to be a tensor of f32 with a static shape, found "
             << function.getArgument(numParams).getType();
  }
  int64_t numInputs = numArgs - numParams;
  if (numParams == 0 || numInputs < 2 || numInputs > 4)
    return function.emitError("expected ")
           << kForm << ", parameters being the arguments with optimus.param; "
           << "found " << numParams << " leading parameters and " << numInputs
           << " other arguments";
  // One argument more is what it is bound to, or else random.
  SmallVector<StringRef> inputs = {"tokens", "targets"};
  if (numInputs > 2) {
    BufferAttr third = getArgumentBuffer(function, numParams + 2);
    if (numInputs == 4 || (third && third.getRole() == "positions"))
      inputs.push_back("positions");
    if (std::ssize(inputs) < numInputs)
      inputs.push_back("random");
  }
  for (auto [offset, expected] : llvm::enumerate(inputs)) {
    int64_t index = numParams + offset;
    auto type =
        dyn_cast<RankedTensorType>(function.getArgument(index).getType());
    if (!type || !type.getElementType().isInteger(32))
      return function.emitError("argument ")
             << index << " of @loss: expected " << expected
             << ", a tensor of i32, found "
             << function.getArgument(index).getType();
    BufferAttr buffer = getArgumentBuffer(function, index);
    if (buffer && buffer != getInputBuffer(module.getContext(), expected))
      return function.emitError("argument ")
             << index << " of @loss: expected optimus.binding \"" << expected
             << "\", found \"" << buffer.getName() << '"';
  }

  auto scalar =
      RankedTensorType::get({}, Float32Type::get(module.getContext()));
  if (function.getNumResults() != 2 ||
      !llvm::all_of(function.getResultTypes(),
                    [&](Type type) { return type == scalar; }))
    return function.emitError("expected ")
           << kForm << " with results " << scalar << ", found "
           << function.getResultTypes();
  return LossFunction{function, numParams, std::move(inputs)};
}
