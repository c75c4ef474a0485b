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

#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
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

/// Computes the arguments of a device program that other ones prepare. Adds the
/// parameters that these alone read.
static LogicalResult prepareArguments(func::FuncOp function,
                                      const ArgumentSources &given,
                                      bool areRounded,
                                      MutableArrayRef<Tensor> arguments,
                                      std::vector<NamedTensor> &parameters) {
  if (getEntryKind(function) == EntryKind::Prepare)
    return success();
  llvm::StringMap<unsigned> numbers;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    numbers[getArgumentName(function, i)] = i;
  for (func::FuncOp preparer : findPreparers(function)) {
    auto sources = collectArguments(preparer, given);
    if (!sources.ok())
      return fail(sources.status()), failure();
    if (areRounded)
      roundToTypes(preparer, *sources);
    for (auto [i, source] : llvm::enumerate(*sources)) {
      BufferAttr buffer = getArgumentBuffer(preparer, i);
      std::string name = getArgumentName(preparer, i);
      if (auto known = numbers.find(name); known != numbers.end())
        source = arguments[known->second];
      else if (buffer && buffer.getLifetime() == Lifetime::Parameter)
        parameters.push_back({name, source, /*isInteger=*/false});
    }
    FailureOr<std::vector<NamedTensor>> results =
        interpretAny(preparer, *sources);
    if (failed(results))
      return failure();
    for (NamedTensor &result : *results)
      if (auto number = numbers.find(result.name); number != numbers.end())
        arguments[number->second] = std::move(result.tensor);
  }
  return success();
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
  std::vector<NamedTensor> parameters;
  if (failed(prepareArguments(*function, sources, !flags.against.empty(),
                              *arguments, parameters)))
    return kBadInput;
  FailureOr<std::vector<NamedTensor>> results =
      interpretAny(*function, *arguments);
  if (failed(results))
    return kBadInput;
  if (Status status = report(*results, flags); !status.ok())
    return fail(status);
  if (!flags.against.empty())
    return compareAgainst(flags.against, *function, *arguments, parameters,
                          *results);
  return reference ? compare(*function, reference, *arguments, *results)
                   : kDone;
}
