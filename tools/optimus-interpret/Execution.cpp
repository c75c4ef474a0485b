//===- Execution.cpp - The function that the flags name ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Execution.h"

#include "Against.h"
#include "Functions.h"
#include "Gradients.h"
#include "Results.h"

#include "optimus/Interpreter/DeviceInterpreter.h"
#include "optimus/Interpreter/InterpretableOpInterface.h"
#include "optimus/Interpreter/Interpreter.h"
#include "optimus/Tool/Tool.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::Status;

/// Whether a function can be executed on this machine.
static LogicalResult checkMemoryOf(func::FuncOp function) {
  return exec::isDeviceProgram(function) ? exec::checkDeviceMemory(function)
                                         : checkMemory(function);
}

static FailureOr<std::vector<NamedTensor>>
interpretAny(func::FuncOp function, ArrayRef<Tensor> arguments) {
  if (exec::isDeviceProgram(function))
    return exec::interpretDeviceProgram(function, arguments);
  FailureOr<SmallVector<Tensor>> tensors = interpret(function, arguments);
  if (failed(tensors))
    return failure();
  std::vector<NamedTensor> results;
  for (auto [index, tensor] : llvm::enumerate(*tensors))
    results.push_back(
        {getResultName(function, index), std::move(tensor),
         getElementTypeOrSelf(function.getResultTypes()[index]).isInteger()});
  return results;
}

int mlir::optimus::execute(ModuleOp module, const ArgumentSources &sources,
                           const Flags &flags) {
  if (flags.checksGradients)
    return checkGradientsOf(module, sources, flags);

  auto function = getFunction(module, "--function", flags.function);
  if (!function.ok())
    return fail(function.status());
  func::FuncOp reference;
  if (!flags.compareWith.empty()) {
    auto found = getFunction(module, "--compare-with", flags.compareWith);
    if (!found.ok())
      return fail(found.status());
    reference = *found;
    if (exec::isDeviceProgram(reference) || exec::isDeviceProgram(*function))
      return fail("--compare-with: expected functions on tensors, found "
                  "commands; compare these --against a program");
  }
  if (Status status = checkFiles(*function, sources, flags); !status.ok())
    return fail(status);
  if (failed(checkMemoryOf(*function)) ||
      (reference && failed(checkMemory(reference))))
    return kBadInput;
  auto arguments = collectArguments(*function, sources);
  if (!arguments.ok())
    return fail(arguments.status());
  if (!flags.against.empty())
    roundToTypes(*function, *arguments);
  FailureOr<std::vector<NamedTensor>> results =
      interpretAny(*function, *arguments);
  if (failed(results))
    return kBadInput;
  if (Status status = report(*results, flags); !status.ok())
    return fail(status);
  if (!flags.against.empty())
    return compareAgainst(flags.against, *function, *arguments, *results);
  return reference ? compare(*function, reference, *arguments, *results)
                   : kDone;
}
