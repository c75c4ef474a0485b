//===- TrainedParameters.cpp - Which parameters have gradients --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainedParameters.h"

#include "StepBuffers.h"

#include "optimus-support/NearestName.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace mlir::optimus;

/// "; the nearest names are …", of a pattern without a match.
static std::string describeNearest(StringRef pattern,
                                   ArrayRef<StringRef> names) {
  constexpr size_t kMost = 3;
  std::string plain = pattern.str();
  plain.erase(std::remove(plain.begin(), plain.end(), '*'), plain.end());
  SmallVector<StringRef> nearest(names);
  // Of one distance, the program's order.
  llvm::stable_sort(nearest, [&](StringRef a, StringRef b) {
    return a.edit_distance(plain) < b.edit_distance(plain);
  });
  nearest.resize(std::min(nearest.size(), kMost));
  return "; the nearest names are " + llvm::join(nearest, ", ");
}

FailureOr<SmallVector<int64_t>>
mlir::optimus::chooseTrained(const LossFunction &loss, StringRef patterns) {
  SmallVector<int64_t> all =
      llvm::to_vector(llvm::seq<int64_t>(0, loss.numParams));
  if (patterns.empty())
    return all;
  SmallVector<StringRef> names = llvm::map_to_vector(
      all, [&](int64_t index) { return loss.getParamName(index); });
  SmallVector<bool> isTrained(names.size());
  func::FuncOp function = loss.function;
  for (StringRef text : llvm::split(patterns, ';')) {
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(text);
    if (!pattern)
      return function.emitError("--train: expected a name of parameters, in "
                                "which * stands for any part of it; found '")
             << text << "': " << llvm::toString(pattern.takeError());
    bool matches = false;
    for (auto [name, trained] : llvm::zip(names, isTrained))
      if (pattern->match(name))
        matches = trained = true;
    if (!matches)
      return function.emitError("--train: no parameter matches '")
             << text << '\'' << describeNearest(text, names);
  }
  llvm::erase_if(all, [&](int64_t index) { return !isTrained[index]; });
  return all;
}

void mlir::optimus::nameGradients(const LossFunction &loss, func::FuncOp grad,
                                  ArrayRef<int64_t> trained) {
  if (std::ssize(trained) == loss.numParams)
    return;
  MLIRContext *context = grad.getContext();
  StepBuffers buffers(context, /*accumulates=*/false);
  for (auto [place, index] : llvm::enumerate(trained))
    grad.setResultAttr(LossFunction::kNumResults + place,
                       OptimusDialect::kBinding,
                       buffers.getGradient(
                           StringAttr::get(context, loss.getParamName(index))));
}

/// Of a result of @grad: the parameter, −1 where it does not say whose it is.
static int64_t findOwner(const LossFunction &loss, func::FuncOp grad,
                         unsigned result) {
  auto buffer =
      grad.getResultAttrOfType<BufferAttr>(result, OptimusDialect::kBinding);
  for (int64_t index = 0; buffer && index < loss.numParams; ++index)
    if (buffer.getOf() == loss.getParamName(index))
      return index;
  return -1;
}

FailureOr<SmallVector<int64_t>>
mlir::optimus::findTrained(const LossFunction &loss, func::FuncOp grad) {
  constexpr unsigned kFirst = LossFunction::kNumResults;
  SmallVector<int64_t> trained;
  if (grad.getNumResults() > kFirst && findOwner(loss, grad, kFirst) >= 0)
    for (unsigned result = kFirst; result < grad.getNumResults(); ++result)
      trained.push_back(findOwner(loss, grad, result));
  else
    trained = llvm::to_vector(llvm::seq<int64_t>(0, loss.numParams));
  for (auto [place, index] : llvm::enumerate(trained))
    if (index < 0 || (place > 0 && index <= trained[place - 1]))
      return grad.emitError("expected gradients of parameters of @loss, in "
                            "their order, found another binding at result ")
             << kFirst + place;
  func::FuncOp function = loss.function;
  FunctionType lossType = function.getFunctionType();
  SmallVector<Type> results(lossType.getResults());
  for (int64_t index : trained)
    results.push_back(lossType.getInput(index));
  auto expected =
      FunctionType::get(grad.getContext(), lossType.getInputs(), results);
  if (grad.getFunctionType() != expected || !grad.getBody().hasOneBlock())
    return grad.emitError("expected the type ")
           << expected << ", found " << grad.getFunctionType();
  return trained;
}
