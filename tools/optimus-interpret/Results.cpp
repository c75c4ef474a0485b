//===- Results.cpp - Results of a function, printed and written -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Results.h"

#include "Npy.h"

#include "optimus/Interpreter/DeviceInterpreter.h"
#include "optimus/Interpreter/InterpretableOpInterface.h"
#include "optimus/Interpreter/Interpreter.h"
#include "optimus/Tool/Tool.h"

#include "optimus-support/PathUse.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::PathUse;
using optimus_support::Status;

static SmallVector<std::string> getResultNames(func::FuncOp function) {
  if (exec::isDeviceProgram(function))
    return exec::getResultNames(function);
  SmallVector<std::string> names;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    names.push_back(getResultName(function, i));
  return names;
}

Status mlir::optimus::checkFiles(func::FuncOp function,
                                 const ArgumentSources &sources,
                                 const Flags &flags) {
  const std::string &outputs = flags.outputs;
  std::vector<PathUse> from{{"the program", flags.input},
                            {"--against", flags.against}},
      to;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    from.push_back({"--inputs", findArgumentFile(function, i, sources)});
  if (outputs.empty())
    return optimus_support::okStatus();
  if (llvm::sys::fs::exists(outputs) && !llvm::sys::fs::is_directory(outputs))
    return invalidArgument("--outputs: expected a folder, but '" + outputs +
                           "' is none");
  for (StringRef name : getResultNames(function)) {
    // A name may come from the program; files of others are none of its
    // business.
    if (name.find_first_of(StringRef("/\0", 2)) != StringRef::npos)
      return invalidArgument("--outputs: the result '" + name.str() +
                             "' has a name that no file can have");
    to.push_back({"--outputs", flags.getResultPath(name)});
    if (llvm::sys::fs::is_directory(outputs))
      OPTRT_RETURN_IF_ERROR(optimus_support::checkOutput(to.back().path));
  }
  return optimus_support::checkOutputsApart(from, to);
}

static void print(StringRef name, const Tensor &tensor) {
  llvm::outs() << name << " = ";
  if (!tensor.shape.empty())
    llvm::outs() << '[';
  llvm::interleaveComma(tensor.elements, llvm::outs(), [](double x) {
    llvm::outs() << llvm::format("%.10g", x);
  });
  llvm::outs() << (tensor.shape.empty() ? "\n" : "]\n");
}

Status mlir::optimus::report(ArrayRef<NamedTensor> results,
                             const Flags &flags) {
  const std::string &outputs = flags.outputs;
  if (!outputs.empty())
    if (std::error_code error = llvm::sys::fs::create_directories(outputs))
      return invalidArgument("--outputs: cannot make the folder '" + outputs +
                             "': " + error.message());
  for (const NamedTensor &result : results) {
    if (result.tensor.shape.empty() || flags.prints)
      print(result.name, result.tensor);
    if (!outputs.empty())
      OPTRT_RETURN_IF_ERROR(writeNpy(flags.getResultPath(result.name),
                                     result.tensor, result.isInteger));
  }
  return optimus_support::okStatus();
}

int mlir::optimus::compare(func::FuncOp function, func::FuncOp reference,
                           ArrayRef<Tensor> arguments,
                           ArrayRef<NamedTensor> results) {
  FailureOr<SmallVector<Tensor>> expected = interpret(reference, arguments);
  if (failed(expected))
    return 1;
  if (expected->size() != results.size())
    return fail("@" + function.getName() + " has " + Twine(results.size()) +
                " results, @" + reference.getName() + " has " +
                Twine(expected->size()));
  for (auto [result, wanted] : llvm::zip_equal(results, *expected)) {
    const auto &[name, found, isInteger] = result;
    if (found.shape != wanted.shape)
      return fail("result " + name + " has another shape in @" +
                  reference.getName());
    // Sums of up to 10^4 terms in another order, cancelling to a thousandth.
    double distance = getDistance(found, wanted);
    double scale = getMagnitude(wanted);
    if (!std::isfinite(scale))
      return fail("result " + name + " of @" + reference.getName() +
                  " is not finite, so nothing can be compared; give other "
                  "arguments");
    llvm::outs() << name << ": "
                 << llvm::format("%.1e",
                                 scale > 0 ? distance / scale : distance)
                 << " from @" << reference.getName() << "\n";
    if (!(distance <= 1e-9 * scale + 1e-12))
      return fail("result " + name + " of @" + function.getName() +
                  " is not that of @" + reference.getName());
  }
  return 0;
}
