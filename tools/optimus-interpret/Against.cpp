//===- Against.cpp - Two programs on the same arguments ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Against.h"

#include "optimus/Interpreter/DeviceInterpreter.h"
#include "optimus/Interpreter/Interpreter.h"
#include "optimus/Tool/Files.h"
#include "optimus/Tool/Tool.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// What rounding may do to a result.
struct Rounding {
  double ofItself; ///< relative to its largest element
  /// Relative to the largest of all results: what cancels, as the gradient of
  /// the bias of BERT's keys, is as far off as its terms.
  double ofOthers;
};
} // namespace

/// A device computes in f32, where the reference computes in f64. To first
/// order a result is off by λ·u·R·κ of itself (docs/equivalence.md): λ = 4,
/// u = 2^-24, R about 30 for a layer of every kind that we have, and κ, how
/// much the program enlarges relative errors, up to 14.
static constexpr Rounding kRounding = {1e-4, 0x1p-20};
/// Where activations are narrower, what rounds to one side here may round to
/// the other side there. A difference beyond `verify`'s allowance is no
/// rounding.
static constexpr Rounding kNarrowRounding = {0.1, 0x1p-12};

void mlir::optimus::roundToTypes(func::FuncOp function,
                                 MutableArrayRef<Tensor> arguments) {
  for (auto [type, argument] :
       llvm::zip_equal(function.getArgumentTypes(), arguments))
    if (getElementTypeOrSelf(type).isF32())
      for (double &element : argument.elements)
        element = static_cast<float>(element);
}

/// The arguments of the reference, by the names of those of the function.
static std::optional<SmallVector<Tensor>>
matchArguments(func::FuncOp function, func::FuncOp reference,
               ArrayRef<Tensor> arguments, ArrayRef<NamedTensor> others) {
  llvm::StringMap<const Tensor *> known;
  for (const NamedTensor &other : others)
    known[other.name] = &other.tensor;
  for (auto [number, argument] : llvm::enumerate(arguments))
    known[getArgumentName(function, number)] = &argument;
  SmallVector<Tensor> matched;
  for (unsigned number = 0; number < reference.getNumArguments(); ++number) {
    std::string name = getArgumentName(reference, number);
    const Tensor *argument = known.lookup(name);
    if (!argument) {
      fail("--against: @" + reference.getName() + " takes '" + name +
           "', which the program does not");
      return std::nullopt;
    }
    matched.push_back(*argument);
  }
  return matched;
}

static bool isNarrow(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && element.getWidth() < 32;
}

static Rounding getRoundingOf(func::FuncOp function) {
  WalkResult found = function.walk([](Operation *op) {
    return WalkResult(failure(llvm::any_of(op->getResultTypes(), isNarrow)));
  });
  return found.wasInterrupted() ? kNarrowRounding : kRounding;
}

/// Says where a result is off by more than rounding does, where `largest` is
/// the magnitude of all results.
static bool isSame(const NamedTensor &result, const Tensor &expected,
                   Rounding rounding, double largest) {
  const Tensor &found = result.tensor;
  if (found.shape != expected.shape) {
    fail("--against: result " + result.name + " has another shape there");
    return false;
  }
  double scale = getMagnitude(expected);
  if (!std::isfinite(scale)) {
    fail("--against: result " + result.name +
         " is not finite there, so nothing can be compared; give other "
         "arguments");
    return false;
  }
  double bound =
      std::max(rounding.ofItself * scale, rounding.ofOthers * largest);
  double distance = getDistance(found, expected);
  llvm::outs() << result.name << ": "
               << llvm::format("%.1e", scale > 0 ? distance / scale : distance)
               << " from the reference\n";
  if (distance <= bound)
    return true;
  int64_t worst = 0;
  double most = -1;
  for (int64_t i = 0; i < found.getNumElements() && !std::isnan(most); ++i) {
    double off = std::abs(found[i] - expected[i]);
    if (off > most || std::isnan(off)) {
      worst = i;
      most = off;
    }
  }
  llvm::outs().flush();
  fail(llvm::formatv("--against: element {0} of result {1} is {2:e}; expected "
                     "{3:e}",
                     worst, result.name, found[worst], expected[worst])
           .str());
  return false;
}

static int compareWithReference(func::FuncOp function, func::FuncOp reference,
                                ArrayRef<Tensor> arguments,
                                ArrayRef<NamedTensor> others,
                                ArrayRef<NamedTensor> results) {
  auto matched = matchArguments(function, reference, arguments, others);
  if (!matched || failed(checkMemory(reference)))
    return kBadInput;
  FailureOr<SmallVector<Tensor>> tensors = interpret(reference, *matched);
  if (failed(tensors))
    return kBadInput;
  llvm::StringMap<const Tensor *> expected;
  for (auto [number, tensor] : llvm::enumerate(*tensors))
    expected[getResultName(reference, number)] = &tensor;
  if (expected.size() != results.size())
    return fail("--against: @" + function.getName() + " has " +
                Twine(results.size()) + " results, there " +
                Twine(expected.size()));
  Rounding rounding = getRoundingOf(function);
  double largest = 0;
  for (const Tensor &tensor : *tensors)
    if (!tensor.shape.empty())
      largest = std::max(largest, getMagnitude(tensor));
  bool areSame = true;
  for (const NamedTensor &result : results) {
    const Tensor *tensor = expected.lookup(result.name);
    if (!tensor)
      return fail("--against: there is no result '" + result.name + "' there");
    areSame &= isSame(result, *tensor, rounding, largest);
  }
  return areSame ? kDone : kBadInput;
}

int mlir::optimus::compareAgainst(const std::string &path,
                                  func::FuncOp function,
                                  ArrayRef<Tensor> arguments,
                                  ArrayRef<NamedTensor> others,
                                  ArrayRef<NamedTensor> results) {
  llvm::SourceMgr sourceManager;
  if (auto status = readProgram(path, sourceManager); !status.ok())
    return fail(status);
  SourceMgrDiagnosticHandler handler(sourceManager, function.getContext());
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sourceManager, function.getContext());
  if (!module)
    return kBadInput;
  auto reference = module->lookupSymbol<func::FuncOp>(function.getName());
  if (!reference || reference.isExternal() || exec::isDeviceProgram(reference))
    return fail("--against: expected a function @" + function.getName() +
                " on tensors in '" + path + "'");
  return compareWithReference(function, reference, arguments, others, results);
}
